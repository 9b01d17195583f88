//! Bodies and bytes that stream through a task's socket, and clients that leave.

use std::path::Path;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{TOKEN, said, with_socket};
use crate::scene::can_run;

fn head(method: &str, target: &str, headers: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\nX-Nomad-Token: {TOKEN}\r\n{headers}\r\n")
}

/// A connection on which this was sent.
async fn sent(socket: &Path, bytes: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_leaves_resets_the_stream_of_its_request() {
    if !can_run() {
        return;
    }
    let (scene, _, socket) = with_socket(220).await;
    // Before an answer begins.
    let waiting = sent(&socket, head("GET", "/never", "").as_bytes()).await;
    let asked = |count: usize| {
        let server = &scene.server;
        async move {
            let reached = server.until("the request", |known| known.asked.len() == count);
            reached.await
        }
    };
    asked(1).await;
    drop(waiting);
    let left = async |count: usize| {
        let given_up = scene.server.until("reset", |known| known.left == count);
        given_up.await;
    };
    left(1).await;
    // In the middle of an answer, whose parts come before its end.
    let mut reading = sent(&socket, head("GET", "/endless", "").as_bytes()).await;
    let mut part = vec![0; 100_000];
    reading.read_exact(&mut part).await.unwrap();
    assert!(part.starts_with(b"HTTP/1.1 200"));
    drop(reading);
    left(2).await;
    // In the middle of a body.
    let chunked = head("POST", "/upload", "Transfer-Encoding: chunked\r\n");
    let begun = format!("{chunked}5\r\nhello\r\n");
    let sending = sent(&socket, begun.as_bytes()).await;
    drop(sending);
    left(3).await;
    let sized = head("POST", "/upload", "Content-Length: 1000000\r\n");
    let sending = sent(&socket, format!("{sized}hello").as_bytes()).await;
    drop(sending);
    left(4).await;
    assert_eq!(scene.server.known().asked.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_any_framing_arrive_whole_and_in_order() {
    if !can_run() {
        return;
    }
    let (scene, _, socket) = with_socket(221).await;
    let body: Vec<u8> = (0..1_000_003_u32)
        .map(|number| number.to_le_bytes()[0])
        .collect();
    let mut chunks = head("POST", "/chunks", "Transfer-Encoding: chunked\r\n").into_bytes();
    for chunk in body.chunks(70_001) {
        chunks.extend(format!("{:x};name=value\r\n", chunk.len()).bytes());
        chunks.extend(chunk);
        chunks.extend(b"\r\n");
    }
    chunks.extend(b"0\r\nTrailer: 1\r\n\r\n");
    let length = format!("Content-Length: {}\r\n", body.len());
    let mut sized = head("PUT", "/first", "").into_bytes();
    sized.extend(head("PUT", "/sized", &length).bytes());
    sized.extend(&body);
    sized.extend(
        head(
            "PUT",
            "/short",
            "Content-Length: 3\r\nConnection: close\r\n",
        )
        .bytes(),
    );
    sized.extend(b"abc");
    let answer = said(&socket, &chunks).await.expect("it is closed");
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 1, "{answer}");
    let answer = said(&socket, &sized).await.expect("it is closed");
    assert_eq!(answer.matches("HTTP/1.1 200").count(), 3, "{answer}");
    let known = scene.server.known();
    let asked = known.asked.iter();
    let asked: Vec<(&str, &[u8])> = asked
        .map(|asked| (asked.head.target.as_str(), asked.body.as_slice()))
        .collect();
    let expected: [(&str, &[u8]); 4] = [
        ("/chunks", &body),
        ("/first", b""),
        ("/sized", &body),
        ("/short", b"abc"),
    ];
    assert!(asked == expected, "another order or another body");
}

#[tokio::test(flavor = "multi_thread")]
async fn upgraded_connection_carries_any_bytes_both_ways_to_its_end() {
    if !can_run() {
        return;
    }
    let (scene, _, socket) = with_socket(222).await;
    let upgrade = head("GET", "/echo", "Connection: Upgrade\r\nUpgrade: echo\r\n");
    let mut stream = sent(&socket, upgrade.as_bytes()).await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"));
    let bytes = [b"\n\0GET / HTTP/1.1\r\n\r\n".as_slice(), &[0xff; 200_000]].concat();
    for _ in 0..3 {
        let (mut reading, mut writing) = stream.split();
        let mut back = vec![0; bytes.len()];
        let (written, read) =
            tokio::join!(writing.write_all(&bytes), reading.read_exact(&mut back));
        written.unwrap();
        read.unwrap();
        assert!(back == bytes);
    }
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert!(rest.is_empty());
    assert_eq!(scene.server.known().asked.len(), 1);
}
