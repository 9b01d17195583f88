//! `drover job plan`: what registering a job would change. Exit codes: 0 nothing, 1 something, 255
//! the plan could not be made.

use clap::{ArgAction, Args};
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::find::JobName;
use crate::job_file::JobFileFlags;
use crate::render::plan::{PlanAnswer, View};
use crate::session::Session;

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
    /// What the API answers
    #[arg(long)]
    json_output: bool,
    /// What is in new groups and tasks, and what stays as it is, too
    #[arg(long)]
    verbose: bool,
    /// Accepted: there are no policies that could object
    #[arg(long, hide = true)]
    policy_override: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct PlanRequest<'j> {
    job: &'j protocol_model::Job,
    diff: bool,
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
        let name = JobName {
            id: job.id.clone(),
            namespace: job.namespace.clone(),
        };
        let request = PlanRequest {
            job,
            diff: self.diff,
            policy_override: self.policy_override,
        };
        let answer: Value = client
            .put(&name.path("/plan"), &name.query(), &request)
            .await?
            .value;
        if self.json_output {
            session.out.json(&answer)?;
        }
        let answer: PlanAnswer =
            serde_json::from_value(answer).map_err(|source| Failure::Json {
                what: "the plan",
                source,
            })?;
        if !self.json_output {
            let view = View {
                colour: session.out.colour(),
                verbose: self.verbose,
                file: self.file.shown(),
            };
            session.out.data(&view.plan(&answer))?;
            file.warn(session, &answer.warnings);
        }
        Ok(if answer.changes_something() {
            Exit::NO
        } else {
            Exit::SUCCESS
        })
    }
}
