//! `drover job plan`: what registering a job would change. Exit codes: 0 nothing, 1 something, 255
//! the plan could not be made.

use clap::{ArgAction, Args};
use protocol_api::jobs::{JobRequest, PlanJob};

use crate::failure::{Exit, Failure};
use crate::job_file::JobFileFlags;
use crate::render::plan::{View, changes_something};
use crate::session::{Session, in_namespace};

/// The exit code of a plan that could not be made.
pub(crate) const FAILED: u8 = 255;

#[derive(Args, Debug)]
pub(crate) struct Plan {
    #[command(flatten)]
    file: JobFileFlags,
    /// Show what changes in the job; -diff=false leaves it out
    #[arg(long, action = ArgAction::Set, default_value_t = true, num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    diff: bool,
    /// Answer of the API
    #[arg(long)]
    json_output: bool,
    /// What is in new groups and tasks, and what stays as it is, too
    #[arg(long)]
    verbose: bool,
    /// Accepted: there are no policies that could object
    #[arg(long, hide = true)]
    policy_override: bool,
}

impl Plan {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        self.plan(session)
            .await
            .map_err(|failure| failure.with_code(FAILED))
    }

    async fn plan(&self, session: &Session) -> Result<Exit, Failure> {
        let file = self.file.read(session)?;
        file.check()?;
        let job = &file.job;
        let client = session.client()?;
        let request = JobRequest {
            job: Some(job.clone()),
            // A template has no allocations: its difference is what the exit code tells.
            diff: self.diff || job.is_template(),
            ..JobRequest::default()
        };
        let (plan, query) = (PlanJob { id: &job.id }, in_namespace(&job.namespace));
        let mut answer = client.call_with(&plan, &query, &request).await?.value;
        let changes = changes_something(&answer, job);
        answer.diff = answer.diff.filter(|_| self.diff);
        if self.json_output {
            session.out.json(&answer)?;
        } else {
            let view = View {
                colour: session.out.colour(),
                verbose: self.verbose,
                file: self.file.shown(),
            };
            session
                .out
                .data(&view.plan(&answer, job, &session.clock()))?;
            file.warn(session, &answer.warnings);
        }
        Ok(if changes { Exit::NO } else { Exit::SUCCESS })
    }
}
