//! Jobs: registered, changed, stopped, forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{Allocation, Evaluation, Job, JobKey, JobStatus, JobSubmission};

use super::draft::{AllocTouch, Draft};
use crate::applied::{KindChange, LaunchField, Outcome, Refusal, Signal};
use crate::command::{JobDeregister, JobRegister, Purge};
use crate::record::{JOB_VERSIONS_MAX, JobRecord, JobVersionRecord};
use crate::tables::Tables;

impl Tables {
    /// Whether this state takes the job: its namespace and node pool exist, the namespace allows
    /// its drivers, network modes and node pool, the registered job has
    /// the expected modify index and is of the same kind, and no field differs that only a launch
    /// sets. Validations and plans ask the same.
    ///
    /// # Errors
    /// What a registration would be refused with.
    pub fn check_job(&self, job: &Job, enforce_index: Option<u64>) -> Result<(), Refusal> {
        let key = job.key();
        if job.id.is_empty() {
            return Err(Refusal::malformed("a job needs an id"));
        }
        self.check_namespace_of_job(job)?;
        self.check_pool_of_job(job)?;
        let existing = self.job(&key);
        if let Some(wanted) = enforce_index {
            let found = existing.map_or(0, |job| job.job_modify_index);
            if wanted != found {
                return Err(Refusal::JobModified { wanted, found });
            }
        }
        let Some(existing) = existing else {
            return match LaunchField::set_in(job) {
                Some(field) => Err(Refusal::LaunchFieldSet(field)),
                None => Ok(()),
            };
        };
        if let Some(field) = LaunchField::changed(existing, job) {
            return Err(Refusal::LaunchFieldChanged(field));
        }
        match KindChange::between(existing, job) {
            Some(change) => Err(Refusal::JobKind(change)),
            None => Ok(()),
        }
    }
}

impl Draft {
    pub(crate) fn job_register(&mut self, command: JobRegister) -> Result<Outcome, Refusal> {
        self.check_register(&command)?;
        let JobRegister {
            job,
            spec,
            eval,
            enforce_index: _,
            submission,
        } = command;
        let key = job.key();
        let unchanged = self
            .tables
            .jobs
            .get(&key)
            .is_some_and(|existing| existing.spec == spec && existing.job.stop == job.stop);
        if !unchanged {
            self.put_new_version(&key, Job::clone(&job), spec, submission);
            self.begin_multiregion(&key, eval.as_ref());
        } else if submission.is_some() {
            // Another text that says the same.
            self.put_submission(&key, submission);
        }
        let (version, job_modify_index) = self
            .tables
            .job(&key)
            .map_or((0, 0), |job| (job.version, job.job_modify_index));
        let eval = self.put_job_eval(eval, job_modify_index);
        Ok(Outcome::JobRegistered {
            version,
            job_modify_index,
            eval,
        })
    }

    pub(super) fn check_register(&self, command: &JobRegister) -> Result<(), Refusal> {
        let JobRegister {
            job,
            eval,
            enforce_index,
            ..
        } = command;
        self.tables.check_job(job, *enforce_index)?;
        self.check_eval_of(&job.key(), eval.as_ref())
    }

    /// Makes `job` the newest version.
    pub(super) fn put_new_version(
        &mut self,
        key: &JobKey,
        mut job: Job,
        spec: protocol_model::SpecHash,
        submission: Option<Arc<JobSubmission>>,
    ) {
        let existing = self.tables.jobs.get(key).cloned();
        job.namespace.clone_from(&key.namespace);
        job.version = existing
            .as_ref()
            .map_or(0, |existing| existing.job.version + 1);
        job.create_index = existing
            .as_ref()
            .map_or(self.index, |existing| existing.job.create_index);
        job.modify_index = self.index;
        job.job_modify_index = self.index;
        job.stable = false;
        job.version_tag = None;
        job.status = JobStatus::Pending;
        job.submit_time = self.now;
        let queued = existing.as_ref().map_or_else(BTreeMap::new, |existing| {
            let groups = existing
                .queued
                .iter()
                .filter(|(name, _)| job.task_group(name).is_some());
            groups
                .map(|(name, queued)| (name.clone(), *queued))
                .collect()
        });
        let scaling = existing.as_ref();
        let scaling = scaling.map_or_else(BTreeMap::new, |existing| existing.scaling.clone());
        let mut last_launch = existing.and_then(|existing| existing.last_launch);
        if job.launches_by_time() {
            // Times of an older schedule, or of while it was disabled, are not made up for.
            last_launch = last_launch.max(Some(self.now));
        }
        let job = Arc::new(job);
        self.tables.put_spec(spec, &job);
        self.tables.put_job_version(
            key,
            JobVersionRecord {
                job: job.clone(),
                spec,
                submission,
            },
        );
        let record = JobRecord {
            job,
            spec,
            queued,
            scaling,
            last_launch,
        };
        self.tables.put_job(key.clone(), record);
        self.trim_versions(key);
        self.touch_job(key);
        self.signal(Signal::JobChanged(key.clone()));
    }

