//! Questions that people answer with yes or no.

use std::io::{BufRead as _, IsTerminal as _};

use crate::failure::Failure;
use crate::session::Session;

/// Asks a question on the terminal; anything but `y` is no. Without a terminal there is nobody to
/// ask.
///
/// # Errors
/// `unasked`, where the standard input is no terminal.
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
