//! Plain HTTP on the HTTPS port: a client that made this mistake is told, instead of being cut off.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The first byte of a TLS connection: a record of the kind "handshake" (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// What is said, in the words that clients of Go's servers know.
const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 49\r\nConnection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\r\n";
/// How long the client may take to read it and to close.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// What of its request is read before it is closed all the same.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;

/// Whether what comes on `stream` begins as TLS does. Nothing is taken from it.
pub(super) async fn is_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    let count = stream.peek(&mut first).await?;
    Ok(count == 0 || first[0] == HANDSHAKE)
}

/// Says what is wrong. A connection that is closed before all of the request was read is reset, and
/// the client would not see the answer: the rest is read, up to a limit.
pub(super) async fn turn_away(mut stream: TcpStream) {
    let goodbye = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        let mut rest = (&mut stream).take(REQUEST_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // Whoever does not read the answer needs none.
    let _ = timeout(GOODBYE_MAX, goodbye).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = String::from_utf8_lossy(ANSWER);
        let (_, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(text.contains(&format!("Content-Length: {}\r\n", body.len())));
    }
}
