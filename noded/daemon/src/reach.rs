//! What noded's sessions reach outside of themselves: servers through the node's socket, calls of
//! operators, the join token of the configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use protocol_transport::{ConnectError, Endpoint, Secret};

use crate::calls::CallServer;
use crate::config::LiveConfig;
use crate::session::{NODE_FRAME_BYTES_MAX, Outside, Purpose};

/// See the top of this file.
#[derive(Debug)]
pub struct Reach {
    /// The node's one UDP socket.
    pub endpoint: Endpoint,
    /// The node's configuration: it may change between two attempts.
    pub config: LiveConfig,
    /// Who answers calls.
    pub calls: Arc<CallServer>,
}

impl Outside for Reach {
    fn connect(
        &self,
        address: SocketAddr,
        _purpose: Purpose,
    ) -> BoxFuture<'_, Result<quinn::Connection, ConnectError>> {
        Box::pin(self.endpoint.connect(address))
    }

    fn join_token(&self) -> Option<Secret> {
        self.config.now().join_token.clone()
    }

    fn accept_call(&self, send: quinn::SendStream, recv: quinn::RecvStream) {
        Arc::clone(&self.calls).accept(send, recv, NODE_FRAME_BYTES_MAX);
    }
}
