//! Evaluations, in the order in which they were made.

use std::ops::RangeBounds;
use std::sync::Arc;

use protocol_model::{EvalId, EvalStatus, Evaluation, JobKey};

use super::{EvalSlot, Table, Tables};

/// Counters of one job's evaluations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EvalTally {
    /// The job's number in `evals_by_job`. A job whose evaluations all went gets another one when
    /// the next comes; numbers differ from server to server.
    pub(crate) number: u64,
    pub(crate) all: u64,
    /// Evaluations that are not over.
    pub(crate) live: u64,
    /// Evaluations of these that wait for capacity.
    pub(crate) blocked: u64,
}

impl EvalTally {
    /// Counts nothing yet.
    pub(crate) fn of_job(number: u64) -> Self {
        Self {
            number,
            all: 0,
            live: 0,
            blocked: 0,
        }
    }

    /// Counts an evaluation in.
    pub(crate) fn count(&mut self, status: EvalStatus) {
        self.all += 1;
        self.live += u64::from(!status.is_terminal());
        self.blocked += u64::from(status == EvalStatus::Blocked);
    }

    fn forget(&mut self, status: EvalStatus) {
        let (live, blocked) = (!status.is_terminal(), status == EvalStatus::Blocked);
        self.all = self.all.saturating_sub(1);
        self.live = self.live.saturating_sub(u64::from(live));
        self.blocked = self.blocked.saturating_sub(u64::from(blocked));
    }
}

impl Tables {
    /// Puts an evaluation. The create index of a known one never changes.
    pub(crate) fn put_eval(&mut self, eval: &Arc<Evaluation>) {
        self.touch(Table::Evals);
        let key = eval.job_key();
        let slot = slot_of(eval);
        // Only a checkpoint that was tampered with has one at two places.
        if let Some(before) = self.eval(eval.id)
            && slot_of(before) != slot
        {
            let mut before = vec![Arc::clone(before)];
            self.remove_evals(&mut before);
        }
        if let Some(before) = self.evals.insert(slot, eval.clone()) {
            if before.status != eval.status {
                self.touch(Table::JobSummaries);
                if let Some(tally) = self.eval_tallies.get_mut(&key) {
                    tally.forget(before.status);
                    tally.count(eval.status);
                }
            }
            return;
        }
        self.eval_slots.insert(eval.id, eval.create_index);
        let number = self.count_eval(&key, eval.status);
        self.evals_by_job.insert((number, slot));
    }

    /// Counts a new evaluation of a job; answers the job's number.
    fn count_eval(&mut self, key: &JobKey, status: EvalStatus) -> u64 {
        self.touch(Table::JobSummaries);
        // A key is two texts: it is copied only for a job that has no evaluation yet.
        if let Some(tally) = self.eval_tallies.get_mut(key) {
            tally.count(status);
            return tally.number;
        }
        self.eval_jobs_numbered += 1;
        let mut tally = EvalTally::of_job(self.eval_jobs_numbered);
        tally.count(status);
        self.eval_tallies.insert(Arc::new(key.clone()), tally);
        tally.number
    }

    /// Removes evaluations, and leaves them sorted by job: one look at a job's index and counters
    /// is enough for all of its evaluations.
    pub(crate) fn remove_evals(&mut self, gone: &mut Vec<Arc<Evaluation>>) {
        // In the given order, which is as a rule that of the table: neighbours share leaves.
        gone.retain(|eval| {
            self.eval_slots.remove(&eval.id);
            self.evals.remove(&slot_of(eval)).is_some()
        });
        if gone.is_empty() {
            return;
        }
        self.touch(Table::Evals);
        self.touch(Table::JobSummaries);
        gone.sort_by(|left, right| {
            let by_name = left.job_id.cmp(&right.job_id);
            by_name.then_with(|| left.namespace.cmp(&right.namespace))
        });
        for of_job in gone.chunk_by(|left, right| left.is_of_same_job(right)) {
            let key = of_job[0].job_key();
            let Some(tally) = self.eval_tallies.get_mut(&key) else {
                continue;
            };
            for eval in of_job {
                tally.forget(eval.status);
                self.evals_by_job.remove(&(tally.number, slot_of(eval)));
            }
            if tally.all == 0 {
                self.eval_tallies.remove(&key);
            }
        }
    }

    /// A job's evaluations, oldest first.
    pub fn evals_by_job(&self, key: &JobKey) -> impl Iterator<Item = &Arc<Evaluation>> + '_ {
        let tally = self.eval_tallies.get(key);
        tally.into_iter().flat_map(|tally| self.evals_of(tally))
    }

    /// The evaluations that one tally counts, oldest first.
    pub(crate) fn evals_of(&self, tally: &EvalTally) -> impl Iterator<Item = &Arc<Evaluation>> {
        let from = |number: u64| (number, (0, EvalId::from_u128(0)));
        let slots = from(tally.number)..from(tally.number + 1);
        let slots = self.evals_by_job.range(slots);
        slots.filter_map(|(_, slot)| self.evals.get(slot))
    }

    /// Evaluations in the order in which they were made, those within `places`.
    pub fn evals_within(
        &self,
        places: impl RangeBounds<EvalSlot>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Evaluation>> + '_ {
        self.evals.range(places).map(|(_, eval)| eval)
    }

    /// The place of an evaluation in its table.
    pub fn eval_slot(&self, id: EvalId) -> Option<EvalSlot> {
        self.eval_slots.get(&id).map(|index| (*index, id))
    }
}

/// The place of an evaluation whose indexes are filled in.
pub(crate) fn slot_of(eval: &Evaluation) -> EvalSlot {
    (eval.create_index, eval.id)
}
