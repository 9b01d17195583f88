//! `drover job history`: the versions of a job, and with `-p` what each changed.

use std::sync::Arc;

use clap::Args;
use protocol_api::jobs::{JobVersions, Versions};
use protocol_model::Job;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::find;
use crate::render::columns::pairs;
use crate::render::diff::DiffView;
use crate::session::{Clock, Session};

#[derive(Args, Debug)]
pub(crate) struct History {
    /// The job's id, or its beginning
    #[arg(value_name = "JOB")]
    job: String,
    /// What each version changed, too
    #[arg(short = 'p')]
    changes: bool,
    /// With -p: compared with this version, not with the one before
    #[arg(long, value_name = "VERSION", requires = "changes")]
    diff_version: Option<u64>,
    /// With -p: compared with the version that has this tag, not with the one before
    #[arg(
        long,
        value_name = "TAG",
        requires = "changes",
        conflicts_with = "diff_version"
    )]
    diff_tag: Option<String>,
    /// Each version as JSON
    #[arg(long, conflicts_with = "changes")]
    full: bool,
    /// Answer of the API
    #[arg(long)]
    json: bool,
    /// Only this version
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
}

impl History {
    pub(crate) async fn run(self, session: &Session) -> Result<Exit, Failure> {
        let client = session.client()?;
        let name = find::job(&client, &self.job).await?;
        let query = name
            .query()
            .with("diffs", self.changes)
            .with_some("diff_version", self.diff_version)
            .with_some("diff_tag", self.diff_tag.as_deref());
        let read = JobVersions { id: &name.id };
        if self.json {
            let answer = client.call_json(&read, &query).await?.value;
            session.out.json(&self.wanted(answer)?)?;
            return Ok(Exit::SUCCESS);
        }
        let Versions {
            versions, diffs, ..
        } = client.call(&read, &query).await?.value;
        let diffs = diffs.unwrap_or_default();
        let view = DiffView {
            colour: session.out.colour(),
            verbose: false,
        };
        // The server leaves out the version that has nothing to be compared with.
        let base = match &self.diff_tag {
            Some(tag) => versions.iter().find(|job| has_tag(job, tag)),
            None => None,
        };
        let base = base.map(|job| job.version).or(self.diff_version);
        let compared = |job: &&Arc<Job>| match base {
            Some(version) => job.version != version,
            None => versions
                .last()
                .is_none_or(|last| job.version != last.version),
        };
        let mut diffs = diffs.iter();
        let mut shown = Vec::new();
        for job in &versions {
            let diff = Some(job).filter(compared).and_then(|_| diffs.next());
            if self.version.is_some_and(|version| job.version != version) {
                continue;
            }
            let mut text = head(job, &session.clock());
            if let Some(diff) = diff {
                text.push_str(&format!("Diff         =\n{}", view.job(diff)));
            }
            if self.full {
                let whole = serde_json::to_string_pretty(&json!({ "Job": job }));
                text = whole.map_err(|source| Failure::Json {
                    what: "a version",
                    source,
                })?;
            }
            shown.push(text);
        }
        if shown.is_empty() {
            return Err(self.no_such_version(&name.id));
        }
        session.out.data(&shown.join("\n"))?;
        Ok(Exit::SUCCESS)
    }

    /// The versions of an answer, or the one that is wanted.
    fn wanted(&self, mut answer: Value) -> Result<Value, Failure> {
        let versions = answer["Versions"].take();
        let Some(version) = self.version else {
            return Ok(versions);
        };
        let found = versions.as_array().into_iter().flatten();
        found
            .into_iter()
            .find(|job| job["Version"] == version)
            .cloned()
            .ok_or_else(|| self.no_such_version(&self.job))
    }

    fn no_such_version(&self, job: &str) -> Failure {
        let version = self.version.unwrap_or_default();
        Failure::usage(format!("job {job:?} has no version {version}"))
    }
}

fn has_tag(job: &Job, name: &str) -> bool {
    job.version_tag.as_ref().is_some_and(|tag| tag.name == name)
}

fn head(job: &Job, clock: &Clock) -> String {
    let mut lines = vec![
        ("Version", job.version.to_string()),
        ("Stable", job.stable.to_string()),
        ("Submit Date", clock.date(job.submit_time)),
        ("Modify Index", job.job_modify_index.to_string()),
    ];
    if let Some(tag) = &job.version_tag {
        lines.push(("Tag Name", tag.name.clone()));
        if !tag.description.is_empty() {
            lines.push(("Tag Description", tag.description.clone()));
        }
    }
    pairs(&lines)
}
