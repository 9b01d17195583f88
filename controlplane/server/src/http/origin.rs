//! Which requests a browser may bring. Without access control whoever reaches the API may run
//! anything, and a browser on an operator's machine reaches what listens on loopback: pages of
//! other sites must not use it for that.
//!
//! - What the browser says is of another site or origin is refused (`Sec-Fetch-Site`, `Origin`).
//! - A page may also give its own name the address 127.0.0.1 (DNS rebinding): the browser then
//!   takes us for that page's server. So, where no token is asked for, the name in `Host` has to be
//!   one that nobody else can own: a loopback name or address, or one from the configuration.
//!
//! Clients that are no browsers send neither of the first two, and a `Host` that they were given.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, header};

use super::error::HttpError;
use crate::config::{Config, HttpConfig};

/// Checks a request's headers. `authority` is what HTTP/2 has instead of `Host`.
///
/// # Errors
/// 403, with what to do about it.
pub(super) fn check(
    headers: &HeaderMap,
    authority: Option<&Authority>,
    config: &Config,
) -> Result<(), HttpError> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let named = text(header::HOST.as_str()).or_else(|| authority.map(Authority::as_str));
    let token = if config.acl_enabled {
        Token::Asked
    } else {
        Token::None
    };
    let asked = Asked {
        site: text("sec-fetch-site"),
        origin: text(header::ORIGIN.as_str()),
        host: named,
    };
    judge(&asked, token, &config.http).map_err(|why| HttpError::new(StatusCode::FORBIDDEN, why))
}

/// Whether every call needs a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Asked,
    None,
}

/// What a request says of where it comes from and where it wants to go.
struct Asked<'a> {
    site: Option<&'a str>,
    origin: Option<&'a str>,
    host: Option<&'a str>,
}

fn judge(asked: &Asked<'_>, token: Token, config: &HttpConfig) -> Result<(), String> {
    if let Some(site) = asked.site
        && !matches!(site, "same-origin" | "none")
    {
        return Err(format!("a browser brought this from another site ({site})"));
    }
    if let Some(origin) = asked.origin {
        // "null" has no scheme and is nobody's own.
        let from = origin.split_once("://").map(|(_, authority)| authority);
        let own = from.is_some_and(|from| {
            asked
                .host
                .is_some_and(|host| from.eq_ignore_ascii_case(host))
                || is_configured(host_of(from), config)
        });
        if !own {
            return Err(format!(
                "a browser brought this from another origin ({origin})"
            ));
        }
    }
    match (token, asked.host) {
        (Token::Asked, _) | (Token::None, None) => Ok(()),
        (Token::None, Some(host)) => {
            let host = host_of(host);
            if is_loopback(host) || is_configured(host, config) {
                return Ok(());
            }
            Err(format!(
                "Host {host:?} is no name of this server: without access control only loopback \
                 names and http.allowed_hosts are served"
            ))
        }
    }
}

/// An authority without its port.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split_once(']').map_or(rest, |(host, _)| host);
    }
    authority
        .split_once(':')
        .map_or(authority, |(host, _)| host)
}

fn is_loopback(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    // RFC 6761, section 6.3: names below it are loopback, too.
    let named =
        host.eq_ignore_ascii_case("localhost") || host.to_ascii_lowercase().ends_with(".localhost");
    named
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_configured(host: &str, config: &HttpConfig) -> bool {
    let advertised = config.advertise.as_deref().map(host_of);
    let allowed = config.allowed_hosts.iter().map(String::as_str);
    allowed
        .chain(advertised)
        .any(|known| known.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HttpTls;

    fn config() -> HttpConfig {
        HttpConfig {
            listen: ([127, 0, 0, 1], 4646).into(),
            advertise: Some("drover.lan:4646".to_owned()),
            tls: HttpTls::Off,
            response_headers: Vec::new(),
            allowed_hosts: vec!["proxy.example".to_owned()],
        }
    }

    fn allowed(site: Option<&str>, origin: Option<&str>, host: Option<&str>) -> bool {
        judge(&Asked { site, origin, host }, Token::None, &config()).is_ok()
    }

    #[test]
    fn other_sites_are_refused_and_the_address_bar_is_not() {
        let host = Some("localhost:4646");
        for site in ["cross-site", "same-site", "whatever"] {
            assert!(!allowed(Some(site), None, host), "{site}");
        }
        for site in ["same-origin", "none"] {
            assert!(allowed(Some(site), None, host), "{site}");
        }
        assert!(allowed(None, None, host), "a client that is no browser");
    }

    #[test]
    fn an_origin_has_to_be_the_servers_own() {
        let host = Some("localhost:4646");
        assert!(allowed(None, Some("http://localhost:4646"), host));
        assert!(allowed(None, Some("https://proxy.example"), host));
        for origin in ["http://localhost:3000", "https://evil.example", "null", ""] {
            assert!(!allowed(None, Some(origin), host), "{origin}");
        }
        assert!(!allowed(None, Some("http://localhost:4646"), None));
    }

    #[test]
    fn without_tokens_a_name_that_others_may_own_is_refused() {
        let ours = [
            "localhost",
            "LOCALHOST:4646",
            "a.localhost:1",
            "127.0.0.1:4646",
            "127.9.9.9",
            "[::1]:4646",
            "drover.lan:4646",
            "proxy.example",
        ];
        for host in ours {
            assert!(allowed(None, None, Some(host)), "{host}");
        }
        for host in [
            "evil.example:4646",
            "10.0.0.1:4646",
            "",
            "localhost.evil.example",
        ] {
            assert!(!allowed(None, None, Some(host)), "{host}");
        }
        // Rebinding makes the page's own origin and the name agree.
        let rebound = Some("evil.example:4646");
        assert!(!allowed(
            Some("same-origin"),
            Some("http://evil.example:4646"),
            rebound
        ));
    }

    #[test]
    fn with_tokens_the_name_is_anyones() {
        let asked = Asked {
            site: None,
            origin: None,
            host: Some("drover.example"),
        };
        judge(&asked, Token::Asked, &config()).expect("the token decides");
    }
}
