//! What a simulated node's sessions reach: servers, through a socket of its own.

use std::net::SocketAddr;

use futures::future::BoxFuture;
use noded_daemon::session::{Outside, Purpose};
use protocol_transport::door::Wish;
use protocol_transport::{ConnectError, Dialed, Endpoint, Secret};

use crate::server::JOIN_TOKEN;

/// See the top of this file.
#[derive(Debug)]
pub struct OwnSocket {
    pub endpoint: Endpoint,
}

impl Outside for OwnSocket {
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
            Ok(self.endpoint.connect_wishing(address, wish).await?.into())
        })
    }

    fn join_token(&self) -> Option<Secret> {
        Some(Secret::new(JOIN_TOKEN))
    }

    fn accept_call(&self, mut send: quinn::SendStream, mut recv: quinn::RecvStream) {
        // There are no files and no processes to ask about. An error means it has ended already.
        let _ = send.reset(0_u32.into());
        let _ = recv.stop(0_u32.into());
    }
}
