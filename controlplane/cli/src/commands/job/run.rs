//! `drover job run`.

use clap::Args;
use protocol_api::jobs::{JobRequest, RegisterJob, Registered};
use protocol_client::Client;
use protocol_model::Job;
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::find::Length;
use crate::job_file::JobFileFlags;
use crate::monitor::Monitor;
use crate::render::job::next_launch;
use crate::session::{Session, in_namespace};

#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    file: JobFileFlags,
    /// Only if the job's modify index is this one; 0 = only if there is no such job
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// Return once the job is registered; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// The priority of the evaluation, 1 to 100; the job's where not given
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(i32).range(1..=100))]
    eval_priority: Option<i32>,
    /// Print the job as it would be submitted, as JSON; needs no server
    #[arg(long)]
    output: bool,
    /// Keep the counts of a job that runs already
    #[arg(long)]
    preserve_counts: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
    /// Accepted: there are no policies that could object
    #[arg(long, hide = true)]
    policy_override: bool,
}

/// What `-output` prints.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct JobDocument<'j> {
    job: &'j Job,
}

impl Run {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let file = self.file.read(session)?;
        let job = &file.job;
        if self.output {
            session.out.json(&JobDocument { job })?;
            return Ok(Exit::SUCCESS);
        }
        file.check()?;
        let client = session.client()?;
        let request = JobRequest {
            job: Some(job.clone()),
            enforce_index: self.check_index.is_some(),
            job_modify_index: self.check_index.unwrap_or(0),
            eval_priority: self.eval_priority.unwrap_or(0),
            preserve_counts: self.preserve_counts,
            submission: Some(file.submission.clone()),
            diff: false,
        };
        let query = in_namespace(&job.namespace);
        let answer = client.call_with(&RegisterJob, &query, &request).await?;
        let Registered {
            eval_id, warnings, ..
        } = answer.value;
        file.warn(session, &warnings);
        self.follow(session, &client, job, &eval_id).await
    }

    async fn follow(
        &self,
        session: &Session,
        client: &Client,
        job: &Job,
        eval_id: &str,
    ) -> Result<Exit, Failure> {
        let out = &session.out;
        if eval_id.is_empty() {
            // Periodic and parameterized jobs wait for their time, or for a dispatch.
            out.data("Job registration successful")?;
            if job.launches_by_time() {
                let next = next_launch(job, &session.clock());
                out.data(&format!("Approximate next launch time: {next}"))?;
            } else {
                out.note(&format!("job {:?} runs nothing by itself now", job.id));
            }
            return Ok(Exit::SUCCESS);
        }
        if self.detach {
            out.data(&format!(
                "Job registration successful\nEvaluation ID: {eval_id}"
            ))?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, client, length).watch(eval_id).await
    }
}
