//! A connection that may be used before its handshake is over.
//!
//! ```text
//!   connect_early --no ticket--> whole handshake -------------------> Dialed, nothing early
//!        `--ticket--> Dialed, early: say what may be replayed --settle--> taken
//!                                                                   `---> not taken: say it again
//! ```
//!
//! What is said early is said to a server that we knew: the key is of a connection on which it had
//! shown its certificate. Whether it is still there, and that nobody says our words a second time,
//! is known only when the handshake is over.

use std::net::SocketAddr;
use std::time::Duration;

use quinn::{Connecting, Connection, ZeroRttAccepted};
use tokio::time::timeout;

use super::{ConnectError, check_server};

/// A connection that was begun.
#[derive(Debug)]
pub struct Dialed {
    pub connection: Connection,
    /// Where its handshake is still under way.
    pub early: Option<Early>,
}

/// A handshake that is under way on a connection that can be used already.
pub struct Early {
    accepted: ZeroRttAccepted,
    connection: Connection,
    address: SocketAddr,
    limit: Duration,
}

/// What became of what was said before the handshake was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyWords {
    /// The server has it.
    Taken,
    /// The server forgot us: nobody read it, its streams are gone, and it can be said again.
    NotTaken,
}

impl From<Connection> for Dialed {
    /// One whose handshake is over.
    fn from(connection: Connection) -> Self {
        Self {
            connection,
            early: None,
        }
    }
}

impl Dialed {
    /// Goes on at once where the server gave us a ticket.
    pub(super) fn of(
        connecting: Connecting,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<Self, Connecting> {
        let (connection, accepted) = connecting.into_0rtt()?;
        let early = Early {
            accepted,
            connection: connection.clone(),
            address,
            limit,
        };
        Ok(Self {
            connection,
            early: Some(early),
        })
    }
}

impl Early {
    /// Waits until the handshake is over. To be called before anything is said that may not be
    /// replayed.
    ///
    /// # Errors
    /// When the handshake fails or takes too long, or the peer is not a server of this region.
    pub async fn settle(self) -> Result<EarlyWords, ConnectError> {
        let Self {
            accepted,
            connection,
            address,
            limit,
        } = self;
        let accepted = timeout(limit, accepted)
            .await
            .map_err(|_| ConnectError::Timeout { address, limit })?;
        if let Some(source) = connection.close_reason() {
            return Err(ConnectError::Handshake { address, source });
        }
        check_server(&connection, address)?;
        Ok(if accepted {
            EarlyWords::Taken
        } else {
            EarlyWords::NotTaken
        })
    }
}

impl std::fmt::Debug for Early {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Early")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
