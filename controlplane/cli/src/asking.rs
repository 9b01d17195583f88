//! Questions to a person; questions to servers that are repeated while the servers elect a leader
//! or restart, since a registered job is still watched to its end.

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use protocol_api::Operation;
use protocol_client::{Answer, Client, ClientError, Query};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::session::Session;

/// How long a server may be unable to answer. An election takes half a second, a restart a few.
const AWAY_MAX: Duration = Duration::from_secs(30);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// Carries out a read, and again for a while where the servers cannot answer; says so once.
///
/// # Errors
/// The last failure, where it lasted, or one that another attempt would not mend.
pub(crate) async fn ask_on<O: Operation<Body = ()>>(
    session: &Session,
    client: &Client,
    operation: &O,
    query: &Query,
) -> Result<Answer<O::Answer>, ClientError> {
    let deadline = Instant::now() + AWAY_MAX;
    let mut told = false;
    loop {
        let error = match client.call(operation, query).await {
            Ok(answer) => return Ok(answer),
            Err(error) if may_pass(&error) && Instant::now() < deadline => error,
            Err(error) => return Err(error),
        };
        if !told {
            told = true;
            let seconds = AWAY_MAX.as_secs();
            session.out.note(&format!(
                "==> {error}; asking again for {seconds} s (what was submitted goes on)"
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether another attempt may find a server that can answer.
fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::Transfer { .. } => true,
        ClientError::Status { code, .. } => matches!(code, 500 | 502 | 503),
        _ => false,
    }
}

/// Asks a question on the terminal; every answer but `y` is no.
///
/// # Errors
/// `unasked`, where stdin is no terminal.
pub(crate) fn agreed(session: &Session, question: &str, unasked: Failure) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(unasked);
    }
    session.out.note(&format!("{question} [y/N]"));
    let mut answer = String::new();
    stdin
        .lock()
        .read_line(&mut answer)
        .map_err(|source| Failure::Host {
            what: "reading the answer",
            source,
        })?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}
