//! The small commands about one job: `validate`, `inspect`, `eval`.

use clap::Args;
use protocol_api::jobs::{
    EvalOptions, EvaluateJob, EvaluateRequest, JobRequest, JobVersions, ReadJob, ValidateJob,
    Validated,
};
use protocol_client::ClientError;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::find::{self, Length};
use crate::job_file::JobFileFlags;
use crate::monitor::Monitor;
use crate::session::{Session, in_namespace};

#[derive(Args, Debug)]
pub(crate) struct Validate {
    #[command(flatten)]
    file: JobFileFlags,
}

impl Validate {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let file = self.file.read(session)?;
        file.check()?;
        // The server may know more than we do: its release decides what is honoured.
        let client = session.client()?;
        let job = &file.job;
        let query = in_namespace(&job.namespace);
        let request = JobRequest {
            job: Some(job.clone()),
            ..JobRequest::default()
        };
        let answer = match client.call_with(&ValidateJob, &query, &request).await {
            Ok(answer) => answer.value,
            Err(unreached @ ClientError::Connect { .. }) => {
                file.warn_unasked(session);
                session
                    .out
                    .note(&format!("warning: no server was asked: {unreached}"));
                Validated::default()
            }
            Err(refused) => return Err(refused.into()),
        };
        if !answer.error.is_empty() {
            return Err(Failure::Job(answer.error));
        }
        file.warn(session, &answer.warnings);
        session.out.data("Job validation successful")?;
        Ok(Exit::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// This version of it
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// Accepted: the answer is JSON anyway
    #[arg(long, hide = true)]
    json: bool,
}

impl Inspect {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let job: Value = match self.version {
            None => {
                let read = ReadJob { id: &name.id };
                client.call_json(&read, &name.query()).await?.value
            }
            Some(version) => {
                let read = JobVersions { id: &name.id };
                let all = client.call_json(&read, &name.query()).await?.value;
                let versions = all["Versions"].as_array().into_iter().flatten();
                versions
                    .into_iter()
                    .find(|job| job["Version"] == version)
                    .cloned()
                    .ok_or_else(|| {
                        Failure::usage(format!("job {:?} has no version {version}", name.id))
                    })?
            }
        };
        session.out.json(&json!({ "Job": job }))?;
        Ok(Exit::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Eval {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// Reschedule failed allocations although their delay is not over
    #[arg(long)]
    force_reschedule: bool,
    /// Return once the evaluation is made; prints its id
    #[arg(long)]
    detach: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl Eval {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let request = EvaluateRequest {
            job_id: name.id.clone(),
            eval_options: EvalOptions {
                force_reschedule: self.force_reschedule,
            },
        };
        let evaluate = EvaluateJob { id: &name.id };
        let answer = client.call_with(&evaluate, &name.query(), &request).await?;
        let eval_id = answer.value.eval_id;
        if self.detach {
            session.out.data(&eval_id)?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, &client, length).watch(&eval_id).await
    }
}
