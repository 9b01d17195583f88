//! Other servers' KEKs: asked for where this server lacks one, and handed to them.

use std::time::Duration;

use controlplane_keyring::{Kek, KekId};
use controlplane_raft::{ServerId, ServerInfo};
use futures::future::join_all;
use protocol_transport::StreamKind;
use protocol_wire::kind::FrameMessage;
use protocol_wire::v1;
use tokio::time::timeout;

use super::service::KekService;
use crate::cluster::Cluster;

/// How long another server may take to answer. It may sync a file.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Asks for the KEKs that root keys of the state need and this server lacks, after a look at its
/// own disk. Answers whether none is missing now.
pub(super) async fn fetch_missing(service: &KekService, cluster: &Cluster) -> bool {
    if !service.keyring().missing_keks().is_empty() {
        service.look_again().await;
    }
    let mut complete = true;
    for id in service.keyring().missing_keks() {
        match fetch(service, cluster, id).await {
            Some(kek) => take(service, kek).await,
            None => complete = false,
        }
    }
    complete
}

async fn take(service: &KekService, kek: Kek) {
    let id = kek.id();
    if let Err(reason) = service.keep(kek.clone()).await {
        // It works until this process ends, and is asked for again by the next one.
        tracing::error!(kek = %id, reason, "a KEK is in memory alone: it could not be stored");
        service.add(kek).await;
    }
}

/// The KEK of this id, from any other member.
async fn fetch(service: &KekService, cluster: &Cluster, id: KekId) -> Option<Kek> {
    let members = cluster.status().membership;
    let own = cluster.server_id();
    let all = members.voters.iter().chain(&members.learners);
    let others = all.filter(|(server, _)| **server != own);
    let asked = others.map(|server| ask(service, cluster, server, Some(id)));
    let answers = join_all(asked).await;
    let keks = answers.into_iter().filter_map(Result::ok).flatten();
    keks.into_iter().find(|kek| kek.id() == id)
}

/// Asks a server for one KEK, or all.
///
/// # Errors
/// When it does not answer, or refuses: the reason.
pub(super) async fn ask(
    service: &KekService,
    cluster: &Cluster,
    (server, info): (&ServerId, &ServerInfo),
    id: Option<KekId>,
) -> Result<Vec<Kek>, String> {
    let proof = service.proofs().begin(*server);
    let request = v1::KekRequest {
        server_id: cluster.server_id().as_u64(),
        kek_id: id.map_or_else(Vec::new, |id| id.as_bytes().to_vec()).into(),
        proof: proof.bytes().to_vec().into(),
    };
    let reply = call(cluster, info, &request).await?;
    let keks = reply.keks.iter().map(|kek| Kek::from_slice(kek));
    let keks: Option<Vec<Kek>> = keks.collect();
    keks.ok_or_else(|| "the answer holds something that is no KEK".to_owned())
}

/// Hands a KEK to a server, as the leader of `term`. It is on that server's disk then.
///
/// # Errors
/// When that server does not answer, or refuses: the reason.
pub(super) async fn hand_out(
    service: &KekService,
    cluster: &Cluster,
    (server, info): (&ServerId, &ServerInfo),
    term: u64,
    kek: &Kek,
) -> Result<(), String> {
    let proof = service.proofs().begin(*server);
    let request = v1::KekStore {
        server_id: cluster.server_id().as_u64(),
        term,
        kek: kek.reveal().to_vec().into(),
        proof: proof.bytes().to_vec().into(),
    };
    call(cluster, info, &request).await.map(drop)
}

async fn call(
    cluster: &Cluster,
    server: &ServerInfo,
    request: &impl FrameMessage,
) -> Result<v1::KekReply, String> {
    let called = cluster.call_address(&server.address, StreamKind::Forward, request);
    let reply: v1::KekReply = timeout(ANSWER_MAX, called)
        .await
        .map_err(|_| format!("no answer within {ANSWER_MAX:?}"))?
        .map_err(|error| error.to_string())?;
    match reply.refused.as_str() {
        "" => Ok(reply),
        reason => Err(reason.to_owned()),
    }
}
