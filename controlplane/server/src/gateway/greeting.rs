//! The stream of a session, from the node's Hello to the Welcome. `session` is what follows.
//!
//! ```text
//!   Hello --NodeHello--> Welcome | Refused            (commit, unless resumed)
//! ```

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::SessionEpoch;
use protocol_transport::{FrameReader, FrameWriter, Handshake, LineLimit, Place};
use protocol_wire::v1;
use tokio::time::{Instant, timeout};

use super::answers::Refuse;
use super::calls::{CallLine, negotiated};
use super::hello::{KnownHello, history, is_of_now, knock, read_hello};
use super::liveness::Heard;
use super::session::{Progress, Session};
use super::{Gateway, NODE_FRAME_BYTES_MAX};

/// How long a node may take to say Hello.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// What a node says in one frame. Parts of a report are 256 KiB, and one report that is larger
/// alone; a message of this size is a hundred times that in memory at the very worst.
const FRAME_BYTES_MAX: usize = 1024 * 1024;

static NO_HELLO: LineLimit = LineLimit::new();
static REFUSED: LineLimit = LineLimit::new();

/// Serves a session to its end.
pub(super) async fn serve(
    gateway: &Arc<Gateway>,
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    connection: &quinn::Connection,
    mut handshake: Handshake,
    place: &Place,
) {
    let mut reader = FrameReader::new(recv, FRAME_BYTES_MAX);
    let mut writer = FrameWriter::new(send, NODE_FRAME_BYTES_MAX);
    let first = first_message(gateway, &mut reader, &mut writer, connection);
    let Some(hello) = Box::pin(first).await else {
        return;
    };
    // What else a Hello brings about may end a session that stands: the node must be there itself.
    let named = SessionEpoch(hello.message.last_epoch);
    if !Box::pin(is_of_now(gateway, hello.node, named, &mut handshake)).await {
        return;
    }
    let (node, greeted) = (hello.node, Instant::now());
    let calls = Arc::new(CallLine::new(negotiated(&hello.message)));
    let watermark = hello.message.watermark.clone();
    let address = connection.remote_address().ip().to_canonical();
    let welcome = match Box::pin(knock(gateway, hello, address, &mut handshake)).await {
        Ok(welcome) => welcome,
        Err(refused) => {
            if let Some(left_out) = REFUSED.admit() {
                tracing::info!(%node, reason = %refused.message, left_out, "node refused");
            }
            let _ = refused.send(gateway, &mut writer).await;
            return;
        }
    };
    if let Some(reason) = connection.close_reason() {
        // It hung up while its Hello waited, and may come again only after a while: the leader must
        // not take it for one that is back.
        tracing::info!(%node, %reason, "a node left before its Hello was answered");
        return;
    }
    let epoch = welcome.epoch;
    let since = Instant::now();
    if !gateway.open_session(node, epoch, connection, since, &calls) {
        let _ = Refuse::overfull(gateway).send(gateway, &mut writer).await;
        return;
    }
    tracing::info!(%node, %epoch, kind = ?welcome.kind, "node session");
    // A node that goes on here is heard by its Hello: its heartbeats may be lost for a while.
    gateway.heard.heard(Heard {
        node,
        epoch,
        at: greeted,
        sent_boottime_ns: 0,
    });
    // Asked of a state that knows this session: its incarnation is the session's.
    let history = history(gateway, watermark.as_ref());
    let session = Session {
        gateway,
        node,
        epoch,
        history,
        connection,
        place,
        since,
        calls,
        progress: Progress::default(),
    };
    let reason = session.run(welcome, reader, &mut writer).await;
    tracing::info!(%node, %epoch, %reason, "node session ended");
    gateway.close_session(node, epoch, connection);
}

/// The Hello; `None` where there is none in time, or the node was told what is wrong with it.
async fn first_message(
    gateway: &Gateway,
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    connection: &quinn::Connection,
) -> Option<KnownHello> {
    let reason = match timeout(HELLO_MAX, read_hello(reader)).await {
        Ok(Ok(hello)) => return Some(hello),
        Ok(Err(reason)) => reason,
        Err(_) => return None,
    };
    if let Some(left_out) = NO_HELLO.admit() {
        let remote = connection.remote_address();
        tracing::warn!(
            %remote, %reason, left_out,
            "connection refused: its first message is not a valid Hello"
        );
    }
    let refused = Refuse::new(v1::RefusedReason::Malformed, reason);
    let _ = refused.send(gateway, writer).await;
    None
}
