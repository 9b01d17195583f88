//! Whose stream it is: update and watch streams belong to the connection that said Hello.
//!
//! A node's certificate proves that its holder is some node, and the session's Hello proves which,
//! by the node's secret. A later stream only names its session. So it is believed on the connection
//! on which the secret was shown and on no other: a node may not read or report for another one
//! whose id and epoch it knows. A connection survives a change of its addresses.

use std::time::Duration;

use controlplane_state::SessionEpoch;
use protocol_model::NodeId;
use protocol_transport::frame::Frame;
use protocol_transport::{FrameReader, LineLimit};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;
use tokio::time::timeout;

use super::Gateway;
use super::detail::Told;
use super::held::SessionEntry;

/// How long a node may take to say whose stream it is.
const SAID_MAX: Duration = Duration::from_secs(10);

static REFUSED: LineLimit = LineLimit::new();

/// A stream whose session is known.
#[derive(Debug)]
pub(super) struct OwnStream {
    pub(super) node: NodeId,
    pub(super) epoch: SessionEpoch,
    /// What the stream said of itself.
    pub(super) hello: v1::StreamHello,
    /// The session.
    pub(super) entry: SessionEntry,
}

impl OwnStream {
    /// Who tells what is said on it.
    pub(super) fn told(&self) -> Told {
        Told {
            node: self.node,
            epoch: self.epoch,
            via: self.entry.since,
        }
    }
}

/// Reads which session a stream on `connection` belongs to.
///
/// # Errors
/// When it says nothing that makes sense, or names a session that was not made on `connection`.
pub(super) async fn own(
    gateway: &Gateway,
    reader: &mut FrameReader,
    connection: &quinn::Connection,
) -> Result<OwnStream, String> {
    let first = timeout(SAID_MAX, reader.expect())
        .await
        .map_err(|_| format!("it did not say whose it is within {SAID_MAX:?}"))?
        .map_err(|error| error.to_string())?;
    own_of(gateway, first, connection)
}

/// The session that the first frame of a stream on `connection` names.
///
/// # Errors
/// As [`own`].
pub(super) fn own_of(
    gateway: &Gateway,
    first: Frame,
    connection: &quinn::Connection,
) -> Result<OwnStream, String> {
    let hello: v1::StreamHello =
        from_frame(first.kind, first.body).map_err(|error| error.to_string())?;
    let node = NodeId::from_slice(&hello.node_id).ok_or("the node id is not 16 bytes")?;
    let epoch = SessionEpoch(hello.epoch);
    let entry = {
        let sessions = gateway.sessions.lock();
        let newest = sessions.newest(node).filter(|entry| entry.epoch == epoch);
        if newest.is_none() {
            return Err(format!("node {node} has no session {epoch} here"));
        }
        sessions.on(node, connection).cloned()
    };
    let Some(entry) = entry else {
        if let Some(left_out) = REFUSED.admit() {
            tracing::warn!(
                %node, %epoch, remote = %connection.remote_address(), left_out,
                "a stream for a session of another connection was refused"
            );
        }
        return Err(format!(
            "session {epoch} of node {node} was made on another connection"
        ));
    };
    Ok(OwnStream {
        node,
        epoch,
        hello,
        entry,
    })
}
