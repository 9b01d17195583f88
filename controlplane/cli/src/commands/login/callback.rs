//! The way back from a provider: one request of the user's browser, on loopback.
//!
//! Any page in the browser may send requests here. Only one with the state of this login counts;
//! the server judges the rest.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::failure::Failure;

/// How long a user may take.
const WAIT_MAX: Duration = Duration::from_secs(2 * 60);
/// How long a browser may take to send its request.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes: the state has about 1 KiB.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const PATH: &str = "/oidc/callback";

/// The listener.
#[derive(Debug)]
pub(super) struct Callback {
    listener: TcpListener,
    /// Host as given, and the port that is listened on.
    authority: String,
}

/// The provider's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SentBack {
    pub(super) code: String,
    pub(super) state: String,
    pub(super) iss: String,
}

impl Callback {
    /// Listens on an address of loopback.
    ///
    /// # Errors
    /// Where the address is none, is another host's or is in use.
    pub(super) async fn listen(address: &str) -> Result<Self, Failure> {
        let host = address.rsplit_once(':').map(|(host, _)| host);
        let (Some(host), Ok(found)) = (host, tokio::net::lookup_host(address).await) else {
            return Err(Failure::usage_hint(
                format!("-oidc-callback-addr: {address:?} is not an address like localhost:4649"),
                "name a host of loopback and a port",
            ));
        };
        let found: Vec<_> = found.collect();
        if let Some(other) = found.iter().find(|found| !found.ip().is_loopback()) {
            return Err(Failure::usage_hint(
                format!("-oidc-callback-addr: {other} is not on loopback"),
                "the code of a login is sent there without encryption",
            ));
        }
        let failed = |source| Failure::Host {
            what: "listening for the provider's answer; -oidc-callback-addr names another address",
            source,
        };
        let listener = TcpListener::bind(found.as_slice()).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self {
            listener,
            authority: format!("{host}:{port}"),
        })
    }

    /// The address that the provider sends the user back to.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.authority)
    }

    /// Waits for the answer to the login that `auth_url` began.
    ///
    /// # Errors
    /// Where the provider refused the login, or no answer came in time.
    pub(super) async fn wait(self, auth_url: &str) -> Result<SentBack, Failure> {
        let (_, query) = auth_url.split_once('?').unwrap_or_default();
        let state = fields(query).remove("state").unwrap_or_default();
        let answered = timeout(WAIT_MAX, self.answered(&state)).await;
        answered.unwrap_or_else(|_| {
            Err(Failure::usage_hint(
                "the login was not completed within 2 minutes",
                "the provider sends the user to an address of this host: the browser has to run \
                 here, or reach it through a tunnel",
            ))
        })
    }

    async fn answered(&self, state: &str) -> Result<SentBack, Failure> {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else {
                continue;
            };
            let Ok(Some(target)) = timeout(REQUEST_MAX, target(&mut stream)).await else {
                continue;
            };
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            let mut fields = fields(query);
            let mut field = |name: &str| fields.remove(name).unwrap_or_default();
            if path != PATH || field("state") != state {
                answer(
                    &mut stream,
                    "404 Not Found",
                    "This is not the login that is awaited.",
                )
                .await;
                continue;
            }
            let error = field("error");
            if !error.is_empty() {
                let words = format!("{error} {}", field("error_description"));
                let words: String = words.chars().filter(|sign| !sign.is_control()).collect();
                let shown = "The provider refused the login. The terminal has the reason.";
                answer(&mut stream, "200 OK", shown).await;
                return Err(Failure::usage(format!(
                    "the provider refused the login: {}",
                    words.trim_end()
                )));
            }
            let shown =
                "The provider has answered. Return to the terminal; this page can be closed.";
            answer(&mut stream, "200 OK", shown).await;
            return Ok(SentBack {
                code: field("code"),
                state: state.to_owned(),
                iss: field("iss"),
            });
        }
    }
}

/// The target of a GET; `None` where the request is another one.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).await.ok()?;
        if read == 0 || head.len() + read > HEAD_BYTES_MAX {
            return None;
        }
        head.extend_from_slice(&part[..read]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    match (words.next()?, words.next()?) {
        ("GET", target) => Some(target.to_owned()),
        _ => None,
    }
}

async fn answer(stream: &mut TcpStream, status: &str, text: &str) {
    let body = format!("<!doctype html><title>drover login</title><p>{text}</p>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // A browser that is gone has what it needs: the code was sent before.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// The fields of a query, decoded.
fn fields(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect()
}

/// Percent-decodes a value; `+` is a space. Bytes that are not UTF-8 are replaced.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind
            .get(..2)
            .and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = behind;
            }
            (other, _) => {
                bytes.push(*other);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent(address: &str, target: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    const URL: &str = "https://id/auth?state=1.ab%2Dc&x=y";

    #[tokio::test]
    async fn only_the_request_with_the_state_of_the_login_counts() {
        let callback = Callback::listen("127.0.0.1:0").await.expect("a port");
        let address = callback.authority.clone();
        let redirect = callback.redirect_uri();
        assert_eq!(redirect, format!("http://{address}/oidc/callback"));
        let waiting = tokio::spawn(callback.wait(URL));
        for wrong in [
            "/",
            "/oidc/callback",
            "/oidc/callback?state=other&code=evil",
        ] {
            assert!(
                sent(&address, wrong).await.starts_with("HTTP/1.1 404"),
                "{wrong}"
            );
        }
        let right = "/oidc/callback?code=a%20b&state=1.ab-c&iss=https%3A%2F%2Fid";
        assert!(sent(&address, right).await.starts_with("HTTP/1.1 200"));
        let back = waiting.await.expect("no panic").expect("the way back");
        assert_eq!(
            (back.code.as_str(), back.iss.as_str()),
            ("a b", "https://id")
        );
    }

    #[tokio::test]
    async fn refusal_of_the_provider_ends_the_wait_with_its_words() {
        let callback = Callback::listen("localhost:0").await.expect("a port");
        let address = callback
            .listener
            .local_addr()
            .expect("an address")
            .to_string();
        let waiting = tokio::spawn(callback.wait(URL));
        let refused = "/oidc/callback?state=1.ab-c&error=access_denied&error_description=no+way";
        sent(&address, refused).await;
        let error = waiting.await.expect("no panic").expect_err("refused");
        assert!(
            error.to_string().contains("access_denied no way"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn address_that_is_not_on_loopback_is_refused() {
        for address in ["0.0.0.0:0", "192.0.2.1:4649", "localhost", "x y:1", ":::"] {
            Callback::listen(address).await.expect_err(address);
        }
    }
}
