//! `drover operator api`: one request to the HTTP API, with the address, the certificates, the
//! token and the namespace that every command has.

use std::io::{IsTerminal as _, Read as _};
use std::os::unix::fs::FileTypeExt as _;

use clap::Args;
use protocol_client::Query;

use crate::failure::Failure;
use crate::session::Session;

/// The most bytes of a body: what a server takes by default.
const BODY_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Args, Debug)]
pub(crate) struct Api {
    /// The path, with its query: /v1/jobs?prefix=web
    #[arg(value_name = "PATH")]
    path: String,
    /// The method: GET, or POST where stdin is a file or a pipe that is not empty
    #[arg(short = 'X', value_name = "METHOD")]
    method: Option<String>,
    /// A header; may be repeated
    #[arg(short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(String, String)>,
    /// Only those of a list for which this expression holds
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected NAME: VALUE".to_owned()),
    }
}

impl Api {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let (path, query) = match self.path.split_once('?') {
            Some((path, query)) => (path, Query::parse(query)),
            None => (self.path.as_str(), Query::new()),
        };
        let query = query.with_some("filter", self.filter.as_ref());
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        let body = body()?;
        let method = match &self.method {
            Some(method) => method.to_ascii_uppercase(),
            None if body.is_empty() => "GET".to_owned(),
            None => "POST".to_owned(),
        };
        let client = session.client()?;
        let sent = client.raw(&method, &path, &query, &self.header, body.into());
        let mut answer = sent.await?;
        while let Some(bytes) = answer.next().await? {
            session.out.bytes(&bytes)?;
        }
        Ok(())
    }
}

/// What stdin holds, where it is a file or a pipe. A terminal, `/dev/null` or a socket holds nothing.
fn body() -> Result<Vec<u8>, Failure> {
    let stdin = std::io::stdin();
    let failed = |source| Failure::ReadFile {
        path: "stdin".into(),
        source,
    };
    if stdin.is_terminal() {
        return Ok(Vec::new());
    }
    // A closed stdin is none.
    let Ok(kind) = std::fs::metadata("/dev/stdin").map(|it| it.file_type()) else {
        return Ok(Vec::new());
    };
    if !kind.is_file() && !kind.is_fifo() {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    let mut input = stdin.lock().take(BODY_BYTES_MAX + 1);
    input.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > BODY_BYTES_MAX {
        return Err(Failure::usage(format!(
            "stdin is larger than {BODY_BYTES_MAX} bytes, the largest body that servers take"
        )));
    }
    Ok(bytes)
}
