//! `drover job tag`.

use clap::{Args, Subcommand};
use protocol_api::jobs::{JobVersions, TagRequest, TagVersion, UntagVersion};

use crate::failure::{Exit, Failure};
use crate::find;
use crate::session::Session;

#[derive(Subcommand, Debug)]
pub(crate) enum TagCommand {
    /// Give a version of a job a tag; a tagged version is kept
    Apply(Apply),
    /// Take a tag from its version
    Unset(Unset),
}

#[derive(Args, Debug)]
pub(crate) struct Apply {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// The tag
    #[arg(long)]
    name: String,
    /// The version; the newest where not given
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// The purpose of the tag
    #[arg(long, default_value = "")]
    description: String,
}

#[derive(Args, Debug)]
pub(crate) struct Unset {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// The tag
    #[arg(long)]
    name: String,
}

impl TagCommand {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        match self {
            Self::Apply(command) => command.run(session).await,
            Self::Unset(command) => command.run(session).await,
        }
    }
}

impl Apply {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let job = find::job(&client, &self.job).await?;
        let version = match self.version {
            Some(version) => Some(version),
            None => {
                let read = JobVersions { id: &job.id };
                let versions = client.call(&read, &job.query()).await?.value.versions;
                versions.first().map(|newest| newest.version)
            }
        };
        let (id, tag) = (job.id.as_str(), self.name.as_str());
        let request = TagRequest {
            version,
            description: self.description.clone(),
        };
        client
            .call_with(&TagVersion { id, tag }, &job.query(), &request)
            .await?;
        let version = version.map_or_else(String::new, |version| version.to_string());
        session
            .out
            .data(&format!("Job version {version} tagged with name {tag:?}"))?;
        Ok(Exit::SUCCESS)
    }
}

impl Unset {
    async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let job = find::job(&client, &self.job).await?;
        let (id, tag) = (job.id.as_str(), self.name.as_str());
        client.call(&UntagVersion { id, tag }, &job.query()).await?;
        session
            .out
            .data(&format!("Tag {tag:?} removed from job {id:?}"))?;
        Ok(Exit::SUCCESS)
    }
}
