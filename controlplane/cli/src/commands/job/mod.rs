//! `drover job`.

mod run;
mod status;
mod stop;

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// Register a job and watch it being placed
    Run(run::Run),
    /// List jobs, or show one with its allocations
    Status(status::Status),
    /// Stop a job
    Stop(stop::Stop),
}

impl JobCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Run(command) => command.run(session).await,
            Self::Status(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
        }
    }
}
