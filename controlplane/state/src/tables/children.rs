//! The children of templates: how many there are, and which idempotency tokens they hold.

use std::sync::Arc;

use imbl::OrdMap;
use protocol_model::{Job, JobKey, JobStatus};

use super::Tables;

/// The jobs that were launched from one template, derived from the table of jobs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Children {
    /// Children that wait for their first allocation.
    pub pending: u64,
    /// Children that run.
    pub running: u64,
    /// Children that ended and were not collected yet.
    pub dead: u64,
    /// Idempotency tokens of dispatches, each with the id of its child.
    tokens: OrdMap<Arc<str>, Arc<str>>,
}

impl Children {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.pending + self.running + self.dead
    }

    fn counter(&mut self, status: JobStatus) -> &mut u64 {
        match status {
            JobStatus::Pending => &mut self.pending,
            JobStatus::Running => &mut self.running,
            JobStatus::Dead => &mut self.dead,
        }
    }

    pub(crate) fn count(&mut self, child: &Job) {
        *self.counter(child.status) += 1;
        if let Some(token) = token(child) {
            self.tokens.insert(token.into(), child.id.as_str().into());
        }
    }

    fn forget(&mut self, child: &Job) {
        let counter = self.counter(child.status);
        *counter = counter.saturating_sub(1);
        if let Some(token) = token(child) {
            self.tokens.remove(token);
        }
    }
}

fn token(child: &Job) -> Option<&str> {
    let token = child.dispatch_idempotency_token.as_str();
    (child.dispatched && !token.is_empty()).then_some(token)
}

/// The template of a child; `None` for any other job.
pub(crate) fn parent_of(job: &Job) -> Option<JobKey> {
    let parent = job.parent_id.as_str();
    (!parent.is_empty()).then(|| JobKey::new(job.key().namespace, parent))
}

impl Tables {
    /// The children of a template; `None` where it has none.
    pub fn children(&self, template: &JobKey) -> Option<&Children> {
        self.children.get(template)
    }

    /// The child that was dispatched with this idempotency token, until it is collected or purged.
    pub fn dispatched_with(&self, template: &JobKey, token: &str) -> Option<&Arc<Job>> {
        let id = self.children.get(template)?.tokens.get(token)?;
        self.job(&JobKey::new(template.namespace.clone(), id.to_string()))
    }

    /// Counts a job that took the place of `before`.
    pub(super) fn child_changed(&mut self, before: Option<&Job>, after: Option<&Job>) {
        if let (Some(before), Some(after)) = (before, after)
            && before.status == after.status
            && before.parent_id == after.parent_id
            && token(before) == token(after)
        {
            return;
        }
        if let Some(before) = before
            && let Some(parent) = parent_of(before)
            && let Some(children) = self.children.get_mut(&parent)
        {
            children.forget(before);
            if children.total() == 0 {
                self.children.remove(&parent);
            }
        }
        if let Some(after) = after
            && let Some(parent) = parent_of(after)
        {
            self.children.entry(parent).or_default().count(after);
        }
    }
}
