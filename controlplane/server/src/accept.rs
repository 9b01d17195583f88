//! Who may come in by QUIC, and which part of the server serves each of their streams.

use std::sync::Arc;

use controlplane_raft::Raft;
use protocol_transport::{
    Handshake, LineLimit, Listener, Peer, PeerIdentity, Place, Region, Role, StreamKind, close_code,
};

use crate::forward::Forward;
use crate::gateway::Gateway;

static OTHER_REGION: LineLimit = LineLimit::new();
static STREAM_REFUSED: LineLimit = LineLimit::new();
static NOT_SERVED: LineLimit = LineLimit::new();

/// What a connection can reach. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    /// The only region whose servers and nodes are let in: another region under the same authority
    /// has a cluster of its own.
    pub(crate) region: Region,
    pub(crate) raft: Raft,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) forward: Forward,
}

/// Accepts connections, and on each of them streams.
pub(crate) async fn accept(mut listener: Listener, doors: Doors) {
    while let Some(peer) = listener.accept().await {
        tokio::spawn(serve_peer(peer, doors.clone()));
    }
}

async fn serve_peer(peer: Peer, doors: Doors) {
    let Peer {
        connection,
        identity,
        handshake,
        place,
    } = peer;
    if identity.region != doors.region {
        let reason = format!(
            "this is region {}, the certificate is of region {}",
            doors.region, identity.region
        );
        if let Some(left_out) = OTHER_REGION.admit() {
            let remote = connection.remote_address();
            tracing::warn!(peer = %identity, %remote, %reason, left_out, "peer refused");
        }
        connection.close(close_code::NOT_WELCOME.into(), reason.as_bytes());
        return;
    }
    if identity.role == Role::Server {
        let (gateway, connection) = (Arc::clone(&doors.gateway), connection.clone());
        tokio::spawn(async move { gateway.lateness().read(&connection).await });
    }
    let identity = Arc::new(identity);
    while let Ok((send, recv)) = connection.accept_bi().await {
        let stream = serve_stream(
            send,
            recv,
            (connection.clone(), handshake.clone(), place.clone()),
            Arc::clone(&identity),
            doors.clone(),
        );
        tokio::spawn(stream);
    }
}

/// Serves a stream to its end. The futures of its kinds are boxed, here and in the gateway: a node
/// has four streams for as long as it lives, and each task would be as large as the largest future.
async fn serve_stream(
    send: quinn::SendStream,
    mut recv: quinn::RecvStream,
    (connection, mut handshake, place): (quinn::Connection, Handshake, Place),
    identity: Arc<PeerIdentity>,
    doors: Doors,
) {
    let kind = match StreamKind::read(&mut recv, identity.role).await {
        Ok(kind) => kind,
        Err(error) => {
            if let Some(left_out) = STREAM_REFUSED.admit() {
                tracing::warn!(peer = %identity, %error, left_out, "stream refused");
            }
            return;
        }
    };
    if kind == StreamKind::NodeSession && identity.role == Role::Node {
        let session = doors
            .gateway
            .serve_session(send, recv, &connection, handshake, place);
        return Box::pin(session).await;
    }
    // Nothing but a Hello may come before the peer is known to be there.
    if !handshake.done().await {
        return;
    }
    match (kind, identity.role) {
        (StreamKind::Raft, _) => {
            if let Err(error) = Box::pin(doors.raft.serve_stream(&identity, send, recv)).await {
                tracing::debug!(peer = %identity, %error, "a log call was not answered");
            }
        }
        (StreamKind::Forward, _) => Box::pin(doors.forward.serve(send, recv, &connection)).await,
        (kind, Role::Node) => doors.gateway.serve(kind, send, recv, connection).await,
        (kind, role) => {
            if let Some(left_out) = NOT_SERVED.admit() {
                tracing::warn!(%kind, %role, left_out, "stream refused: unknown kind for this role");
            }
        }
    }
}
