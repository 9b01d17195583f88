//! `drover deployment`.

use clap::{Args, Subcommand};
use protocol_client::Query;
use protocol_model::Deployment;
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::find::{self, Kind, Length, shown};
use crate::render::columns::{Columns, pairs};
use crate::render::{deployment, word};
use crate::session::{Clock, Session};

#[derive(Subcommand, Debug)]
pub(crate) enum DeploymentCommand {
    /// List deployments, the newest first
    List(Flags),
    /// Show a deployment
    Status(Status),
}

#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// What the API answers
    #[arg(long)]
    json: bool,
    /// Whole ids
    #[arg(long)]
    verbose: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The deployment's id, or its beginning
    #[arg(value_name = "DEPLOYMENT")]
    deployment: String,
    #[command(flatten)]
    flags: Flags,
}

impl DeploymentCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let (path, flags) = match &self {
            Self::List(flags) => ("/v1/deployments".to_owned(), flags),
            Self::Status(status) => {
                let id = find::id(&client, Kind::Deployment, &status.deployment).await?;
                (format!("/v1/deployment/{id}"), &status.flags)
            }
        };
        let query = match &self {
            Self::List(_) => Query::new().with("reverse", true),
            Self::Status(_) => Query::new(),
        };
        let answer: Value = client.get(&path, &query).await?.value;
        if flags.json {
            session.out.json(&answer)?;
            return Ok(Exit::SUCCESS);
        }
        let length = Length::new(flags.verbose);
        let wrong = |source| Failure::Json {
            what: "a deployment",
            source,
        };
        let text = match &self {
            Self::List(_) => list(
                &serde_json::from_value::<Vec<_>>(answer).map_err(wrong)?,
                length,
            ),
            Self::Status(_) => {
                let title = session.out.colour().bold("Deployed");
                one(
                    &serde_json::from_value(answer).map_err(wrong)?,
                    length,
                    &title,
                    &session.clock(),
                )
            }
        };
        session.out.data(&text)?;
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
