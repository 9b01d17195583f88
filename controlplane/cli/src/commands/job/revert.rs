//! `drover job revert` and `job start`: an earlier version again.

use clap::Args;
use protocol_api::jobs::{JobVersions, ReadJob, RevertJob, RevertRequest};
use protocol_client::Client;

use crate::failure::{Exit, Failure};
use crate::find::{self, JobName, Length};
use crate::monitor::Monitor;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Revert {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// The version's number, or its tag
    #[arg(value_name = "VERSION")]
    version: String,
    #[command(flatten)]
    after: After,
}

/// The next step after the registration.
#[derive(Args, Debug)]
struct After {
    /// Return once it is registered; prints the evaluation's id
    #[arg(long)]
    detach: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

impl After {
    async fn follow(
        &self,
        session: &Session,
        client: &Client,
        eval: &str,
    ) -> Result<Exit, Failure> {
        if eval.is_empty() {
            return Ok(Exit::SUCCESS);
        }
        if self.detach {
            session.out.data(&format!("Evaluation ID: {eval}"))?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(self.verbose);
        Monitor::new(session, client, length).watch(eval).await
    }
}

async fn revert(
    client: &Client,
    name: &JobName,
    version: u64,
    prior: Option<u64>,
) -> Result<String, Failure> {
    let request = RevertRequest {
        job_id: name.id.clone(),
        job_version: version,
        enforce_prior_version: prior,
    };
    let revert = RevertJob { id: &name.id };
    let answer = client.call_with(&revert, &name.query(), &request).await?;
    Ok(answer.value.eval_id)
}

impl Revert {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let version = match self.version.parse() {
            Ok(number) => number,
            Err(_) => tagged(&client, &name, &self.version).await?,
        };
        let eval = revert(&client, &name, version, None).await?;
        self.after.follow(session, &client, &eval).await
    }
}

/// The version that has this tag.
async fn tagged(client: &Client, name: &JobName, tag: &str) -> Result<u64, Failure> {
    let read = JobVersions { id: &name.id };
    let versions = client.call(&read, &name.query()).await?.value.versions;
    let found = versions.iter().find(|job| {
        let found = job.version_tag.as_ref();
        found.is_some_and(|found| found.name == tag)
    });
    let unknown = || Failure::usage(format!("tag {tag:?} not found on job {:?}", name.id));
    Ok(found.ok_or_else(unknown)?.version)
}

#[derive(Args, Debug)]
pub(crate) struct Start {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    after: After,
}

impl Start {
    /// Goes back to the newest version that was not stopped.
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let id = name.id.as_str();
        let job = client.call(&ReadJob { id }, &name.query()).await?.value;
        if !job.stop {
            let message = format!("job {id:?} has not been stopped and cannot be started");
            return Err(Failure::usage(message));
        }
        let read = JobVersions { id };
        let versions = client.call(&read, &name.query()).await?.value.versions;
        let Some(ran) = versions.iter().find(|version| !version.stop) else {
            return Err(Failure::usage_hint(
                format!("job {id:?} has no version that was not stopped"),
                "register it again with `drover job run`",
            ));
        };
        let eval = revert(&client, &name, ran.version, Some(job.version)).await?;
        self.after.follow(session, &client, &eval).await
    }
}
