//! Requests of other servers: for KEKs, and to keep one. Only a server's certificate of this region
//! opens the stream (`accept`); here members of the log are told from others, and the leader from
//! members.
//!
//! A certificate names no server: a request could name any member. So the member that it names is
//! asked, at the address that the log has, whether it sent the request. A server that was removed
//! has no such address.
//!
//! ```text
//!   asker --KekRequest{server_id, proof}--> this server --KekProofRequest{proof}--> server_id
//!   asker <------------KekReply------------ this server <---KekProofReply{sent}----
//! ```

use std::time::Duration;

use bytes::Bytes;
use controlplane_keyring::{Kek, KekId};
use controlplane_raft::{RaftStatus, ServerId};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use tokio::time::timeout;

use super::service::KekService;
use crate::cluster::Cluster;

/// How long the member that a request names may take to say that it sent it: less than it waits
/// for the answer.
const PROOF_MAX: Duration = Duration::from_secs(3);

impl KekService {
    /// Answers which KEKs this server has on its disk, with the keys.
    pub(crate) async fn serve_request(
        &self,
        cluster: &Cluster,
        request: &v1::KekRequest,
    ) -> v1::KekReply {
        let id = match request.kek_id.as_ref() {
            [] => None,
            id => match KekId::from_slice(id) {
                Some(id) => Some(id),
                None => return refused("a KEK id has 8 bytes"),
            },
        };
        let proven = prove_sender(cluster, request.server_id, &request.proof).await;
        if let Err(reason) = proven {
            tracing::warn!(server = request.server_id, reason, "no KEK was handed out");
            return refused(reason);
        }
        if !self.is_loaded() {
            return refused("the KEKs of this server are not read yet");
        }
        let keks = self.keks(id);
        let ids: Vec<String> = keks.iter().map(|kek| kek.id().to_string()).collect();
        let server = ServerId::from_u64(request.server_id);
        tracing::info!(%server, ?ids, "KEKs handed out to another server");
        v1::KekReply {
            keks: keks
                .iter()
                .map(|kek| kek.reveal().to_vec().into())
                .collect(),
            refused: String::new(),
        }
    }

    /// Answers whether this server sent a request with this proof to the sender, and still waits.
    pub(crate) fn serve_proof(&self, request: &v1::KekProofRequest) -> v1::KekProofReply {
        v1::KekProofReply {
            sent: self.proofs().is_pending(&request.proof, request.server_id),
        }
    }

    /// Keeps the KEK that the leader hands out.
    pub(crate) async fn serve_store(
        &self,
        cluster: &Cluster,
        request: &v1::KekStore,
    ) -> v1::KekReply {
        let Some(kek) = Kek::from_slice(&request.kek) else {
            return refused("a KEK has 32 bytes");
        };
        if let Err(reason) = prove_leader(cluster, request).await {
            tracing::warn!(server = request.server_id, reason, "a KEK was not kept");
            return refused(reason);
        }
        if !self.is_loaded() {
            return refused("the KEKs of this server are not read yet");
        }
        let id = kek.id();
        match self.keep(kek).await {
            Ok(()) => v1::KekReply::default(),
            Err(reason) => {
                tracing::error!(kek = %id, reason, "the leader's KEK was not kept");
                refused(reason)
            }
        }
    }
}

fn refused(reason: impl Into<String>) -> v1::KekReply {
    v1::KekReply {
        keks: Vec::new(),
        refused: reason.into(),
    }
}

/// KEKs go to members of the log alone: not to a server that was removed.
fn member(status: &RaftStatus, server: u64) -> Result<(), &'static str> {
    match status.membership.contains(ServerId::from_u64(server)) {
        true => Ok(()),
        false => Err("the server is no member of this cluster's log"),
    }
}

/// The leader sent the KEK: it says so itself.
async fn prove_leader(cluster: &Cluster, request: &v1::KekStore) -> Result<(), String> {
    leader(&cluster.status(), request.server_id, request.term)?;
    prove_sender(cluster, request.server_id, &request.proof).await
}

/// The member of this id sent the request with this proof: it says so itself.
async fn prove_sender(cluster: &Cluster, server: u64, proof: &Bytes) -> Result<(), String> {
    let status = cluster.status();
    member(&status, server)?;
    let info = status.membership.get(ServerId::from_u64(server));
    let address = &info.ok_or("the member has no address")?.address;
    let question = v1::KekProofRequest {
        server_id: cluster.server_id().as_u64(),
        proof: proof.clone(),
    };
    let asked = cluster.call_address(address, StreamKind::Forward, &question);
    let reply: v1::KekProofReply = timeout(PROOF_MAX, asked)
        .await
        .map_err(|_| format!("{address} did not confirm the request within {PROOF_MAX:?}"))?
        .map_err(|error| format!("{address} did not confirm the request: {error}"))?;
    match reply.sent {
        true => Ok(()),
        false => Err(format!("the member at {address} did not send the request")),
    }
}

/// A KEK comes from the leader alone, in the term in which it leads.
fn leader(status: &RaftStatus, server: u64, term: u64) -> Result<(), &'static str> {
    member(status, server)?;
    let leads = status.leader.as_ref();
    let leads = leads.is_some_and(|leader| leader.id.as_u64() == server);
    match leads && status.term == term {
        true => Ok(()),
        false => Err("the server does not lead, as far as this one knows"),
    }
}

#[cfg(test)]
mod tests {
    use controlplane_raft::{Leader, Membership, RaftRole, ServerInfo};

    use super::*;

    /// Server 1 as a follower of 2 in a cluster of 1, 2 and 3.
    fn status() -> RaftStatus {
        let [one, two, three] = [1, 2, 3].map(ServerId::from_u64);
        RaftStatus {
            id: one,
            role: RaftRole::Follower,
            term: 7,
            leader: Some(Leader {
                id: two,
                info: None,
            }),
            last_index: 9,
            committed_index: 9,
            applied_index: 9,
            snapshot_index: 0,
            purged_index: 0,
            membership: Membership {
                voters: [one, two].map(|id| (id, ServerInfo::default())).into(),
                learners: [(three, ServerInfo::default())].into(),
                ..Membership::default()
            },
            failure: None,
        }
    }

    #[test]
    fn members_are_told_from_servers_that_were_removed() {
        for server in [1, 2, 3] {
            member(&status(), server).expect("it is a member");
        }
        member(&status(), 4).expect_err("it is none");
    }

    #[test]
    fn a_kek_is_taken_from_the_leader_of_this_term_alone() {
        leader(&status(), 2, 7).expect("it leads");
        leader(&status(), 2, 6).expect_err("another term");
        leader(&status(), 2, 8).expect_err("another term");
        leader(&status(), 3, 7).expect_err("a learner");
        leader(&status(), 4, 7).expect_err("no member");
        let leaderless = RaftStatus {
            leader: None,
            ..status()
        };
        leader(&leaderless, 2, 7).expect_err("it is not known to lead");
    }
}
