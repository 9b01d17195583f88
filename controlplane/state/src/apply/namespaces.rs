//! Namespaces: made, changed, deleted, and asked whether they take a job.

use std::sync::Arc;

use protocol_model::{DEFAULT_NAMESPACE, Job, JobKey, JobStatus};

use super::draft::Draft;
use crate::applied::{NamespaceHolds, Outcome, Refusal};
use crate::command::{DeletionRule, DeploymentChange, JobRegister};
use crate::namespace::Namespace;
use crate::tables::{Table, Tables};

/// The beginning of the words of a deployment that goes back to an earlier version.
const ROLLING_BACK: &str = " - rolling back";

impl Tables {
    /// Whether the job's namespace exists and takes it.
    pub(super) fn check_namespace_of_job(&self, job: &Job) -> Result<(), Refusal> {
        let key = job.key();
        let Some(namespace) = self.namespace(&key.namespace) else {
            return Err(Refusal::UnknownNamespace(key.namespace));
        };
        namespace.check(job).map_err(Refusal::JobDenied)
    }

    /// The objects that keep a namespace from being deleted. Each number is 0 where none does.
    pub fn held_in_namespace(&self, name: &str) -> NamespaceHolds {
        let live = |job: &Job| job.status != JobStatus::Dead;
        let jobs = self.jobs_with_prefix(name, "");
        let jobs = jobs.filter(|(_, job)| live(job)).count();
        // A purged job has no row, and its allocations are still there.
        let tallies = self.alloc_tallies.range(JobKey::new(name, "")..);
        let tallies = tallies.take_while(|(key, _)| key.namespace == name);
        NamespaceHolds {
            namespace: name.to_owned(),
            jobs: u64::try_from(jobs).unwrap_or(u64::MAX),
            allocs: tallies.map(|(_, tally)| tally.live).sum(),
            variables: self.variable_tally(name).count,
        }
    }
}

impl Draft {
    pub(crate) fn namespace_upsert(
        &mut self,
        mut namespace: Namespace,
    ) -> Result<Outcome, Refusal> {
        if namespace.name.is_empty() {
            return Err(Refusal::malformed("a namespace needs a name"));
        }
        let before = self.tables.namespace(&namespace.name);
        namespace.create_index = before.map_or(self.index, |before| before.create_index);
        namespace.modify_index = self.index;
        self.put_namespace(namespace);
        Ok(Outcome::Done)
    }

    pub(super) fn put_namespace(&mut self, namespace: Namespace) {
        self.tables
            .namespaces
            .insert(namespace.name.clone(), Arc::new(namespace));
        self.tables.touch(Table::Namespaces);
    }

    pub(crate) fn namespace_delete(
        &mut self,
        name: &str,
        rule: DeletionRule,
    ) -> Result<Outcome, Refusal> {
        match rule {
            DeletionRule::NoJobs => self.check_namespace_without_jobs(name)?,
            DeletionRule::NothingLive if name == DEFAULT_NAMESPACE => {
                return Err(Refusal::NamespaceNotDeletable(name.to_owned()));
            }
            DeletionRule::NothingLive if self.tables.namespace(name).is_none() => {
                return Ok(Outcome::NoOp);
            }
            DeletionRule::NothingLive => {
                let holds = self.tables.held_in_namespace(name);
                if !holds.is_empty() {
                    return Err(Refusal::NamespaceHolds(holds));
                }
            }
        }
        self.tables.namespaces.remove(name);
        self.tables.touch(Table::Namespaces);
        Ok(Outcome::Done)
    }

    /// The rule of command level 1.
    fn check_namespace_without_jobs(&self, name: &str) -> Result<(), Refusal> {
        if name == DEFAULT_NAMESPACE {
            return Err(Refusal::NamespaceInUse(name.to_owned()));
        }
        if self.tables.namespace(name).is_none() {
            return Err(Refusal::UnknownNamespace(name.to_owned()));
        }
        match self.tables.jobs_with_prefix(name, "").next() {
            Some(_) => Err(Refusal::NamespaceInUse(name.to_owned())),
            None => Ok(()),
        }
    }

    /// The end of a deployment whose job's namespace does not take the version to go back to: the
    /// deployment ends all the same, the job stays as it is, and the description has the reason.
    /// (A refusal would keep the deployment running for as long as the namespace is so.)
    pub(super) fn without_denied_revert(
        &self,
        change: DeploymentChange,
        revert: Option<JobRegister>,
    ) -> (DeploymentChange, Option<JobRegister>) {
        let denied = revert.as_ref().and_then(|revert| {
            let checked = self.tables.check_namespace_of_job(&revert.job);
            checked.err()
        });
        let Some(denied @ Refusal::JobDenied(_)) = denied else {
            return (change, revert);
        };
        let said = change.description.as_str();
        let cause = said
            .split_once(ROLLING_BACK)
            .map_or(said, |(cause, _)| cause);
        let why = denied.to_string().replace('\n', "; ");
        let description = format!("{cause} - not rolled back: {why}");
        let change = DeploymentChange {
            description,
            ..change
        };
        (change, None)
    }
}
