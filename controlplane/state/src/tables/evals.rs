//! Evaluations, in the order in which they were made.

use std::ops::RangeBounds;
use std::sync::Arc;

use imbl::OrdSet;
use protocol_model::{EvalId, Evaluation};

use super::{EvalSlot, Table, Tables};

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
                self.tally(&key, |tally| {
                    tally.forget_eval(before.status);
                    tally.count_eval(eval.status);
                });
            }
            return;
        }
        self.eval_slots.insert(eval.id, eval.create_index);
        if let Some(slots) = self.evals_by_job.get_mut(&key) {
            slots.insert(slot);
        } else {
            let key = Arc::new(key.clone());
            self.evals_by_job.insert(key, OrdSet::unit(slot));
        }
        self.tally(&key, |tally| tally.count_eval(eval.status));
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
        gone.sort_by(|left, right| {
            let by_name = left.job_id.cmp(&right.job_id);
            by_name.then_with(|| left.namespace.cmp(&right.namespace))
        });
        for of_job in gone.chunk_by(|left, right| left.is_of_same_job(right)) {
            let key = of_job[0].job_key();
            if let Some(slots) = self.evals_by_job.get_mut(&key) {
                for eval in of_job {
                    slots.remove(&slot_of(eval));
                }
                if slots.is_empty() {
                    self.evals_by_job.remove(&key);
                }
            }
            self.tally(&key, |tally| {
                of_job
                    .iter()
                    .for_each(|eval| tally.forget_eval(eval.status));
            });
        }
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
