//! What can go wrong between a client and a server, by whose fault it is.

use std::path::PathBuf;
use std::time::Duration;

use crate::tls_trouble::TlsTrouble;

/// An API call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The caller's: the address makes no sense.
    #[error("not a server address: {address:?}: {reason}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller's: a certificate or key file cannot be used.
    #[error("cannot use {what} {}: {reason}", path.display())]
    TlsFile {
        /// Which of the files.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The network's: no connection.
    #[error("cannot reach a server at {address}")]
    Connect {
        /// The address that was tried.
        address: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The network's, or a certificate's: somebody answers, but not with TLS that we accept.
    #[error("cannot speak TLS with {address}")]
    Tls {
        /// The address that was tried.
        address: String,
        /// What it failed for.
        trouble: TlsTrouble,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The network's: the connection broke.
    #[error("the connection to {address} broke")]
    Transfer {
        /// The server.
        address: String,
        /// How.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server's, or the network's: a stream broke before its end.
    #[error("{address} broke its answer off")]
    Ended {
        /// The server.
        address: String,
        /// How.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server's: it took the connection, and then said nothing.
    #[error("{address} did not answer within {waited:?}")]
    Silent {
        /// The server.
        address: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The server's answer: a refusal in its own words.
    #[error("{message}")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// The server's: an answer that makes no sense.
    #[error("the server's answer to {path} is not what was expected")]
    Decode {
        /// The call.
        path: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The server's: an answer larger than is read.
    #[error("the answer to {path} is larger than {bytes_max} bytes; read it in pages")]
    TooLarge {
        /// The call.
        path: String,
        /// The limit.
        bytes_max: usize,
    },
    /// Ours: the request could not be built.
    #[error("cannot build the request for {path}")]
    Build {
        /// The call.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClientError {
    /// A broken connection, or the TLS that was refused on it.
    pub(crate) fn broken(
        address: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> Self {
        match TlsTrouble::find(source.as_ref()) {
            Some(trouble) => Self::Tls {
                address,
                trouble,
                source,
            },
            None => Self::Transfer { address, source },
        }
    }

    /// The HTTP status, where the server answered one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }
}
