//! `drover job periodic`.

use clap::{Args, Subcommand};
use protocol_api::jobs::ForcePeriodic;

use crate::failure::{Exit, Failure};
use crate::find::{self, Length};
use crate::monitor::Monitor;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum PeriodicCommand {
    /// Launch a periodic job now
    Force(Force),
}

impl PeriodicCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Force(command) => command.run(session).await,
        }
    }
}

/// Launch a periodic job now, although it prohibits overlap. Its schedule stays as it is.
#[derive(Args, Debug)]
pub(crate) struct Force {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// Return once the job is launched; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl Force {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::periodic_job(&client, &self.job).await?;
        let force = ForcePeriodic { id: &name.id };
        let answer = client.call(&force, &name.query()).await?.value;
        if self.detach || answer.eval_id.is_empty() {
            session.out.data(&format!(
                "Force periodic successful\nEvaluation ID: {}",
                answer.eval_id
            ))?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, &client, length)
            .watch(&answer.eval_id)
            .await
    }
}
