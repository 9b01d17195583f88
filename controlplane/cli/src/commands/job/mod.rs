//! `drover job`.

pub(crate) mod action;
mod dispatch;
mod history;
mod periodic;
pub(crate) mod plan;
mod read;
mod restart;
mod revert;
mod rollout;
mod run;
mod scale;
mod status;
mod stop;
mod tag;

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
    /// Restart the tasks of a job, batch after batch
    Restart(restart::Restart),
    /// Register an earlier version of a job again
    Revert(revert::Revert),
    /// Change the count of a group
    Scale(scale::Scale),
    /// Show the scaling events of a job
    ScalingEvents(scale::ScalingEvents),
    /// Start a job that was stopped
    Start(revert::Start),
    /// Tags of job versions
    #[command(subcommand)]
    Tag(tag::TagCommand),
    /// Stop a job
    Stop(stop::Stop),
    /// Show a job as JSON
    Inspect(read::Inspect),
    /// Show the versions of a job
    History(history::History),
    /// Launch periodic jobs by hand
    #[command(subcommand)]
    Periodic(periodic::PeriodicCommand),
    /// Have the scheduler look at a job again
    Eval(read::Eval),
    /// Promote the canaries of a job's newest deployment
    Promote(rollout::Promote),
    /// List the deployments of a job
    Deployments(rollout::Deployments),
    /// List the allocations of a job
    Allocs(rollout::Allocs),
    /// Run an action of a job in a running task
    Action(action::Action),
}

impl JobCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Run(command) => command.run(session).await,
            Self::Action(command) => command.run(session).await,
            Self::Plan(command) => command.run(session).await,
            Self::Validate(command) => command.run(session).await,
            Self::Inspect(command) => command.run(session).await,
            Self::History(command) => command.run(session).await,
            Self::Periodic(command) => command.run(session).await,
            Self::Eval(command) => command.run(session).await,
            Self::Status(command) => command.run(session).await,
            Self::Dispatch(command) => command.run(session).await,
            Self::Restart(command) => command.run(session).await,
            Self::Revert(command) => command.run(session).await,
            Self::Scale(command) => command.run(session).await,
            Self::ScalingEvents(command) => command.run(session).await,
            Self::Start(command) => command.run(session).await,
            Self::Tag(command) => command.run(session).await,
            Self::Promote(command) => command.run(session).await,
            Self::Deployments(command) => command.run(session).await,
            Self::Allocs(command) => command.run(session).await,
            Self::Stop(command) => command.run(session).await,
        }
    }
}
