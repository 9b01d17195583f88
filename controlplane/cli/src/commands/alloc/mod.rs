//! `drover alloc`.

mod logs;
mod status;
pub(crate) mod target;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum AllocCommand {
    /// Show an allocation: its tasks, resources and events
    Status(status::Status),
    /// Show what a task wrote
    Logs(logs::Logs),
}

impl AllocCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Status(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
        }
    }
}
