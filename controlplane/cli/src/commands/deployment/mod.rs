//! `drover deployment`.

mod change;

pub(crate) use change::{WatchFlags, promote};

use clap::{Args, Subcommand};
use protocol_api::deployments::{ListDeployments, ReadDeployment};
use protocol_api::jobs::ReadJob;
use protocol_client::{Client, ClientError, Query};
use protocol_model::Deployment;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length, shown};
use crate::listing::ShowFlags;
use crate::monitor::Monitor;
use crate::output::Colour;
use crate::render::columns::{Columns, pairs};
use crate::render::{deployment, word};
use crate::session::{Clock, Session};

#[derive(Subcommand, Debug)]
pub(crate) enum DeploymentCommand {
    /// List deployments, the newest first
    List(ShowFlags),
    /// Show a deployment
    Status(Status),
    /// Fail a deployment: its canaries stop, and its job goes back where it says auto_revert
    Fail(change::Fail),
    /// Pause a deployment: nothing of it goes on
    Pause(change::Pause),
    /// Promote the canaries of a deployment
    Promote(change::Promote),
    /// Resume a paused deployment
    Resume(change::Resume),
    /// Release a deployment that waits for other regions
    Unblock(change::Unblock),
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The deployment's id, or its beginning; all deployments where not given
    #[arg(value_name = "DEPLOYMENT")]
    deployment: Option<String>,
    /// Watch it until it has ended, or waits for a person
    #[arg(long, conflicts_with = "json")]
    monitor: bool,
    #[command(flatten)]
    flags: ShowFlags,
}

impl DeploymentCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::List(flags) => all(session, flags).await,
            Self::Status(status) => status.run(session).await,
            Self::Fail(command) => command.run(session).await,
            Self::Pause(command) => command.run(session).await,
            Self::Promote(command) => command.run(session).await,
            Self::Resume(command) => command.run(session).await,
            Self::Unblock(command) => command.run(session).await,
        }
    }
}

async fn all(session: &Session, flags: ShowFlags) -> Result<Exit, Failure> {
    let client = session.client()?;
    let query = &Query::new().with("reverse", true);
    let render = |all: Vec<_>| list(&all, flags.length());
    let operation = (&ListDeployments, query);
    session
        .show(&client, operation, flags.form(), render)
        .await?;
    Ok(Exit::SUCCESS)
}

impl Status {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let Self {
            deployment,
            monitor,
            flags,
        } = self;
        let Some(deployment) = deployment else {
            return all(session, flags).await;
        };
        let client = session.client()?;
        let id = &find::id(&client, Kind::Deployment, &deployment).await?;
        if monitor {
            let monitor = Monitor::new(session, &client, flags.length());
            return monitor.deployment(id).await;
        }
        let operation = (&ReadDeployment { id }, &Query::new());
        let found = client.call(operation.0, operation.1).await?.value;
        let regions = regions(&client, &found, flags.length()).await?;
        let view = View {
            length: flags.length(),
            colour: session.out.colour(),
            clock: &session.clock(),
            regions,
        };
        let render = |found| view.one(&found);
        session
            .show(&client, operation, flags.form(), render)
            .await?;
        Ok(Exit::SUCCESS)
    }
}

/// Deployments, as lists of them show them.
pub(crate) fn list(deployments: &[Deployment], length: Length) -> String {
    if deployments.is_empty() {
        return "No deployments found".to_owned();
    }
    let mut table = Columns::new(&["ID", "Job ID", "Job Version", "Status", "Description"]);
    for deployment in deployments {
        table.row([
            shown(&deployment.id.to_string(), length),
            deployment.job_id.clone(),
            deployment.job_version.to_string(),
            word(&deployment.status),
            deployment.status_description.clone(),
        ]);
    }
    table.render()
}

/// The regions of the job of a deployment that is a part of several; nothing where it is the
/// whole, or its job is gone.
pub(crate) async fn regions(
    client: &Client,
    found: &Deployment,
    length: Length,
) -> Result<Option<String>, Failure> {
    if !found.is_multiregion {
        return Ok(None);
    }
    let id = &found.job_id;
    let query = Query::new().with("namespace", &found.namespace);
    match client.call(&ReadJob { id }, &query).await {
        Ok(job) => Ok(deployment::regions(found, &job.value, length)),
        Err(ClientError::Status { code: 404, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// How one deployment is shown.
pub(crate) struct View<'a> {
    pub(crate) length: Length,
    pub(crate) colour: Colour,
    pub(crate) clock: &'a Clock,
    /// The regions that it is one part of.
    pub(crate) regions: Option<String>,
}

impl View<'_> {
    /// One deployment with its groups.
    pub(crate) fn one(&self, found: &Deployment) -> String {
        let head = pairs(&[
            ("ID", shown(&found.id.to_string(), self.length)),
            ("Job ID", found.job_id.clone()),
            ("Job Version", found.job_version.to_string()),
            ("Status", word(&found.status)),
            ("Description", found.status_description.clone()),
        ]);
        let groups = deployment::groups(found, self.clock);
        let regions = self.regions.as_deref();
        let regions = regions.map(|body| ("Multiregion Deployment", body));
        let sections = regions.into_iter().chain([("Deployed", &*groups)]);
        let sections = sections.map(|(title, body)| {
            let title = self.colour.bold(title);
            format!("{title}\n{body}")
        });
        let parts: Vec<String> = std::iter::once(head).chain(sections).collect();
        parts.join("\n")
    }
}
