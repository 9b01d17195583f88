//! What noded's sessions reach outside of themselves: servers through the node's socket, calls of
//! operators, the join token of the configuration.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use protocol_transport::door::Wish;
use protocol_transport::{ConnectError, Dialed, Endpoint, Secret};

use crate::calls::{CALLS_MAX, CallServer};
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
        purpose: Purpose,
        wish: Wish,
    ) -> BoxFuture<'_, Result<Dialed, ConnectError>> {
        Box::pin(async move {
            if purpose == Purpose::Session {
                return self.endpoint.connect_early(address, wish).await;
            }
            let connection = self.endpoint.connect_wishing(address, wish).await?;
            if matches!(purpose, Purpose::Calls | Purpose::Tasks) {
                // Shells that read nothing keep what they are told: no other call may wait.
                self.endpoint.limits().make_room(&connection, CALLS_MAX);
            }
            Ok(connection.into())
        })
    }

    fn join_token(&self) -> Option<Secret> {
        self.config.now().join_token.clone()
    }

    fn accept_call(&self, send: quinn::SendStream, recv: quinn::RecvStream) {
        Arc::clone(&self.calls).accept(send, recv, NODE_FRAME_BYTES_MAX);
    }
}
