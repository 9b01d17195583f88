//! HTTP/1.1 as far as a provider of tests needs it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};

/// A request.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) query: String,
    pub(super) authorization: String,
    pub(super) body: String,
}

impl Request {
    /// A GET of `target`, path and query.
    pub(super) fn get(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Self {
            path: path.to_owned(),
            query: query.to_owned(),
            ..Self::default()
        }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// A status with a body.
    Whole { status: u16, body: String },
    /// A redirect.
    Location(String),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// These bytes, then nothing.
    Stall(Vec<u8>),
}

/// Reads one request and sends its answer.
pub(super) fn serve(mut stream: impl Read + Write, answer: impl FnOnce(&Request) -> Answer) {
    let Some(request) = read(&mut stream) else {
        return;
    };
    // A client that hangs up has its own error.
    let _ = match answer(&request) {
        Answer::Whole { status, body } => stream.write_all(
            format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        ),
        Answer::Location(to) => stream.write_all(
            format!(
                "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            )
            .as_bytes(),
        ),
        Answer::Raw(bytes) => stream.write_all(&bytes),
        Answer::Stall(bytes) => {
            let sent = stream.write_all(&bytes);
            // Ends when the client hangs up.
            let _ = stream.read(&mut [0]);
            sent
        }
    };
}

fn read(stream: &mut impl Read) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let target = line.split(' ').nth(1)?.to_owned();
    let mut request = Request::get(&target);
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => request.authorization = value.trim().to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}

/// The fields of a form or a query.
pub(super) fn fields(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

pub(super) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3);
        match (
            bytes[at],
            hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()),
        ) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (b'+', _) => {
                decoded.push(b' ');
                at += 1;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
