//! An HTTP server of one file on the loopback: a thread for each connection, which ends after one
//! answer.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// A running server. It ends with the process: nothing here waits for connections that do not come.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
}

impl Server {
    /// Listens on a free port and answers every request with this file.
    ///
    /// # Errors
    /// No port is free.
    pub(super) fn start(path: &Path) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let path = path.to_owned();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let path = path.clone();
                // A client that hangs up reports that itself.
                std::thread::spawn(move || answer(stream, &path));
            }
        });
        Ok(Self { address })
    }

    /// The file's URL.
    pub(super) fn url(&self) -> String {
        format!("http://{}/archive.tar.gz", self.address)
    }
}

fn answer(mut stream: TcpStream, path: &PathBuf) -> std::io::Result<()> {
    let (mut is_head, mut lines) = (false, BufReader::new(stream.try_clone()?).lines());
    while let Some(line) = lines.next().transpose()? {
        is_head |= line.starts_with("HEAD ");
        if line.is_empty() {
            break;
        }
    }
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/gzip\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    )?;
    if !is_head {
        std::io::copy(&mut file, &mut stream)?;
    }
    Ok(())
}