    /// What the newest version was made from.
    fn put_submission(&mut self, key: &JobKey, submission: Option<Arc<JobSubmission>>) {
        let newest = self
            .tables
            .job_versions
            .get(key)
            .and_then(|it| it.values().next_back());
        if let Some(record) = newest.cloned() {
            let record = JobVersionRecord {
                submission,
                ..record
            };
            self.tables.put_job_version(key, record);
        }
    }

    /// Forgets the oldest versions beyond the limit. Tagged versions stay, and the newest stable
    /// one: it is what an automatic revert goes back to.
    pub(super) fn trim_versions(&mut self, key: &JobKey) {
        loop {
            let Some(versions) = self.tables.job_versions.get(key) else {
                return;
            };
            let untagged = |record: &&JobVersionRecord| record.job.version_tag.is_none();
            if versions.values().filter(untagged).count() <= JOB_VERSIONS_MAX {
                return;
            }
            let newest = versions
                .values()
                .next_back()
                .map(|record| record.job.version);
            let stable = versions.values().rev().find(|record| record.job.stable);
            let stable = stable.map(|record| record.job.version);
            let oldest = versions.values().filter(untagged).find(|record| {
                let version = Some(record.job.version);
                version != newest && version != stable
            });
            let Some(oldest) = oldest.map(|record| (record.job.version, record.spec)) else {
                return;
            };
            self.tables.remove_job_version(key, oldest.0);
            self.spec_released(oldest.1);
        }
    }

    pub(super) fn put_job_eval(
        &mut self,
        eval: Option<Evaluation>,
        job_modify_index: u64,
    ) -> Option<protocol_model::EvalId> {
        let mut eval = eval?;
        let id = eval.id;
        eval.job_modify_index = job_modify_index;
        self.put_eval(eval);
        Some(id)
    }

    pub(crate) fn job_deregister(&mut self, command: JobDeregister) -> Result<Outcome, Refusal> {
        let JobDeregister {
            key,
            purge,
            eval,
            no_shutdown_delay,
        } = command;
        let Some(record) = self.tables.jobs.get(&key).cloned() else {
            return Err(Refusal::UnknownJob(key));
        };
        self.check_eval_of(&key, eval.as_ref())?;
        if no_shutdown_delay {
            self.skip_shutdown_delay(&key);
        }
        match purge {
            Purge::Keep if record.job.stop => {}
            Purge::Keep => {
                let mut job = Job::clone(&record.job);
                job.stop = true;
                let submission = self.tables.job_submission(&key, job.version).cloned();
                self.put_new_version(&key, job, record.spec, submission);
            }
            Purge::Forget => self.forget_job(&key),
        }
        let job_modify_index = self
            .tables
            .job(&key)
            .map_or(self.index, |job| job.job_modify_index);
        let eval = self.put_job_eval(eval, job_modify_index);
        Ok(Outcome::JobDeregistered {
            job_modify_index,
            eval,
        })
    }

    /// Removes a job and its versions. Its allocations and evaluations go their own way.
    pub(super) fn forget_job(&mut self, key: &JobKey) {
        let specs: Vec<_> = self
            .tables
            .job_versions
            .get(key)
            .into_iter()
            .flat_map(|versions| versions.values().map(|record| record.spec))
            .collect();
        self.tables.remove_job(key);
        specs.into_iter().for_each(|spec| self.spec_released(spec));
        self.signal(Signal::JobRemoved(key.clone()));
    }

    fn skip_shutdown_delay(&mut self, key: &JobKey) {
        let live: Vec<Allocation> = self
            .tables
            .allocs_by_job(key)
            .filter(|alloc| !alloc.terminal())
            .map(|alloc| Allocation::clone(alloc))
            .collect();
        for mut alloc in live {
            alloc.desired_transition.no_shutdown_delay = Some(true);
            self.put_alloc(alloc, AllocTouch::Desired);
        }
    }

    pub(crate) fn job_stability(
        &mut self,
        key: &JobKey,
        version: u64,
        stable: bool,
    ) -> Result<Outcome, Refusal> {
        if self.tables.job(key).is_none() {
            return Err(Refusal::UnknownJob(key.clone()));
        }
        if self.tables.job_version(key, version).is_none() {
            return Err(Refusal::UnknownJobVersion {
                key: key.clone(),
                version,
            });
        }
        self.mark_stable(key, version, stable);
        Ok(Outcome::Done)
    }

    pub(super) fn mark_stable(&mut self, key: &JobKey, version: u64, stable: bool) {
        let Some(record) = self
            .tables
            .job_versions
            .get(key)
            .and_then(|versions| versions.get(&version))
            .cloned()
        else {
            return;
        };
        if record.job.stable == stable {
            return;
        }
        let mut job = Job::clone(&record.job);
        job.stable = stable;
        let record = JobVersionRecord {
            job: Arc::new(job),
            ..record
        };
        self.tables.put_job_version(key, record);
        if self
            .tables
            .job(key)
            .is_some_and(|job| job.version == version)
        {
            // No change of what is wanted: what waits for room on its behalf goes on waiting.
            self.put_job_facts(key, |job, _| job.stable = stable);
        }
    }
}
