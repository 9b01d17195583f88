//! `drover acl bootstrap`, and secrets in files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use protocol_api::acl::{Bootstrap as MakeToken, BootstrapRequest};
use protocol_client::Query;
use protocol_model::SecretText;

use super::Json;
use crate::failure::Failure;
use crate::render::acl::token;
use crate::session::Session;

/// The most that is read of a file with a token's secret: a UUID has 36 bytes.
const SECRET_BYTES_MAX: u64 = 1024;

#[derive(Args, Debug)]
pub(crate) struct Bootstrap {
    /// A file with the token's secret, a UUID; - reads it from stdin; without it a secret is made
    #[arg(value_name = "FILE")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    json: Json,
}

impl Bootstrap {
    pub(super) async fn run(self, session: &Session) -> Result<(), Failure> {
        let mut request = BootstrapRequest::default();
        if let Some(path) = self.secret {
            request.bootstrap_secret = read_secret(&path)?;
        }
        let client = session.client()?;
        let query = Query::new();
        let made = client.call_with(&MakeToken, &query, &request).await?;
        self.json.print(session, &made.value, token::one)
    }
}

/// The secret in a file, without the line's end. The server judges its form.
///
/// # Errors
/// Where the file cannot be read, or holds no text of a secret's length.
pub(super) fn read_secret(path: &Path) -> Result<SecretText, Failure> {
    let failed = |source| Failure::ReadFile {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let mut file: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    file.by_ref()
        .take(SECRET_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    let secret = text.trim();
    if secret.is_empty() || text.len() as u64 > SECRET_BYTES_MAX {
        let problem = format!(
            "{} holds no token: expected a UUID and nothing else",
            path.display()
        );
        return Err(Failure::usage(problem));
    }
    Ok(SecretText::new(secret))
}
