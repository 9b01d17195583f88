//! Addresses as an operator writes them: `host`, `host:port`, `[v6]:port`.

use super::ConfigError;
use super::build::value;

/// The port that servers listen on for one another unless an address says otherwise.
const QUIC_PORT: u16 = 4647;

/// Where the other servers are; the port may be left out.
pub(super) fn servers(given: &[String]) -> Result<Vec<String>, ConfigError> {
    let key = "server.retry_join";
    let completed = |address: &String| {
        if address.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(format!("[{address}]:{QUIC_PORT}"));
        }
        if !address.contains(':') && is_host(address) {
            return Ok(format!("{address}:{QUIC_PORT}"));
        }
        host_and_port(key, address)
    };
    given.iter().map(completed).collect()
}

/// What others are told, with its port.
pub(super) fn advertised(
    key: &'static str,
    given: Option<&String>,
) -> Result<Option<String>, ConfigError> {
    given.map(|address| host_and_port(key, address)).transpose()
}

fn host_and_port(key: &'static str, address: &str) -> Result<String, ConfigError> {
    let has_both = address.rsplit_once(':').is_some_and(|(host, port)| {
        let numbered = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let named = match numbered {
            Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host(host),
        };
        named && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if has_both {
        Ok(address.to_owned())
    } else {
        Err(value(key, format!("{address:?} is not host:port")))
    }
}

/// A name or an IPv4 address.
fn is_host(text: &str) -> bool {
    let letter = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '-' | '_');
    !text.is_empty() && text.chars().all(letter)
}
