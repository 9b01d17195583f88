//! Just enough HTTP/1.1 to ask a server on loopback: one kept connection, JSON in, JSON out.
//!
//! The project has a real client; it brings an async runtime and a crypto library, and `cargo xtask
//! tidy` would have to compile them before it could say that a comment is missing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// Longer than any blocking query that is asked here.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const HEADER_LINES_MAX: usize = 64;
const BODY_BYTES_MAX: usize = 64 << 20;

/// A connection to one server.
#[derive(Debug)]
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

/// What a server answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `X-Nomad-Index`, 0 where there is none.
    pub(crate) index: u64,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// If the status is not 200, with the server's words; or if the body is no JSON.
    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        let words = || String::from_utf8_lossy(&self.body).trim().to_owned();
        ensure!(self.status == 200, "status {}: {}", self.status, words());
        serde_json::from_slice(&self.body).with_context(|| format!("read the answer: {}", words()))
    }
}

impl Http {
    /// Connects to a server.
    ///
    /// # Errors
    /// If nobody listens there.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))
            .with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Asks for a path and reads JSON.
    ///
    /// # Errors
    /// If the connection fails or the answer is not 200 and JSON.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Value> {
        self.ask("GET", path, None)?
            .json()
            .with_context(|| format!("GET {path}"))
    }

    /// Sends one request and reads its answer.
    ///
    /// # Errors
    /// If the connection fails or the answer is not HTTP.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Answer> {
        let body = body
            .map(serde_json::to_vec)
            .transpose()?
            .unwrap_or_default();
        // One write: a header that leaves alone waits for the acknowledgement of the other half.
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend(body);
        self.stream
            .get_mut()
            .write_all(&request)
            .context("send a request")?;
        self.read_answer()
    }

    fn read_answer(&mut self) -> anyhow::Result<Answer> {
        let first = self.read_line()?;
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .with_context(|| format!("not a status line: {first}"))?;
        let (mut index, mut len, mut chunked) = (0, 0, false);
        for _ in 0..HEADER_LINES_MAX {
            let line = self.read_line()?;
            if line.is_empty() {
                let body = if chunked {
                    self.read_chunks()?
                } else {
                    self.read_exactly(len)?
                };
                return Ok(Answer {
                    status,
                    index,
                    body,
                });
            }
            let Some((name, value)) = line.split_once(':') else {
                bail!("not a header: {line}")
            };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => len = value.parse().context("read Content-Length")?,
                "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
                "x-nomad-index" => index = value.parse().context("read X-Nomad-Index")?,
                _ => {}
            }
        }
        bail!("more than {HEADER_LINES_MAX} headers")
    }

    fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let len = self.stream.read_line(&mut line).context("read an answer")?;
        ensure!(len > 0, "the server closed the connection");
        Ok(line.trim_end().to_owned())
    }

    fn read_exactly(&mut self, len: usize) -> anyhow::Result<Vec<u8>> {
        ensure!(len <= BODY_BYTES_MAX, "an answer of {len} bytes");
        let mut body = vec![0; len];
        self.stream
            .read_exact(&mut body)
            .context("read an answer")?;
        Ok(body)
    }

    fn read_chunks(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.read_line()?;
            let len = usize::from_str_radix(&line, 16).with_context(|| format!("chunk: {line}"))?;
            ensure!(
                body.len() + len <= BODY_BYTES_MAX,
                "an answer past {BODY_BYTES_MAX} bytes"
            );
            body.extend(self.read_exactly(len)?);
            self.read_line()?;
            if len == 0 {
                return Ok(body);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server of one connection that answers each request with the next text.
    fn serve(answers: &'static [&'static str]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn two_answers_come_over_one_connection() {
        let address = serve(&[
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nX-Nomad-Index: 7\r\n\r\n[]",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n",
        ]);
        let mut http = Http::connect(address).unwrap();
        assert_eq!(http.ask("GET", "/", None).unwrap().index, 7);
        assert_eq!(http.get("/").unwrap(), serde_json::json!([1, 2]));
    }

    #[test]
    fn a_refusal_carries_the_words_of_the_server() {
        let address = serve(&["HTTP/1.1 400 Bad Request\r\ncontent-length: 6\r\n\r\nno job"]);
        let error = Http::connect(address).unwrap().get("/v1/jobs").unwrap_err();
        assert_eq!(format!("{error:#}"), "GET /v1/jobs: status 400: no job");
    }

    #[test]
    fn a_closed_connection_is_an_error() {
        let mut http = Http::connect(serve(&[])).unwrap();
        http.get("/").unwrap_err();
    }
}
