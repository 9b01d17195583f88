//! Jobs and their versions.

use std::sync::Arc;

use protocol_model::{JobKey, UnixNanos};

use super::{Table, Tables};
use crate::record::{JobRecord, JobVersionRecord};

impl Tables {
    pub(crate) fn put_job(&mut self, key: JobKey, record: JobRecord) {
        self.touch(Table::Jobs);
        if record.job.runs_on_every_node() {
            self.per_node_jobs.insert(key.clone());
        } else {
            self.per_node_jobs.remove(&key);
        }
        let record = Arc::new(record);
        let before = self.jobs.insert(key, record.clone());
        self.child_changed(before.as_ref().map(|it| &*it.job), Some(&record.job));
    }

    /// Moves the launch record of a periodic job. Not a change of the job: no index of it rises.
    pub(crate) fn put_last_launch(&mut self, key: &JobKey, at: UnixNanos) {
        if let Some(record) = self.jobs.get_mut(key) {
            Arc::make_mut(record).last_launch = Some(at);
        }
    }

    pub(crate) fn remove_job(&mut self, key: &JobKey) {
        self.touch(Table::Jobs);
        self.touch(Table::JobSummaries);
        self.per_node_jobs.remove(key);
        if let Some(removed) = self.jobs.remove(key) {
            self.child_changed(Some(&removed.job), None);
        }
        if let Some(versions) = self.job_versions.remove(key) {
            self.touch(Table::JobVersions);
            versions
                .iter()
                .for_each(|(_, version)| self.release_spec(version.spec));
        }
    }

    pub(crate) fn put_job_version(&mut self, key: &JobKey, record: JobVersionRecord) {
        self.touch(Table::JobVersions);
        self.acquire_spec(record.spec);
        let versions = self.job_versions.entry(key.clone()).or_default();
        let replaced = versions.insert(record.job.version, record);
        if let Some(replaced) = replaced {
            self.release_spec(replaced.spec);
        }
    }

    pub(crate) fn remove_job_version(&mut self, key: &JobKey, version: u64) {
        let Some(versions) = self.job_versions.get_mut(key) else {
            return;
        };
        let Some(removed) = versions.remove(&version) else {
            return;
        };
        if versions.is_empty() {
            self.job_versions.remove(key);
        }
        self.touch(Table::JobVersions);
        self.release_spec(removed.spec);
    }
}
