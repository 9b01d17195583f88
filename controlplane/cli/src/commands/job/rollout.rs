//! A job's rollouts and allocations: `promote`, `deployments`, `allocs`.

use clap::Args;
use protocol_api::jobs::{JobAllocations, JobDeployments, LatestDeployment};
use protocol_model::{AllocationListStub, Deployment};

use crate::commands::deployment::{self, WatchFlags};
use crate::failure::{Exit, Failure};
use crate::find;
use crate::listing::ShowFlags;
use crate::render::job::allocations;
use crate::session::Session;

#[derive(Args, Debug)]
pub(crate) struct Promote {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// Promote this group only; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    #[command(flatten)]
    watch: WatchFlags,
}

impl Promote {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let latest = LatestDeployment { id: &name.id };
        let found = client.call(&latest, &name.query()).await?.value;
        let Some(found) = found else {
            let id = &name.id;
            return Err(Failure::usage(format!(
                "Job {id:?} has no deployment to promote"
            )));
        };
        let id = found.id.to_string();
        let changed = deployment::promote(&client, &id, self.groups).await?;
        self.watch.watch(session, &client, &changed).await
    }
}

#[derive(Args, Debug)]
pub(crate) struct Deployments {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// Only the newest one, with its groups
    #[arg(long)]
    latest: bool,
    /// Those of an earlier job of the same name too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    flags: ShowFlags,
}

impl Deployments {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let (length, form) = (self.flags.length(), self.flags.form());
        let id = name.id.as_str();
        if self.latest {
            let latest = (&LatestDeployment { id }, &name.query());
            let regions = match client.call(latest.0, latest.1).await?.value {
                Some(found) => deployment::regions(&client, &found, length).await?,
                None => None,
            };
            let view = deployment::View {
                length,
                colour: session.out.colour(),
                clock: &session.clock(),
                regions,
            };
            let render = |found: Option<Deployment>| match found {
                None => "No deployment found".to_owned(),
                Some(found) => view.one(&found),
            };
            session.show(&client, latest, form, render).await?;
            return Ok(Exit::SUCCESS);
        }
        let query = name.query().with("all", self.all);
        let render = |all: Vec<Deployment>| deployment::list(&all, length);
        let list = (&JobDeployments { id }, &query);
        session.show(&client, list, form, render).await?;
        Ok(Exit::SUCCESS)
    }
}

#[derive(Args, Debug)]
pub(crate) struct Allocs {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// Those of an earlier job of the same name too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    flags: ShowFlags,
}

impl Allocs {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let (length, clock) = (self.flags.length(), session.clock());
        let query = name.query().with("all", self.all);
        let render = |all: Vec<AllocationListStub>| allocations(&all, length, &clock);
        let list = (&JobAllocations { id: &name.id }, &query);
        session
            .show(&client, list, self.flags.form(), render)
            .await?;
        Ok(Exit::SUCCESS)
    }
}
