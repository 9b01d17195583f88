//! `drover job`.

mod dispatch;
mod history;
pub(crate) mod plan;
mod read;
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
    /// Show what running a job would change; exit code 0: nothing, 1: something, 255: failed
    Plan(plan::Plan),
    /// Check a job file
    Validate(read::Validate),
    /// List jobs, or show one with its allocations
    Status(status::Status),
    /// Start a job from a parameterized one
    Dispatch(dispatch::Dispatch),
    /// Stop a job
    Stop(stop::Stop),
    /// Show a job as JSON
    Inspect(read::Inspect),
    /// Show the versions of a job
    History(history::History),
    /// Have the scheduler look at a job again
    Eval(read::Eval),
}

impl JobCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Run(command) => command.run(session).await,
            Self::Plan(command) => command.run(session).await,
            Self::Validate(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::History(command) => command.run(session).await,
            Self::Eval(command) => command.run(session).await,
            Self::Status(command) => command.run(session).await,
            Self::Dispatch(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
        }
    }
}
