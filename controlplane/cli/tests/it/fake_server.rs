//! An HTTP server with canned answers that remembers what it was asked.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What is answered to one method and path; of several for the same, each once and the last for
/// ever.
#[derive(Clone)]
pub(crate) struct Canned {
    /// `PUT /v1/jobs`, without the query.
    pub(crate) request: &'static str,
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// The server; its thread ends with the process.
pub(crate) struct FakeServer {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    pub(crate) fn start(answers: Vec<Canned>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}", listener.local_addr()?);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            // One client at a time: a command keeps one connection.
            for stream in listener.incoming().flatten() {
                let _ = serve(&stream, &answers, &seen);
            }
        });
        Ok(Self { address, asked })
    }

    /// Every request: its first line, and its body behind a newline.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .expect("no test panics with it held")
            .clone()
    }
}

pub(crate) fn serve(
    stream: &TcpStream,
    answers: &[Canned],
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let target = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        let path = target.split('?').next().unwrap_or_default();
        let mut log = seen.lock().expect("no test panics with it held");
        let is_same = |line: &&String| line.split(['?', '\n']).next() == Some(path);
        let before = log.iter().filter(is_same).count();
        let fitting = answers.iter().filter(|canned| canned.request == path);
        let found = fitting.take(before + 1).last();
        let (status, answer) = match found {
            Some(canned) => (canned.status, canned.body.clone()),
            None => (404, format!("nothing is canned for {path}")),
        };
        log.push(format!("{target}\n{}", String::from_utf8_lossy(&body)));
        drop(log);
        write!(
            writer,
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nX-Nomad-Index: 9\r\n\
             Content-Length: {}\r\n\r\n{answer}",
            answer.len()
        )?;
        writer.flush()?;
    }
}
