//! Jobs, their versions, their counters, and their evaluations.

use std::sync::Arc;

use protocol_model::{EvalId, Evaluation, JobKey};

use super::{Table, Tables, index_insert, index_remove};
use crate::record::{JobRecord, JobTally, JobVersionRecord};

impl Tables {
    pub(crate) fn put_job(&mut self, key: JobKey, record: JobRecord) {
        self.touch(Table::Jobs);
        if record.job.job_type.is_per_node() {
            self.per_node_jobs.insert(key.clone());
        } else {
            self.per_node_jobs.remove(&key);
        }
        self.jobs.insert(key, Arc::new(record));
    }

    pub(crate) fn remove_job(&mut self, key: &JobKey) {
        self.touch(Table::Jobs);
        self.touch(Table::JobSummaries);
        self.per_node_jobs.remove(key);
        self.jobs.remove(key);
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

    pub(crate) fn tally(&mut self, key: &JobKey, change: impl FnOnce(&mut JobTally)) {
        self.touch(Table::JobSummaries);
        let tally = self.tallies.entry(key.clone()).or_default();
        let tally = Arc::make_mut(tally);
        change(tally);
        if tally.is_empty() {
            self.tallies.remove(key);
        }
    }

    pub(crate) fn put_eval(&mut self, eval: &Arc<Evaluation>) {
        self.touch(Table::Evals);
        let key = eval.job_key();
        if let Some(before) = self.evals.insert(eval.id, eval.clone()) {
            let was = !before.status.is_terminal();
            let is = !eval.status.is_terminal();
            if was != is {
                self.tally(&key, |tally| match is {
                    true => tally.evals_live += 1,
                    false => tally.evals_live = tally.evals_live.saturating_sub(1),
                });
            }
            return;
        }
        index_insert(&mut self.evals_by_job, key.clone(), eval.id);
        self.tally(&key, |tally| {
            tally.evals += 1;
            tally.evals_live += u64::from(!eval.status.is_terminal());
        });
    }

    pub(crate) fn remove_eval(&mut self, id: EvalId) {
        let Some(eval) = self.evals.remove(&id) else {
            return;
        };
        self.touch(Table::Evals);
        let key = eval.job_key();
        index_remove(&mut self.evals_by_job, &key, &id);
        self.tally(&key, |tally| {
            tally.evals = tally.evals.saturating_sub(1);
            tally.evals_live = tally
                .evals_live
                .saturating_sub(u64::from(!eval.status.is_terminal()));
        });
    }
}
