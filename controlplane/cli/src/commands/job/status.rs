//! `drover job status`.

use clap::Args;
use protocol_client::Query;
use protocol_model::{AllocationListStub, Deployment, Evaluation, Job};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::find::{self, Length};
use crate::render::job::{JobParts, JobStub, Summary, list, one};
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The job's id, or its beginning; all jobs where not given
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// What the API answers
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
            if self.json {
                let jobs: Value = client.get("/v1/jobs", &Query::new()).await?.value;
                session.out.json(&jobs)?;
                return Ok(Exit::SUCCESS);
            }
            let jobs: Vec<JobStub> = client.get("/v1/jobs", &Query::new()).await?.value;
            session.out.data(&list(&jobs, &clock))?;
            return Ok(Exit::SUCCESS);
        };
        let name = find::job(&client, text).await?;
        let query = name.query();
        let all = name.query().with("all", self.all_allocs);
        if self.json {
            let job: Value = client.get(&name.path(""), &query).await?.value;
            let allocs: Value = client.get(&name.path("/allocations"), &all).await?.value;
            let summary: Value = client.get(&name.path("/summary"), &query).await?.value;
            session
                .out
                .json(&json!({ "Job": job, "Allocations": allocs, "Summary": summary }))?;
            return Ok(Exit::SUCCESS);
        }
        let job: Job = client.get(&name.path(""), &query).await?.value;
        let summary: Summary = client.get(&name.path("/summary"), &query).await?.value;
        let mut parts = JobParts {
            job: &job,
            summary: &summary,
            deployment: None,
            allocs: Vec::new(),
            evals: Vec::new(),
            show_evals: self.evals || self.verbose,
            show_allocs: !self.short,
        };
        if !self.short {
            parts.deployment = client
                .get::<Option<Deployment>>(&name.path("/deployment"), &query)
                .await?
                .value;
            parts.allocs = client
                .get::<Vec<AllocationListStub>>(&name.path("/allocations"), &all)
                .await?
                .value;
            parts.evals = client
                .get::<Vec<Evaluation>>(&name.path("/evaluations"), &query)
                .await?
                .value;
        }
        let length = Length::new(self.verbose);
        session
            .out
            .data(&one(&parts, length, session.out.colour(), &clock))?;
        Ok(Exit::SUCCESS)
    }
}
