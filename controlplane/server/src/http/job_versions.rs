//! `/v1/job/:id/versions` and `/submission`: what a job was, how each version differs from another,
//! and what it was made from.

use std::sync::Arc;

use controlplane_state::{Refusal, Snapshot, Table};
use protocol_api::jobs::{JobDiff, VersionSubmission, Versions};
use protocol_model::{Job, JobKey};

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::{job, job_diff};

/// What each version is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Against {
    /// Nothing: no differences are wanted.
    Nothing,
    /// The one before it (`?diffs=true`).
    Previous,
    /// This one (`?diffs=true&diff_version=N`, or `diff_tag=T`).
    Version(u64),
}

pub(super) async fn versions(ask: &Ask) -> Answered {
    let key = &job::key(ask);
    let tables = [Table::JobVersions];
    let snapshot = ask.snapshot(&tables).await?;
    let index = snapshot.table_index(&tables);
    let versions: Vec<Arc<Job>> = snapshot.job_versions(key).map(Arc::clone).collect();
    if versions.is_empty() {
        return Err(HttpError::not_found("job versions not found"));
    }
    let against = against(ask, &snapshot, key)?;
    let diffs = diffs(&versions, against)?;
    let answer = Versions {
        versions,
        diffs,
        index,
        last_contact: 0,
        known_leader: true,
    };
    ask.answer(&answer, index)
}

/// `/v1/job/:id/submission?version=N`: the newest version where none is named.
pub(super) async fn submission(ask: &Ask) -> Answered {
    let key = &job::key(ask);
    let version: Option<u64> = ask.query.number("version")?;
    ask.read(&[Table::JobVersions], |snapshot| {
        let newest = || snapshot.job_versions(key).next().map(|job| job.version);
        let job = version
            .or_else(newest)
            .and_then(|version| snapshot.job_version(key, version));
        let found = job.and_then(|job| Some((job, snapshot.job_submission(key, job.version)?)));
        let (job, submission) =
            found.ok_or_else(|| HttpError::not_found("job source not found"))?;
        Ok(VersionSubmission {
            submission: Arc::clone(submission),
            namespace: key.namespace.clone(),
            job_id: key.id.clone(),
            version: job.version,
            job_modify_index: job.job_modify_index,
        })
    })
    .await
}

fn against(ask: &Ask, snapshot: &Snapshot, key: &JobKey) -> Result<Against, HttpError> {
    if !ask.query.flag("diffs")? {
        return Ok(Against::Nothing);
    }
    if let Some(name) = ask.query.text("diff_tag") {
        let tagged = snapshot.job_version_with_tag(key, name);
        let tagged = tagged.ok_or_else(|| Refusal::UnknownTag {
            key: key.clone(),
            name: name.to_owned(),
        })?;
        return Ok(Against::Version(tagged.version));
    }
    let version = ask.query.number("diff_version")?;
    Ok(version.map_or(Against::Previous, Against::Version))
}

/// The differences, in the order of `versions`. The oldest one has nothing before it.
fn diffs(versions: &[Arc<Job>], against: Against) -> Result<Option<Vec<JobDiff>>, HttpError> {
    Ok(match against {
        Against::Nothing => None,
        Against::Previous => {
            let pairs = versions.windows(2);
            Some(
                pairs
                    .map(|pair| job_diff::job(Some(&pair[1]), &pair[0]))
                    .collect(),
            )
        }
        Against::Version(version) => {
            let old = versions.iter().find(|job| job.version == version);
            let old = old.ok_or_else(|| {
                HttpError::not_found(format!("version {version} of the job is not kept"))
            })?;
            let others = versions.iter().filter(|job| job.version != version);
            Some(others.map(|job| job_diff::job(Some(old), job)).collect())
        }
    })
}
