//! Deleting evaluations that an operator names, by ids or page by page with a filter.
//!
//! ```text
//!   after -->| row row row row row |--> next        `rows` rows of the table, oldest first
//!               |   |   |
//!               |   |   +-- made or changed after `up_to`, or its allocations need it: kept
//!               |   +------ the filter does not hold: not counted
//!               +---------- deleted; an open one leaves the broker by a signal
//! ```

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use protocol_model::filter::{EvalFilter, FilterError};
use protocol_model::{Allocation, ClientStatus, EvalId, Evaluation, Job, JobKey, JobStatus};

use super::draft::Draft;
use crate::applied::{EvalsDeleted, Outcome, Refusal, Signal};
use crate::command::{EVALS_PAGE_ROWS_MAX, EvalsDelete, EvalsPage};
use crate::tables::{EvalSlot, Tables, slot_of};

/// The contents of a page of evaluations.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EvalsFound {
    /// The evaluations that match and may go, oldest first.
    pub going: Vec<Arc<Evaluation>>,
    /// How many match and stay.
    pub kept: u64,
    /// The place behind which the next page begins; `None` where this one is the last.
    pub next: Option<EvalSlot>,
}

impl Draft {
    pub(crate) fn evals_delete(&mut self, command: EvalsDelete) -> Result<Outcome, Refusal> {
        let found = match command {
            EvalsDelete::Ids(ids) => self.tables.find_named(&ids)?,
            EvalsDelete::Page(page) => {
                if (1..self.tables.cluster.index).contains(&page.up_to) {
                    return Err(Refusal::AnotherIncarnation);
                }
                let found = self.tables.evals_page(&page);
                found.map_err(|error| Refusal::Malformed(error.to_string().into()))?
            }
        };
        let EvalsFound { going, kept, next } = found;
        let deleted = going.len() as u64;
        let open = going.iter().filter(|eval| !eval.status.is_terminal());
        let open = open.count() as u64;
        self.remove_evals(going);
        Ok(Outcome::EvalsDeleted(EvalsDeleted {
            deleted,
            open,
            kept,
            next,
        }))
    }

    /// Removes evaluations; who schedules the open ones learns it by a signal each.
    pub(super) fn remove_evals(&mut self, mut gone: Vec<Arc<Evaluation>>) {
        for eval in gone.iter().filter(|eval| !eval.status.is_terminal()) {
            self.signal(Signal::EvalRemoved(eval.id));
        }
        self.tables.remove_evals(&mut gone);
        for of_job in gone.chunk_by(|left, right| left.is_of_same_job(right)) {
            self.touch_job(&of_job[0].job_key());
        }
    }
}

impl Tables {
    /// The evaluations of a page that match and may go.
    ///
    /// # Errors
    /// Where the filter is none.
    pub fn evals_page(&self, page: &EvalsPage) -> Result<EvalsFound, FilterError> {
        let filter = EvalFilter::parse(&page.filter)?;
        let rows = page.rows.clamp(1, EVALS_PAGE_ROWS_MAX) as usize;
        let mut found = EvalsFound::default();
        let mut jobs = JobLookup::default();
        let mut last = None;
        let existed = |eval: &&Arc<Evaluation>| eval.create_index <= page.up_to;
        let behind = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.evals_within((behind, Bound::Unbounded));
        let mut rest = rest.take_while(existed);
        for eval in rest.by_ref().take(rows) {
            last = Some(slot_of(eval));
            let namespace = page.namespace.as_ref();
            let of_namespace = namespace.is_none_or(|it| *it == eval.namespace);
            if !of_namespace || !filter.keeps(eval) {
                continue;
            }
            let job = jobs.find(self, eval);
            if eval.modify_index <= page.up_to && self.may_go(eval, job) {
                found.going.push(Arc::clone(eval));
            } else {
                found.kept += 1;
            }
        }
        found.next = rest.next().and(last);
        Ok(found)
    }

    /// Evaluations by their ids, each once: all of them, or an error.
    fn find_named(&self, ids: &[EvalId]) -> Result<EvalsFound, Refusal> {
        let mut found = EvalsFound::default();
        for id in ids.iter().collect::<BTreeSet<_>>() {
            let eval = self.eval(*id).ok_or(Refusal::UnknownEval(*id))?;
            if !self.eval_may_go(eval) {
                return Err(Refusal::EvalInUse(*id));
            }
            found.going.push(Arc::clone(eval));
        }
        found.going.sort_by_key(|eval| slot_of(eval));
        Ok(found)
    }

    /// Whether an operator may delete an evaluation, open or over: nothing later decisions need
    /// hangs on it. Of a job that is gone, stopped or dead any may go; otherwise none of its
    /// allocations may run, be unknown, or have failed with a reschedule to come. (Nomad's rule.)
    pub fn eval_may_go(&self, eval: &Evaluation) -> bool {
        let job = self.job(&eval.job_key());
        self.may_go(eval, job.map(AsRef::as_ref))
    }

    fn may_go(&self, eval: &Evaluation, job: Option<&Job>) -> bool {
        let Some(job) = job.filter(|job| !job.stop && job.status != JobStatus::Dead) else {
            return true;
        };
        self.allocs_by_eval(eval.id)
            .all(|alloc| match alloc.client_status {
                ClientStatus::Running | ClientStatus::Unknown => false,
                ClientStatus::Failed => !is_rescheduled_later(job, alloc),
                ClientStatus::Pending | ClientStatus::Complete | ClientStatus::Lost => true,
            })
    }
}

/// Whether a failed allocation waits for a successor that counts its attempts.
fn is_rescheduled_later(job: &Job, alloc: &Allocation) -> bool {
    if alloc.server_terminal() || alloc.next_allocation.is_some() {
        return false;
    }
    let group = job.task_group(&alloc.task_group);
    group.is_some_and(|group| !group.is_never_rescheduled())
}

/// The job of the evaluation that is looked at: neighbours often have the same.
#[derive(Default)]
struct JobLookup<'t> {
    last: Option<(JobKey, Option<&'t Job>)>,
}

impl<'t> JobLookup<'t> {
    fn find(&mut self, tables: &'t Tables, eval: &Evaluation) -> Option<&'t Job> {
        if let Some((key, job)) = &self.last
            && key.id == eval.job_id
            && key.namespace == eval.namespace
        {
            return *job;
        }
        let key = eval.job_key();
        let job = tables.job(&key).map(AsRef::as_ref);
        self.last = Some((key, job));
        job
    }
}
