//! Threat 22: a task hides a request in another one, or tells the server more than its fields.
//!
//! Each row is sent on a connection of its own, with one more request for `/smuggled` behind it.
//! That one never reaches the server, and neither does a head that is refused.

use super::{TOKEN, said, with_socket};
use crate::scene::can_run;

/// Heads that are refused, without their empty line.
const REFUSED: &[&str] = &[
    // Two lengths.
    "POST /a HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 4",
    "POST /a HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 0",
    "POST /a HTTP/1.1\r\nContent-Length: 0, 4",
    "POST /a HTTP/1.1\r\nContent-Length: +4",
    "POST /a HTTP/1.1\r\nContent-Length: -1",
    "POST /a HTTP/1.1\r\nContent-Length: 0x4",
    "POST /a HTTP/1.1\r\nContent-Length: 4 4",
    "POST /a HTTP/1.1\r\nContent-Length: 18446744073709551620",
    "POST /a HTTP/1.1\r\nContent-Length: ",
    // A length beside chunks, and other codings.
    "POST /a HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked, identity",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: identity",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: gzip, chunked",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: \u{b}chunked",
    "POST /a HTTP/1.1\r\nTransfer-Encoding : chunked",
    "POST /a HTTP/1.1\r\nTransfer-Encoding: \"chunked\"",
    "POST /a HTTP/1.1\r\nTransfer-Encoding:",
    "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked",
    // Line ends and folded lines.
    "GET /a HTTP/1.1\nHost: x",
    "GET /a HTTP/1.1\r\nHost: x\n",
    "GET /a HTTP/1.1\rHost: x",
    "GET /a HTTP/1.1\r\nHost: x\r\r",
    "GET /a HTTP/1.1\r\nX: 1\r\n 2",
    "GET /a HTTP/1.1\r\nX: 1\r\n\tContent-Length: 4",
    "GET /a HTTP/1.1\r\n Host: x",
    // Names and values.
    "GET /a HTTP/1.1\r\nHost",
    "GET /a HTTP/1.1\r\n: x",
    "GET /a HTTP/1.1\r\nHo st: x",
    "GET /a HTTP/1.1\r\nHost\0: x",
    "GET /a HTTP/1.1\r\nX: a\0b",
    "GET /a HTTP/1.1\r\nX: a\u{8}b",
    "GET /a HTTP/1.1\r\nHost: x\r\nHost: y",
    // Targets.
    "GET http://other/a HTTP/1.1\r\nHost: x",
    "GET unix:///a HTTP/1.1\r\nHost: x",
    "GET a HTTP/1.1\r\nHost: x",
    "GET ?a HTTP/1.1\r\nHost: x",
    "OPTIONS * HTTP/1.1\r\nHost: x",
    "CONNECT other:443 HTTP/1.1\r\nHost: x",
    "CONNECT /a HTTP/1.1\r\nHost: x",
    "GET /v1/../a HTTP/1.1\r\nHost: x",
    "GET /v1/%2e%2E/a HTTP/1.1\r\nHost: x",
    "GET /v1/./a HTTP/1.1\r\nHost: x",
    "GET /a\0 HTTP/1.1\r\nHost: x",
    "GET /a#b HTTP/1.1\r\nHost: x",
    "GET /\u{e9} HTTP/1.1\r\nHost: x",
    // First lines and versions.
    "GET /a",
    "GET /a HTTP/1.1 x\r\nHost: x",
    "GET  /a HTTP/1.1\r\nHost: x",
    "GET\t/a HTTP/1.1\r\nHost: x",
    " GET /a HTTP/1.1\r\nHost: x",
    "\r\nGET /a HTTP/1.1\r\nHost: x",
    "G\u{1}T /a HTTP/1.1\r\nHost: x",
    "GET /a HTTP/0.9",
    "GET /a HTTP/1.2\r\nHost: x",
    "GET /a HTTP/11\r\nHost: x",
    "GET /a http/1.1\r\nHost: x",
    "PRI * HTTP/2.0",
    // An upgrade with a body.
    "POST /a HTTP/1.1\r\nUpgrade: echo\r\nContent-Length: 4",
    "POST /a HTTP/1.1\r\nUpgrade: echo\r\nTransfer-Encoding: chunked",
];

/// Requests whose head is good, with their bodies: their connection ends after them.
const LAST: &[&str] = &[
    // Bodies in chunks that are none.
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\na\r\n0\r\n\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1 1\r\na\r\n0\r\n\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naa\r\n0\r\n\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000001\r\na\r\n0\r\n\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;a=\"\r\n\"\r\nok\r\n0\r\nX: 1\r\n\r\n",
    // Other protocols that the server does not agree to.
    "GET /b HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
     HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    "GET /b HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET /b HTTP/1.1\r\nUpgrade:\r\n\r\n",
    // Without a body, and the end that the client asked for.
    "GET /b HTTP/1.1\r\nConnection: close\r\n\r\n",
    "GET /b HTTP/1.0\r\n\r\n",
];

/// A row with a token in its head, and the request that follows it.
fn with_smuggled(head: &str, rest: &str) -> Vec<u8> {
    let (first, headers) = head.split_once("\r\n").unwrap_or((head, ""));
    let token = format!("{first}\r\nX-Nomad-Token: {TOKEN}\r\n{headers}{rest}");
    let smuggled = format!("GET /smuggled HTTP/1.1\r\nHost: x\r\nX-Nomad-Token: {TOKEN}\r\n\r\n");
    format!("{token}{smuggled}").into_bytes()
}

