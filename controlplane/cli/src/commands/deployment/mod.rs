//! `drover deployment`.

use clap::{Args, Subcommand};
use protocol_api::deployments::{ListDeployments, ReadDeployment};
use protocol_client::Query;
use protocol_model::Deployment;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length, shown};
use crate::listing::ShowFlags;
use crate::render::columns::{Columns, pairs};
use crate::render::{deployment, word};
use crate::session::{Clock, Session};

#[derive(Subcommand, Debug)]
pub(crate) enum DeploymentCommand {
    /// List deployments, the newest first
    List(ShowFlags),
    /// Show a deployment
    Status(Status),
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The deployment's id, or its beginning
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    #[command(flatten)]
    flags: ShowFlags,
}

impl DeploymentCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        match self {
            Self::List(flags) => {
                let query = &Query::new().with("reverse", true);
                let render = |all: Vec<_>| list(&all, flags.length());
                let operation = (&ListDeployments, query);
                session.show(&client, operation, flags.form(), render).await
            }
            Self::Status(Status { deployment, flags }) => {
                let id = &find::id(&client, Kind::Deployment, &deployment).await?;
                let (clock, title) = (session.clock(), session.out.colour().bold("Deployed"));
                let render = |found| one(&found, flags.length(), &title, &clock);
                let operation = (&ReadDeployment { id }, &Query::new());
                session.show(&client, operation, flags.form(), render).await
            }
        }?;
        Ok(Exit::SUCCESS)
    }
}

fn list(deployments: &[Deployment], length: Length) -> String {
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

fn one(deployment: &Deployment, length: Length, title: &str, clock: &Clock) -> String {
    let head = pairs(&[
        ("ID", shown(&deployment.id.to_string(), length)),
        ("Job ID", deployment.job_id.clone()),
        ("Job Version", deployment.job_version.to_string()),
        ("Status", word(&deployment.status)),
        ("Description", deployment.status_description.clone()),
    ]);
    format!("{head}\n{title}\n{}", deployment::groups(deployment, clock))
}
