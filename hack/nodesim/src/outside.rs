//! What a simulated node's sessions reach: servers, through the socket that it shares with all
//! others, over a wire of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use noded_daemon::session::{Outside, Purpose};
use protocol_transport::door::Wish;
use protocol_transport::{ConnectError, Dialed, Endpoint, Secret};

use crate::net::{Wire, runtime};
use crate::progress::Progress;

/// See the top of this file.
#[derive(Debug)]
pub struct SharedSocket {
    /// The socket of all nodes, with what servers gave this one to come back with.
    pub endpoint: Endpoint,
    /// This node's wire.
    pub wire: Arc<Wire>,
    /// What new nodes show.
    pub join_token: Secret,
    /// How far this node's session is.
    pub progress: Arc<Progress>,
}

impl Outside for SharedSocket {
    fn connect(
        &self,
        address: SocketAddr,
        purpose: Purpose,
        wish: Wish,
    ) -> BoxFuture<'_, Result<Dialed, ConnectError>> {
        let wire = Arc::clone(&self.wire);
        if purpose == Purpose::Session {
            self.progress.on_connecting();
            let dialing = self.endpoint.connect_early(address, wish);
            return Box::pin(runtime::connecting(wire, dialing));
        }
        let connecting = self.endpoint.connect_wishing(address, wish);
        let dialing = async { Ok(connecting.await?.into()) };
        Box::pin(runtime::connecting(wire, dialing))
    }

    fn join_token(&self) -> Option<Secret> {
        Some(self.join_token.clone())
    }

    fn accept_call(&self, mut send: quinn::SendStream, mut recv: quinn::RecvStream) {
        // There are no files and no processes to ask about. An error means it has ended already.
        let _ = send.reset(0_u32.into());
        let _ = recv.stop(0_u32.into());
    }
}
