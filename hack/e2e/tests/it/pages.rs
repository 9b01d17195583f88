//! A tiny HTTP server for tests that counts what is asked of it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The announced length of an endless page.
const ENDLESS_BYTES: u64 = 1 << 30;

/// Answers `GET /NAME` with a page, and never ends its answer to a name that begins with `endless`.
/// Its threads end with the process.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    address: SocketAddr,
    pages: Arc<BTreeMap<String, Vec<u8>>>,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Pages {
    /// Serves these pages, by their names.
    pub(crate) fn serve(
        listener: TcpListener,
        pages: BTreeMap<String, Vec<u8>>,
    ) -> anyhow::Result<Self> {
        let pages = Self {
            address: listener.local_addr()?,
            pages: Arc::new(pages),
            asked: Arc::default(),
        };
        let server = pages.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                // A client that is killed hangs up.
                std::thread::spawn(move || drop(server.answer(&stream)));
            }
        });
        Ok(pages)
    }

    /// The address of a page.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// How often each page was asked for.
    pub(crate) fn asked(&self) -> BTreeMap<String, usize> {
        let asked = self.asked.lock();
        asked.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often any page was asked for.
    pub(crate) fn requests(&self) -> usize {
        self.asked().values().sum()
    }

    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let first = lines.next().unwrap_or_default();
        let path = first.split([' ', '?']).nth(1).unwrap_or_default();
        let name = path.trim_start_matches('/').to_owned();
        lines.find(String::is_empty);
        self.count(&name);
        let mut head = |status, length| {
            let end = "Connection: close\r\n\r\n";
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{end}"
            )
        };
        if name.starts_with("endless") {
            head("200 OK", ENDLESS_BYTES)?;
            loop {
                stream.write_all(&[0; 4096])?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        match self.pages.get(&name) {
            Some(page) => {
                head("200 OK", page.len() as u64)?;
                stream.write_all(page)
            }
            None => head("404 Not Found", 0),
        }
    }

    fn count(&self, name: &str) {
        let asked = self.asked.lock();
        let mut asked = asked.unwrap_or_else(PoisonError::into_inner);
        *asked.entry(name.to_owned()).or_default() += 1;
    }
}
