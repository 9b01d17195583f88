//! `drover job status`.

use clap::Args;
use protocol_api::jobs::{
    JobAllocations, JobEvaluations, JobSummary, LatestDeployment, ListJobs, ReadJob,
};
use protocol_client::Query;
use protocol_model::PERIODIC_LAUNCH_INFIX;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::find::{self, Length};
use crate::listing::Form;
use crate::render::children::parameterized;
use crate::render::job::{JobParts, list, one};
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The job's id, or its beginning; all jobs where not given
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// Only what the job itself is
    #[arg(long)]
    short: bool,
    /// Allocations of an earlier job of the same name too
    #[arg(long)]
    all_allocs: bool,
    /// The job's evaluations too
    #[arg(long)]
    evals: bool,
    /// Whole ids and times, names of nodes, and evaluations
    #[arg(long)]
    verbose: bool,
}

impl Status {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let clock = session.clock();
        let Some(text) = &self.job else {
            let render = |jobs: Vec<_>| list(&jobs, &clock);
            let jobs = (&ListJobs, &Query::new());
            session
                .show(&client, jobs, Form::new(self.json), render)
                .await?;
            return Ok(Exit::SUCCESS);
        };
        let name = find::job(&client, text).await?;
        let query = name.query();
        let all = name.query().with("all", self.all_allocs);
        let id = name.id.as_str();
        let (read, read_counts, list_allocs) =
            (ReadJob { id }, JobSummary { id }, JobAllocations { id });
        if self.json {
            let job = client.call_json(&read, &query).await?.value;
            let allocs = client.call_json(&list_allocs, &all).await?.value;
            let counts = client.call_json(&read_counts, &query).await?.value;
            session
                .out
                .json(&json!({ "Job": job, "Allocations": allocs, "Summary": counts }))?;
            return Ok(Exit::SUCCESS);
        }
        let job = client.call(&read, &query).await?.value;
        let counts = client.call(&read_counts, &query).await?.value;
        if job.is_parameterized() && !self.short {
            let prefix = format!("{id}/dispatch-");
            let children = client
                .call(&ListJobs, &query.with("prefix", prefix))
                .await?;
            let (children, colour) = (children.value, session.out.colour());
            let text = parameterized(&job, counts.children, &children, colour, &clock);
            session.out.data(&text)?;
            return Ok(Exit::SUCCESS);
        }
        let mut parts = JobParts {
            job: &job,
            counts: &counts,
            deployment: None,
            allocs: Vec::new(),
            evals: Vec::new(),
            launched: Vec::new(),
            show_evals: self.evals || self.verbose,
            show_allocs: !self.short,
        };
        if !self.short {
            let latest = LatestDeployment { id };
            parts.deployment = client.call(&latest, &query).await?.value;
            parts.allocs = client.call(&list_allocs, &all).await?.value;
            parts.evals = client.call(&JobEvaluations { id }, &query).await?.value;
            if job.is_periodic() {
                let prefix = format!("{}{PERIODIC_LAUNCH_INFIX}", job.id);
                let launched = name.query().with("prefix", prefix.as_str());
                parts.launched = client.call(&ListJobs, &launched).await?.value;
                parts.launched.retain(|child| child.parent_id == job.id);
            }
        }
        let length = Length::new(self.verbose);
        session
            .out
            .data(&one(&parts, length, session.out.colour(), &clock))?;
        Ok(Exit::SUCCESS)
    }
}
