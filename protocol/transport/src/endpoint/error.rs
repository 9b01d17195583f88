//! Why an endpoint could not be made, renewed or connected.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::identity::PeerIdentityError;
use crate::role::{Region, Role};
use crate::tls::TlsError;

/// Why an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("binding UDP {address}")]
    Bind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("configuring TLS")]
    Tls(#[source] TlsError),
    #[error("idle timeout {0:?} is too long for QUIC")]
    IdleTimeout(Duration),
    #[error("keep-alive {keep_alive:?} must be below half of the idle timeout {idle_timeout:?}")]
    KeepAlive {
        keep_alive: Duration,
        idle_timeout: Duration,
    },
}

/// Why another certificate cannot take the place of the one in use.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    #[error("the certificate is that of a {role} of region {region:?}", region = .region.as_str())]
    SomebodyElse { role: Role, region: Region },
    #[error("the certificate cannot be used")]
    Unusable(#[source] BindError),
}

/// Why a connection to a server could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("connecting to {address}")]
    Start {
        address: SocketAddr,
        #[source]
        source: quinn::ConnectError,
    },
    #[error("the handshake with {address} failed")]
    Handshake {
        address: SocketAddr,
        #[source]
        source: quinn::ConnectionError,
    },
    #[error("the handshake with {address} took longer than {limit:?}")]
    Timeout {
        address: SocketAddr,
        limit: Duration,
    },
    #[error("{address} did not answer within {limit:?}")]
    NoAnswer {
        address: SocketAddr,
        limit: Duration,
    },
    #[error("{address} cannot be placed")]
    Identity {
        address: SocketAddr,
        #[source]
        source: PeerIdentityError,
    },
    #[error("{address} is a {role}, not a server")]
    NotServer { address: SocketAddr, role: Role },
    #[error("finding the address of {address:?}")]
    Resolve {
        address: String,
        #[source]
        source: AddressError,
    },
    #[error("{address:?} failed a moment ago")]
    FailedJustNow { address: String },
    #[error("{0} servers are as many as a pool holds")]
    PoolFull(usize),
}

impl ConnectError {
    /// Whether the server is there and refused us because it has too much to do (RFC 9000 section
    /// 20.1, `CONNECTION_REFUSED`).
    pub fn is_busy(&self) -> bool {
        let Self::Handshake { source, .. } = self else {
            return false;
        };
        is_refusal(source)
    }

    /// Whether the server said nothing at all.
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::NoAnswer { .. }
                | Self::Timeout { .. }
                | Self::Handshake {
                    source: quinn::ConnectionError::TimedOut,
                    ..
                }
        )
    }
}

/// Whether a connection ended because the server has too much to do.
pub fn is_refusal(ended: &quinn::ConnectionError) -> bool {
    let quinn::ConnectionError::ConnectionClosed(close) = ended else {
        return false;
    };
    close.error_code == quinn::TransportErrorCode::CONNECTION_REFUSED
}

/// Why a text is no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("asking the resolver")]
    Lookup(#[source] io::Error),
    #[error("the resolver knows no address")]
    NoAddress,
}
