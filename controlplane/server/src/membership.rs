//! Who belongs to the log and who leads it, changed by an operator through any server.
//!
//! ```text
//!   HTTP at server A --MembershipRequest--> the leader --> the log's members
//! ```

use std::time::Duration;

use controlplane_raft::{ChangeError, Leader, Raft, RaftStatus, ReadError, ServerId};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use protocol_wire::v1::membership_reply::Kind;
use protocol_wire::v1::membership_request::Change;
use tokio::time::{Instant, sleep};

use crate::cluster::{CallError, Cluster};

/// How long a change waits for a leader, over an election.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the next try.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// On the wire, in place of the server that shall lead: whichever the leader chooses. No server has
/// it, so that a leader of the first release refuses it.
const ANY_SERVER: u64 = 0;

/// What an operator wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembershipChange {
    /// This voter leads from now on.
    Transfer(ServerId),
    /// The voter leads from now on that the leader knows to be furthest, of those that answer.
    TransferAway,
    /// This server is no member any more.
    Remove(ServerId),
}

/// Why it did not happen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MembershipError {
    /// Nobody who leads could be reached. Nothing changed.
    #[error("no leader of the cluster could be reached within {PATIENCE:?}")]
    NoLeader,
    /// No member has this id. Nothing changed.
    #[error("{0}")]
    UnknownServer(String),
    /// Another change is under way. Nothing changed.
    #[error("{0}")]
    InProgress(String),
    /// The change makes no sense. Nothing changed.
    #[error("{0}")]
    Refused(String),
    /// It may have happened.
    #[error("{0}; look at the members before trying again")]
    OutcomeUnknown(String),
}

/// Carries out `change`, here or at the leader.
///
/// # Errors
/// See [`MembershipError`].
pub async fn change(cluster: &Cluster, change: MembershipChange) -> Result<(), MembershipError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let tried = match here(cluster, change).await {
            Err(ChangeError::NotLeader { leader }) => there(cluster, &leader, change).await,
            other => other.map_err(|error| told(&reply(Err(error)))),
        };
        match tried {
            Err(MembershipError::NoLeader) if Instant::now() + RETRY_PAUSE < deadline => {
                sleep(RETRY_PAUSE).await;
            }
            done => return done,
        }
    }
}

/// Answers another server's request: only a leader can.
pub(crate) async fn serve(
    cluster: &Cluster,
    request: v1::MembershipRequest,
) -> Result<v1::MembershipReply, String> {
    let change = match request
        .change
        .ok_or("a membership request without a change")?
    {
        Change::TransferTo(ANY_SERVER) => MembershipChange::TransferAway,
        Change::TransferTo(id) => MembershipChange::Transfer(ServerId::from_u64(id)),
        Change::Remove(id) => MembershipChange::Remove(ServerId::from_u64(id)),
    };
    Ok(reply(here(cluster, change).await))
}

async fn here(cluster: &Cluster, change: MembershipChange) -> Result<(), ChangeError> {
    match change {
        MembershipChange::Transfer(to) => cluster.raft().transfer_leadership(to).await,
        MembershipChange::TransferAway => transfer_away(cluster.raft()).await,
        MembershipChange::Remove(id) => cluster.raft().remove_server(id).await,
    }
}

/// Only the leader knows who is furthest; and without a majority nobody could take over.
async fn transfer_away(raft: &Raft) -> Result<(), ChangeError> {
    raft.leader_read_barrier()
        .await
        .map_err(|error| match error {
            ReadError::NotLeader { leader } => ChangeError::NotLeader { leader },
            ReadError::Unavailable { waited } => ChangeError::Unavailable { waited },
            ReadError::Stopped(error) => ChangeError::Stopped(error),
        })?;
    let asked = Instant::now();
    match raft.successor() {
        Some(next) => raft.transfer_leadership(next).await,
        None => Err(no_successor(&raft.standing().borrow(), asked.elapsed())),
    }
}

/// Why nobody can be handed the leadership: it may have been lost since it was confirmed, and what
/// is tried again then is not a refusal.
fn no_successor(standing: &RaftStatus, waited: Duration) -> ChangeError {
    match &standing.leader {
        Some(leader) if leader.id != standing.id => ChangeError::NotLeader {
            leader: leader.clone(),
        },
        _ if !standing.is_leader() => ChangeError::Unavailable { waited },
        _ => {
            let mut voters = standing.membership.voters.keys();
            let words = if voters.any(|id| *id != standing.id) {
                "no other voter has answered lately"
            } else {
                "there is no other voter"
            };
            ChangeError::Refused(words.to_owned())
        }
    }
}