/// Whether the answer is a refusal of the head, or the connection was closed without one.
fn is_refused(answer: &str) -> bool {
    answer.is_empty() || answer.starts_with("HTTP/1.1 4")
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_heads_are_refused_and_reach_no_server() {
    if !can_run() {
        return;
    }
    let (scene, _, socket) = with_socket(210).await;
    for head in REFUSED {
        let answer = said(&socket, &with_smuggled(head, "\r\n\r\n")).await;
        let answer = answer.unwrap_or_else(|| panic!("{head:?}: the connection is open"));
        assert!(is_refused(&answer), "{head:?}: {answer}");
        let is_named = answer.contains("\r\n\r\nthe request is refused: ");
        assert!(answer.is_empty() || is_named, "{head:?}: {answer}");
        assert!(answer.matches("HTTP/1.1 4").count() <= 1, "{answer}");
    }
    let asked = scene.server.known().asked;
    assert!(asked.is_empty(), "{asked:?}");
    for request in LAST {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let answer = said(&socket, &with_smuggled(head, &format!("\r\n\r\n{body}"))).await;
        assert!(answer.is_some(), "{request:?}: the connection is open");
    }
    let asked = scene.server.known().asked;
    let targets: Vec<&str> = asked.iter().map(|it| it.head.target.as_str()).collect();
    assert!(targets.iter().all(|target| *target == "/b"), "{targets:?}");
    assert!(targets.len() >= 6, "{targets:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_without_an_end_are_refused_at_their_limit() {
    if !can_run() {
        return;
    }
    let (scene, _, socket) = with_socket(211).await;
    let begin = format!("GET /a HTTP/1.1\r\nX-Nomad-Token: {TOKEN}\r\nX: ");
    let long = "a".repeat(16 * 1024 - begin.len() - 4);
    let one_more = format!("{begin}{long}a\r\n\r\n");
    let line = "a".repeat(1 << 20);
    let headers = "X: 1\r\n".repeat(1 << 17);
    for endless in [
        one_more.as_str(),
        &format!("{begin}{line}"),
        &format!("GET /{line}"),
        &line,
        &format!("GET /a HTTP/1.1\r\n{headers}"),
        &format!(
            "GET /a HTTP/1.1\r\nX-Nomad-Token: {TOKEN}\r\n{}\r\n",
            "a:\r\n".repeat(500)
        ),
    ] {
        let answer = said(&socket, endless.as_bytes())
            .await
            .expect("it is closed");
        assert!(is_refused(&answer), "{answer}");
    }
    assert!(scene.server.known().asked.is_empty());
    // The longest head is served.
    let longest = format!("{begin}{long}\r\n\r\n");
    assert_eq!(longest.len(), 16 * 1024);
    let head = longest.trim_end();
    let closing = head.replacen("X: aaaaaaaaaaaaaaaaaaaa", "Connection: close\r\nX: a", 1);
    assert_eq!(closing.len(), head.len(), "the same length");
    let answer = said(&socket, format!("{closing}\r\n\r\n").as_bytes()).await;
    let answer = answer.expect("it is closed");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(scene.server.known().asked.len(), 1);
}

/// Only the fields of the allow-list reach the server, whatever `Connection` says of them.
#[tokio::test(flavor = "multi_thread")]
async fn headers_about_other_connections_are_not_forwarded() {
    if !can_run() {
        return;
    }
    let (scene, id, socket) = with_socket(212).await;
    let request = format!(
        "POST /v1/c?x=1&y=%2F HTTP/1.1\r\nHost: evil.example\r\nX-Nomad-Token: {TOKEN}\r\n\
         Authorization: Bearer other\r\nAccept: */*\r\nContent-Type: text/plain\r\n\
         X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Host: other\r\nX-Forwarded-Proto: https\r\n\
         X-Real-IP: 10.0.0.1\r\nForwarded: for=10.0.0.1\r\nVia: 1.1 other\r\n\
         Origin: http://evil.example\r\nReferer: http://evil.example/\r\nCookie: a=b\r\n\
         Sec-Fetch-Site: cross-site\r\nX-Nomad-Index: 7\r\nX-HTTP-Method-Override: DELETE\r\n\
         Connection: close, x-nomad-token, content-length\r\nKeep-Alive: timeout=1000\r\n\
         Proxy-Connection: keep-alive\r\nProxy-Authorization: Bearer {TOKEN}\r\nTE: trailers\r\n\
         Trailer: X-Nomad-Token\r\nExpect: 100-continue\r\nSec-WebSocket-Key: a\r\n\
         Content-Length: 48\r\n\r\nGET /smuggled HTTP/1.1\r\nX-Nomad-Token: a.b.c\r\n\r\n"
    );
    let answer = said(&socket, request.as_bytes()).await.expect("it ends");
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    let asked = scene.server.known().asked;
    let [asked] = asked.as_slice() else {
        panic!("not one request: {asked:?}");
    };
    assert_eq!(asked.head.method, "POST");
    assert_eq!(asked.head.target, "/v1/c?x=1&y=%2F");
    assert_eq!(asked.head.alloc_id, id.as_bytes().to_vec());
    assert_eq!((asked.head.task.as_str(), asked.head.peer_uid), ("main", 0));
    let names: Vec<&str> = asked.head.headers.iter().map(|it| &*it.name).collect();
    let expected = ["accept", "authorization", "content-type", "x-nomad-token"];
    assert_eq!(names, expected);
    assert_eq!(asked.values("x-nomad-token"), [TOKEN.as_bytes()]);
    assert!(asked.body.starts_with(b"GET /smuggled"), "{asked:?}");
    assert_eq!(asked.body.len(), 48);
}
