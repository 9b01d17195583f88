//! Addresses that a server may connect to: `https`, or `http` on loopback.

use std::net::IpAddr;

/// The longest address, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// Why a text is no such address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UrlError {
    /// It is too long.
    #[error("an address has at most {URL_BYTES_MAX} bytes")]
    TooLong,
    /// It has no host, or characters that do not belong into an address.
    #[error("{0:?} is not an address like https://id.example.com/path")]
    Malformed(String),
    /// It is not encrypted.
    #[error("{0:?} is refused: use https (http is for 127.0.0.1, ::1 and localhost)")]
    Scheme(String),
    /// It holds a user name or password.
    #[error("an address with a user name or password is refused")]
    Credentials,
}

/// An address in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutgoingUrl {
    /// Whether the connection is encrypted.
    pub is_https: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// The port, named or the scheme's.
    pub port: u16,
    /// Host and port as the request names them.
    pub authority: String,
    /// Path and query, with a leading slash.
    pub path: String,
}

impl OutgoingUrl {
    /// Reads an address. A fragment is refused, because no request carries it.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let malformed = || UrlError::Malformed(text.to_owned());
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
        if !text.bytes().all(is_plain) {
            return Err(malformed());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(malformed)?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(UrlError::Scheme(text.to_owned())),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::Credentials);
        }
        let (host, port) = split_port(authority).ok_or_else(malformed)?;
        if !is_https && !is_loopback(&host) {
            return Err(UrlError::Scheme(text.to_owned()));
        }
        let path = match path.as_bytes().first() {
            None => "/".to_owned(),
            Some(b'?') => format!("/{path}"),
            Some(_) => path.to_owned(),
        };
        Ok(Self {
            is_https,
            host,
            port: port.unwrap_or(if is_https { 443 } else { 80 }),
            authority: authority.to_owned(),
            path,
        })
    }
}

/// Host without brackets, and the port where one is named.
fn split_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            match behind {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':')?)),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || host.len() > 253 || !host.bytes().all(is_name) {
        return None;
    }
    let port = match port {
        None => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port != 0)?)
        }
        Some(_) => return None,
    };
    Some((host.to_ascii_lowercase(), port))
}

fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_and_loopback_addresses_are_read() {
        let cases = [
            ("https://id.example.com", "id.example.com", 443, "/"),
            (
                "https://ID.example.com:8443/a?b=c",
                "id.example.com",
                8443,
                "/a?b=c",
            ),
            ("HTTPS://h?x", "h", 443, "/?x"),
            ("http://127.0.0.1:9/x", "127.0.0.1", 9, "/x"),
            ("http://[::1]:80", "::1", 80, "/"),
            ("http://localhost/k", "localhost", 80, "/k"),
        ];
        for (text, host, port, path) in cases {
            let url = OutgoingUrl::parse(text).expect(text);
            assert_eq!(
                (url.host.as_str(), url.port, url.path.as_str()),
                (host, port, path)
            );
        }
    }

    #[test]
    fn addresses_that_leave_the_rules_are_refused() {
        for text in [
            "",
            "id.example.com",
            "ftp://127.0.0.1",
            "file:///etc/passwd",
            "http://id.example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "http://169.254.169.254/latest",
            "https://user:pass@h",
            "http://127.0.0.1@evil.example",
            "https://",
            "https://h:0",
            "https://h:99999",
            "https://h:+80",
            "https://[::1",
            "https://h/a b",
            "https://h/\r\nx",
            "https://h/#f",
            "https://h\\@evil",
        ] {
            OutgoingUrl::parse(text).expect_err(text);
        }
    }
}
