//! Evaluations that callers bring along.

use std::collections::BTreeSet;

use protocol_model::{Allocation, ClientStatus, EvalId, Evaluation, JobKey};

use super::draft::{AllocTouch, Draft};
use crate::applied::{Outcome, Refusal};

impl Draft {
    /// Refuses an evaluation that would take another one's id or open one that is over.
    pub(super) fn check_eval(&self, eval: &Evaluation) -> Result<(), Refusal> {
        let Some(before) = self.tables.eval(eval.id) else {
            return Ok(());
        };
        if before.job_id != eval.job_id || before.namespace != eval.namespace {
            return Err(Refusal::EvalOfAnotherJob(eval.id));
        }
        if before.status.is_terminal() && !eval.status.is_terminal() {
            return Err(Refusal::EvalTerminal(eval.id));
        }
        Ok(())
    }

    /// The evaluations of one command: each id at most once.
    pub(super) fn check_evals(&self, evals: &[Evaluation]) -> Result<(), Refusal> {
        let mut seen = BTreeSet::new();
        for eval in evals {
            self.check_eval(eval)?;
            if !seen.insert(eval.id) {
                return Err(Refusal::malformed("an evaluation is named twice"));
            }
        }
        Ok(())
    }

    /// The evaluation that comes with a command about one job.
    pub(super) fn check_eval_of(
        &self,
        key: &JobKey,
        eval: Option<&Evaluation>,
    ) -> Result<(), Refusal> {
        let Some(eval) = eval else { return Ok(()) };
        if eval.job_key() != *key {
            return Err(Refusal::EvalMismatch(key.clone()));
        }
        self.check_eval(eval)
    }

    pub(crate) fn evals_upsert(&mut self, evals: Vec<Evaluation>) -> Result<Outcome, Refusal> {
        self.check_evals(&evals)?;
        // An evaluation that is written off and was deleted meanwhile stays deleted. The attempt
        // that would follow it is not made.
        let gone: BTreeSet<EvalId> = evals
            .iter()
            .filter(|eval| eval.status.is_terminal() && self.tables.eval(eval.id).is_none())
            .map(|eval| eval.id)
            .collect();
        let follows = |eval: &Evaluation| eval.previous_eval.is_some_and(|id| gone.contains(&id));
        let mut ids = Vec::with_capacity(evals.len());
        for eval in evals {
            if gone.contains(&eval.id) || follows(&eval) {
                continue;
            }
            ids.push(eval.id);
            self.put_eval(eval);
        }
        Ok(Outcome::Evaluated(ids))
    }

    pub(crate) fn job_evaluate(
        &mut self,
        mut eval: Evaluation,
        force_reschedule: bool,
    ) -> Result<Outcome, Refusal> {
        let key = eval.job_key();
        let Some(job) = self.tables.job(&key) else {
            return Err(Refusal::UnknownJob(key));
        };
        // A namespace may be deleted while dead jobs are in it: they stay dead.
        if self.tables.namespace(&key.namespace).is_none() {
            return Err(Refusal::UnknownNamespace(key.namespace));
        }
        self.check_eval(&eval)?;
        eval.job_modify_index = job.job_modify_index;
        if force_reschedule {
            self.force_reschedule_failed(&key);
        }
        let id = eval.id;
        self.put_eval(eval);
        Ok(Outcome::Evaluated(vec![id]))
    }

    fn force_reschedule_failed(&mut self, key: &JobKey) {
        let failed: Vec<Allocation> = self
            .tables
            .allocs_by_job(key)
            .filter(|alloc| {
                alloc.client_status == ClientStatus::Failed
                    && !alloc.server_terminal()
                    && alloc.next_allocation.is_none()
            })
            .map(|alloc| Allocation::clone(alloc))
            .collect();
        for mut alloc in failed {
            alloc.desired_transition.force_reschedule = Some(true);
            self.put_alloc(alloc, AllocTouch::Known);
        }
    }
}
