//! Tags of job versions. A tagged version is kept until it loses its tag.

use std::sync::Arc;

use protocol_model::{Job, JobKey, VersionTag};

use super::draft::Draft;
use crate::applied::{Outcome, Refusal};
use crate::command::{JobTag, TagChange};
use crate::record::JobVersionRecord;

impl Draft {
    pub(crate) fn job_tag(&mut self, command: JobTag) -> Result<Outcome, Refusal> {
        let JobTag { key, name, change } = command;
        let Some(newest) = self.tables.job(&key).map(|job| job.version) else {
            return Err(Refusal::UnknownJob(key));
        };
        let tagged = self.tables.job_version_with_tag(&key, &name).cloned();
        match change {
            TagChange::Apply {
                version,
                description,
            } => {
                let version = version.unwrap_or(newest);
                if self.tables.job_version(&key, version).is_none() {
                    return Err(Refusal::UnknownJobVersion { key, version });
                }
                if tagged.is_some_and(|job| job.version != version) {
                    return Err(Refusal::TagTaken { key, name });
                }
                let tag = VersionTag {
                    name,
                    description,
                    tagged_time: self.now,
                };
                self.put_tag(&key, version, Some(tag.clone()));
                Ok(Outcome::JobTagged(tag))
            }
            TagChange::Unset => {
                let Some(job) = tagged else {
                    return Err(Refusal::UnknownTag { key, name });
                };
                self.put_tag(&key, job.version, None);
                self.trim_versions(&key);
                Ok(Outcome::JobTagged(
                    job.version_tag.clone().unwrap_or_default(),
                ))
            }
        }
    }

    fn put_tag(&mut self, key: &JobKey, version: u64, tag: Option<VersionTag>) {
        let versions = self.tables.job_versions.get(key);
        let Some(record) = versions.and_then(|it| it.get(&version)).cloned() else {
            return;
        };
        let mut job = Job::clone(&record.job);
        job.version_tag.clone_from(&tag);
        let record = JobVersionRecord {
            job: Arc::new(job),
            ..record
        };
        self.tables.put_job_version(key, record);
        let is_newest = |job: &Arc<Job>| job.version == version;
        if self.tables.job(key).is_some_and(is_newest) {
            self.put_job_facts(key, |job, _| job.version_tag = tag);
        }
    }
}

impl crate::tables::Tables {
    /// The version of a job that has this tag.
    pub fn job_version_with_tag(&self, key: &JobKey, tag: &str) -> Option<&Arc<Job>> {
        self.job_versions(key).find(|job| {
            let found = job.version_tag.as_ref();
            found.is_some_and(|found| found.name == tag)
        })
    }
}
