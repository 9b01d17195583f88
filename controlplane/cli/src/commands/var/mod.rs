//! `drover var`: variables, which hold secrets and settings of tasks.

mod form;
mod get;
mod init;
mod list;
pub(crate) mod lock;
mod purge;
mod put;
mod spec;

use clap::Subcommand;
use protocol_api::variables::Variable;
use protocol_client::ClientError;

use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum VarCommand {
    /// Show a variable
    Get(get::Get),
    /// Write an example of a variable specification
    Init(init::Init),
    /// List variables, without their items
    List(list::List),
    /// Run a command while holding the variable's lock
    Lock(lock::Lock),
    /// Delete a variable
    Purge(purge::Purge),
    /// Create or change a variable
    Put(put::Put),
}

impl VarCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Get(command) => command.run(session).await?,
            Self::Init(command) => command.run(session)?,
            Self::List(command) => command.run(session).await?,
            Self::Lock(command) => return command.run(session).await,
            Self::Purge(command) => command.run(session).await?,
            Self::Put(command) => command.run(session).await?,
        }
        Ok(Exit::SUCCESS)
    }
}

/// The command whose write was refused: its flags stand in the hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    Put,
    Purge,
}

/// The failure of a write: a conflict tells both indexes.
fn conflict(error: ClientError, path: &str, check: Option<u64>, writer: Writer) -> Failure {
    let ClientError::Status { code: 409, message } = &error else {
        return error.into();
    };
    let Ok(present) = serde_json::from_str::<Variable>(message) else {
        return error.into();
    };
    let found = present.modify_index;
    let Some(wanted) = check.filter(|wanted| *wanted != found) else {
        return Failure::usage_hint(
            format!("variable {path:?} is locked: its holder alone may change it"),
            "wait until its lock is released or expires",
        );
    };
    Failure::usage_hint(
        format!(
            "Check-and-Set conflict: your provided check-index ({wanted}) does not match the \
             server-side index ({found})"
        ),
        match writer {
            Writer::Put => format!("if you are sure, add -force or -check-index={found}"),
            Writer::Purge => {
                format!("if you are sure, use -check-index={found}, or leave -check-index out")
            }
        },
    )
}

/// A path as the server knows it. As in Nomad, slashes and spaces around it do not count.
fn path_of(text: &str) -> &str {
    text.trim_matches([' ', '/'])
}

/// Refuses the namespace `*`, which is for lists alone.
fn one_namespace(session: &Session) -> Result<(), Failure> {
    match session.namespace().as_deref() {
        Some("*") => Err(Failure::usage(
            "The wildcard namespace (\"*\") is not valid for this command.",
        )),
        _ => Ok(()),
    }
}