async fn there(
    cluster: &Cluster,
    leader: &Leader,
    change: MembershipChange,
) -> Result<(), MembershipError> {
    let change = match change {
        MembershipChange::Transfer(to) => Change::TransferTo(to.as_u64()),
        MembershipChange::TransferAway => Change::TransferTo(ANY_SERVER),
        MembershipChange::Remove(id) => Change::Remove(id.as_u64()),
    };
    let names_nobody = change == Change::TransferTo(ANY_SERVER);
    let request = v1::MembershipRequest {
        change: Some(change),
    };
    let called: Result<v1::MembershipReply, CallError> =
        cluster.call(leader, StreamKind::Forward, &request).await;
    match called {
        Ok(reply) if reply.kind == i32::from(Kind::Done) => Ok(()),
        Ok(reply) if names_nobody && reply.kind == i32::from(Kind::UnknownServer) => {
            let told = "the leader is of an older release: name the server that is to lead";
            Err(MembershipError::Refused(told.to_owned()))
        }
        Ok(reply) => Err(told(&reply)),
        Err(CallError::NotSent(_)) => Err(MembershipError::NoLeader),
        // It was sent: the leader may have done it.
        Err(error @ (CallError::Broken(_) | CallError::Nonsense(_))) => {
            Err(MembershipError::OutcomeUnknown(error.to_string()))
        }
    }
}

fn reply(done: Result<(), ChangeError>) -> v1::MembershipReply {
    let Err(error) = done else {
        return v1::MembershipReply::default();
    };
    let kind = match &error {
        ChangeError::NotLeader { .. } => Kind::NotLeader,
        ChangeError::Unavailable { .. } => Kind::Unavailable,
        ChangeError::UnknownServer(_) => Kind::UnknownServer,
        ChangeError::InProgress => Kind::InProgress,
        ChangeError::NotVoter(_)
        | ChangeError::LastVoter(_)
        | ChangeError::AddressTaken { .. }
        | ChangeError::TooManyServers(_)
        | ChangeError::Refused(_) => Kind::Refused,
        ChangeError::OutcomeUnknown | ChangeError::Stopped(_) => Kind::OutcomeUnknown,
    };
    v1::MembershipReply {
        kind: kind.into(),
        message: error.to_string(),
    }
}

fn told(reply: &v1::MembershipReply) -> MembershipError {
    let words = reply.message.clone();
    match Kind::try_from(reply.kind) {
        Ok(Kind::NotLeader | Kind::Unavailable) => MembershipError::NoLeader,
        Ok(Kind::UnknownServer) => MembershipError::UnknownServer(words),
        Ok(Kind::InProgress) => MembershipError::InProgress(words),
        Ok(Kind::Refused) => MembershipError::Refused(words),
        // A kind that only a newer server knows is no success here.
        Ok(Kind::OutcomeUnknown | Kind::Done) | Err(_) => MembershipError::OutcomeUnknown(words),
    }
}

#[cfg(test)]
mod tests {
    use controlplane_raft::{Membership, RaftRole, ServerInfo};

    use super::*;

    /// How server 1 stands in a cluster of `voters`, of which one leads.
    fn standing(voters: &[u64], leader: Option<u64>) -> RaftStatus {
        let voters = voters.iter().copied().map(ServerId::from_u64);
        RaftStatus {
            id: ServerId::from_u64(1),
            role: match leader {
                Some(1) => RaftRole::Leader,
                Some(_) => RaftRole::Follower,
                None => RaftRole::Candidate,
            },
            term: 3,
            leader: leader.map(|id| Leader {
                id: ServerId::from_u64(id),
                info: None,
            }),
            last_index: 9,
            committed_index: 9,
            applied_index: 9,
            snapshot_index: 0,
            purged_index: 0,
            membership: Membership {
                voters: voters.map(|id| (id, ServerInfo::default())).collect(),
                ..Membership::default()
            },
            failure: None,
        }
    }

    fn why(voters: &[u64], leader: Option<u64>) -> ChangeError {
        no_successor(&standing(voters, leader), Duration::ZERO)
    }

    #[test]
    fn who_has_lost_the_leadership_meanwhile_does_not_say_that_it_is_alone() {
        let elsewhere = why(&[1, 2, 3], Some(2));
        assert!(matches!(elsewhere, ChangeError::NotLeader { .. }));
        assert!(matches!(
            why(&[1, 2, 3], None),
            ChangeError::Unavailable { .. }
        ));
    }

    #[test]
    fn a_leader_tells_silent_voters_from_none() {
        let said = why(&[1, 2, 3], Some(1)).to_string();
        assert!(said.contains("answered lately"), "{said}");
        let said = why(&[1], Some(1)).to_string();
        assert!(said.contains("there is no other voter"), "{said}");
    }
}
