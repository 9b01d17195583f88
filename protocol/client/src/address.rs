//! Where a server listens, as users write it.

use std::path::PathBuf;
use std::str::FromStr;

use crate::error::ClientError;

/// The port of the HTTP API where an address names none.
const HTTP_PORT: u16 = 4646;

/// A server's HTTP address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `http://host:port`.
    Http {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// `https://host:port`.
    Https {
        /// Host name or address; the certificate must be for it unless another name is given.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// `unix:///path`: a Task API socket.
    Unix {
        /// The socket's path.
        path: PathBuf,
    },
}

impl Address {
    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self {
            Self::Http { host, port } | Self::Https { host, port } => format!("{host}:{port}"),
            Self::Unix { .. } => "localhost".to_owned(),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Http { host, port } => write!(f, "http://{host}:{port}"),
            Self::Https { host, port } => write!(f, "https://{host}:{port}"),
            Self::Unix { path } => write!(f, "unix://{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |reason: &str| ClientError::Address {
            address: text.to_owned(),
            reason: reason.to_owned(),
        };
        if let Some(path) = text.strip_prefix("unix://") {
            if path.is_empty() {
                return Err(bad("a unix:// address needs the path of a socket"));
            }
            return Ok(Self::Unix {
                path: PathBuf::from(path),
            });
        }
        let (secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(bad("expected http://, https:// or unix://")),
            None => (false, text),
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let (host, port) = split_port(authority).ok_or_else(|| bad("the port is no number"))?;
        if host.is_empty() {
            return Err(bad("the host is missing"));
        }
        let host = host.to_owned();
        Ok(if secure {
            Self::Https { host, port }
        } else {
            Self::Http { host, port }
        })
    }
}

/// `host:port`, `host`, `[v6]:port` or `[v6]`.
fn split_port(authority: &str) -> Option<(&str, u16)> {
    let after_bracket = authority.rfind(']').map_or(0, |offset| offset + 1);
    match authority[after_bracket..].rfind(':') {
        None => Some((authority, HTTP_PORT)),
        Some(offset) => {
            let (host, port) = authority.split_at(after_bracket + offset);
            Some((host, port[1..].parse().ok()?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_users_write_them() -> Result<(), ClientError> {
        assert_eq!(
            "http://127.0.0.1:4646".parse::<Address>()?.to_string(),
            "http://127.0.0.1:4646"
        );
        assert_eq!(
            "https://a.example".parse::<Address>()?.to_string(),
            "https://a.example:4646"
        );
        assert_eq!(
            "10.0.0.1:80".parse::<Address>()?.to_string(),
            "http://10.0.0.1:80"
        );
        assert_eq!(
            "http://[::1]:9/".parse::<Address>()?.to_string(),
            "http://[::1]:9"
        );
        assert_eq!(
            "unix:///a/b.sock".parse::<Address>()?.to_string(),
            "unix:///a/b.sock"
        );
        Ok(())
    }

    #[test]
    fn a_wrong_address_says_what_is_wrong() {
        for wrong in ["ftp://x", "http://", "http://x:y", "unix://"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
