//! Questions of nodes: signed identities, public keys, variables of templates.
//!
//! ```text
//!   StreamHello, QueryRequest{min_index} --> wait until min_index is applied (5 s)
//!                                        --> identities | keys | templates --> QueryReply
//! ```
//!
//! A stream carries one question. It is answered for the session of its connection alone, and given
//! up where the node leaves.
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | [`REQUEST_BYTES_MAX`] | 1 MiB | the stream ends |
//! | [`BEHIND_MAX`] | 5 s | 503 |
//! | `identities::IDENTITIES_MAX` | 256 a question | 400 |
//! | `templates::WATCHED_MAX` | 2,500 a question | 400 |

mod identities;
mod keys;
mod templates;

pub(super) use identities::places;

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::Snapshot;
use protocol_transport::{FrameReader, FrameWriter};
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use tokio::time::{Instant, timeout};

use super::frames::{parse, write};
use super::streams::{self, OwnStream};
use super::{Gateway, NODE_FRAME_BYTES_MAX};

/// The longest question: 2,500 sources of tasks with long names.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// How long a node may take to ask.
const ASKED_MAX: Duration = Duration::from_secs(10);
/// How long a question waits until this server has applied what the node was told elsewhere.
const BEHIND_MAX: Duration = Duration::from_secs(5);

/// A question that is not answered: the HTTP status that fits, and why.
pub(super) type QueryFailure = (u16, String);

pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) {
    if let Err(reason) = run(gateway, send, recv, connection).await {
        tracing::debug!(%reason, "a question of a node was not answered");
    }
}

async fn run(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
) -> Result<(), String> {
    let mut reader = FrameReader::new(recv, REQUEST_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let own = streams::own(gateway, &mut reader, connection).await?;
    let frame = timeout(ASKED_MAX, reader.expect())
        .await
        .map_err(|_| format!("no question within {ASKED_MAX:?}"))?
        .map_err(|error| error.to_string())?;
    let request: v1::QueryRequest = parse(frame.kind, frame.body)?;
    let reply = tokio::select! {
        reply = answer(gateway, &own, request) => reply,
        // The node asks once: whatever comes is the stream's end.
        _ = reader.read() => return Ok(()),
    };
    let reply = reply.unwrap_or_else(|(status, message)| {
        let status = u32::from(status);
        Reply::Error(v1::QueryError { status, message })
    });
    write(&mut writer, &v1::QueryReply { reply: Some(reply) }).await
}

async fn answer(
    gateway: &Arc<Gateway>,
    own: &OwnStream,
    request: v1::QueryRequest,
) -> Result<Reply, QueryFailure> {
    let v1::QueryRequest { min_index, query } = request;
    let snapshot = applied(gateway, min_index).await?;
    check_session(&snapshot, own)?;
    match query {
        Some(Query::SignIdentities(asked)) => identities::sign(gateway, own, asked, snapshot).await,
        Some(Query::Keys(asked)) => {
            drop(snapshot);
            keys::wait(gateway, own, asked.known_index).await
        }
        Some(Query::Template(asked)) => templates::read(gateway, own, &asked, &snapshot),
        Some(Query::TemplateWatch(watched)) => {
            drop(snapshot);
            templates::watch(gateway, own, watched).await
        }
        None => Err((400, "this server does not know the question".to_owned())),
    }
}

/// The state, once it has applied `min_index`.
async fn applied(gateway: &Gateway, min_index: u64) -> Result<Snapshot, QueryFailure> {
    let deadline = Instant::now() + BEHIND_MAX;
    gateway
        .cluster
        .at_least(min_index, deadline)
        .await
        .map_err(|_| {
            let here = gateway.cluster.snapshot().index();
            let message = format!(
                "this server has applied index {here}, the node was told {min_index}: try again"
            );
            (503, message)
        })
}

/// A session that was taken away meanwhile is answered nothing.
fn check_session(snapshot: &Snapshot, own: &OwnStream) -> Result<(), QueryFailure> {
    let epoch = snapshot.node(own.node).map(|record| record.session.epoch);
    match epoch == Some(own.epoch) {
        true => Ok(()),
        false => Err((
            403,
            format!("session {} of node {} is over", own.epoch, own.node),
        )),
    }
}
