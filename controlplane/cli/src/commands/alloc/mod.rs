//! `drover alloc`.

mod change;
pub(crate) mod connection;
mod escape;
mod exec;
mod files;
mod frames;
mod logs;
mod status;
mod tail;
pub(crate) mod target;
mod terminal;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum AllocCommand {
    /// Show an allocation: its tasks, resources and events
    Status(status::Status),
    /// Show what a task wrote
    Logs(logs::Logs),
    /// Stop an allocation; another one takes its place
    Stop(change::Stop),
    /// Restart its tasks
    Restart(change::Restart),
    /// Send a signal to its tasks
    Signal(change::Signal),
    /// Show its files
    Fs(files::Files),
    /// Run a command in a task
    Exec(exec::Exec),
}

impl AllocCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Status(command) => command.run(session).await,
            Self::Logs(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
            Self::Restart(command) => command.run(session).await,
            Self::Signal(command) => command.run(session).await,
            Self::Fs(command) => command.run(session).await,
            Self::Exec(command) => command.run(session).await,
        }
    }
}
