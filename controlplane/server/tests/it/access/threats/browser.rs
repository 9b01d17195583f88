//! Requests that a page in an operator's browser could send: from another site, under a name that
//! the page owns, with a credential that the browser adds by itself or that stands in an address.

use super::super::{Holder, token};
use crate::world::{World, raw};

/// A server where access control is on, and a management token.
async fn world() -> (World, Holder) {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let manager = token(world.server.cluster(), &[]).await;
    (world, manager)
}

/// The status, the head and the body of an answer to these headers.
async fn asked(
    world: &World,
    target: &str,
    host: &str,
    headers: &[(&str, &str)],
) -> (u16, String, String) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = world.server.http_address();
    let stream = tokio::net::TcpStream::connect(address).await;
    let mut stream = stream.expect("connects");
    let mut request = format!("{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.expect("is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn requests_of_another_site_are_refused_with_a_valid_token_too() {
    let (world, manager) = world().await;
    let token = ("X-Nomad-Token", manager.secret.as_str());
    let own = format!("localhost:{}", world.server.http_address().port());
    let own_origin = format!("http://{own}");
    for allowed in [
        vec![token],
        vec![token, ("Origin", &own_origin)],
        vec![token, ("Sec-Fetch-Site", "same-origin")],
        vec![token, ("Sec-Fetch-Site", "none")],
    ] {
        let (status, _, body) = asked(&world, "GET /v1/jobs", &own, &allowed).await;
        assert_eq!(status, 200, "{allowed:?}: {body}");
    }
    for refused in [
        ("Origin", "http://evil.example"),
        ("Origin", "http://localhost:3000"),
        ("Origin", "https://localhost.evil.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        for target in ["GET /v1/jobs", "PUT /v1/system/gc", "DELETE /v1/job/web"] {
            let headers = [token, refused];
            let (status, head, body) = asked(&world, target, &own, &headers).await;
            assert_eq!(status, 403, "{target} {refused:?}: {body}");
            assert!(body.contains("a browser brought this"), "{body}");
            assert!(!head.contains("access-control-allow"), "{head}");
        }
    }
}

#[tokio::test]
async fn a_websocket_of_another_site_is_refused_before_its_handshake() {
    let (world, manager) = world().await;
    let target = "GET /v1/client/allocation/00000000-0000-0000-0000-000000000000/exec\
                  ?task=web&command=%5B%22sh%22%5D&ws_handshake=true";
    let headers = [
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Origin", "http://evil.example"),
        ("X-Nomad-Token", &manager.secret),
    ];
    let (status, _, body) = asked(&world, target, "localhost", &headers).await;
    assert_eq!(status, 403);
    assert!(body.contains("another origin"), "{body}");
}

/// A page that gave its own name this server's address is asked for a token, or refused by name.
#[tokio::test]
async fn a_name_that_a_page_owns_opens_nothing_without_a_token() {
    let rebound = [
        ("Origin", "http://evil.example"),
        ("Sec-Fetch-Site", "same-origin"),
    ];
    let (on, _) = world().await;
    let (status, ..) = asked(&on, "GET /v1/jobs", "evil.example", &rebound).await;
    assert_eq!(status, 403);
    let off = World::start().await;
    for headers in [&rebound[..], &[]] {
        let answer = asked(&off, "GET /v1/jobs", "evil.example", headers).await;
        assert_eq!(answer.0, 403);
        assert!(answer.2.contains("no name of this server"), "{}", answer.2);
    }
    let (status, ..) = asked(&off, "GET /v1/jobs", "localhost", &[]).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_cookie_and_a_url_hold_no_credential() {
    let (world, manager) = world().await;
    let secret = &manager.secret;
    let cookies = ["X-Nomad-Token", "nomad_token", "token", "Authorization"];
    for name in cookies {
        let cookie = format!("{name}={secret}");
        let headers = [("Cookie", cookie.as_str())];
        let (status, head, _) = asked(&world, "GET /v1/jobs", "localhost", &headers).await;
        assert_eq!(status, 403, "cookie {name}");
        assert!(!head.contains("set-cookie"), "{head}");
    }
    let basic = base64_of(&format!("{secret}:{secret}"));
    for (name, value) in [
        ("Authorization", format!("Basic {basic}")),
        ("Authorization", secret.clone()),
        ("Proxy-Authorization", format!("Bearer {secret}")),
        ("Sec-WebSocket-Protocol", secret.clone()),
        ("Referer", format!("http://localhost/?token={secret}")),
    ] {
        let headers = [(name, value.as_str())];
        let (status, ..) = asked(&world, "GET /v1/jobs", "localhost", &headers).await;
        assert_eq!(status, 403, "{name}: {value}");
    }
    for parameter in [
        "token",
        "X-Nomad-Token",
        "x-nomad-token",
        "access_token",
        "auth_token",
        "secret",
        "SecretID",
        "ott",
    ] {
        let target = format!("GET /v1/jobs?{parameter}={secret}");
        let (status, ..) = asked(&world, &target, "localhost", &[]).await;
        assert_eq!(status, 403, "?{parameter}=");
    }
    let in_authority = format!("GET http://x:{secret}@localhost/v1/jobs");
    let (status, ..) = asked(&world, &in_authority, "localhost", &[]).await;
    assert_ne!(status, 200, "a password in the address");
}

fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// A browser asks first whether another site may send a header of its own.
#[tokio::test]
async fn no_answer_lets_another_site_read_it() {
    let (world, manager) = world().await;
    let preflight = "OPTIONS /v1/jobs HTTP/1.1\r\nOrigin: http://evil.example\r\n\
                     Access-Control-Request-Method: GET\r\n\
                     Access-Control-Request-Headers: x-nomad-token";
    let head = format!("GET /v1/jobs HTTP/1.1\r\nX-Nomad-Token: {}", manager.secret);
    for (head, expected) in [(preflight, 403), (head.as_str(), 200)] {
        let (status, answered, _) = raw(&world.server, head, "").await;
        assert_eq!(status, expected);
        assert!(!answered.contains("access-control-"), "{answered}");
        assert!(!answered.contains("set-cookie"), "{answered}");
    }
}
