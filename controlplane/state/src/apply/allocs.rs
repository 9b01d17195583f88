//! Allocations that an operator, or the drainer, wants moved.

use protocol_model::{AllocId, Allocation, DesiredTransition, Evaluation};

use super::draft::{AllocTouch, Draft};
use crate::applied::{Outcome, Refusal};

impl Draft {
    pub(crate) fn allocs_stop(
        &mut self,
        allocs: &[(AllocId, DesiredTransition)],
        evals: Vec<Evaluation>,
    ) -> Result<Outcome, Refusal> {
        self.check_evals(&evals)?;
        for (id, wish) in allocs {
            let Some(alloc) = self.tables.alloc(*id) else {
                return Err(Refusal::UnknownAlloc(*id));
            };
            let mut alloc = Allocation::clone(alloc);
            let transition = &mut alloc.desired_transition;
            let DesiredTransition {
                migrate,
                reschedule,
                force_reschedule,
                no_shutdown_delay,
                migrate_disable_placement,
                force_stop,
            } = *wish;
            transition.migrate = migrate.or(transition.migrate);
            transition.reschedule = reschedule.or(transition.reschedule);
            if migrate == Some(true) {
                // Where it is to move because its node did not accept it in time, and the node
                // does so now, that move is taken back, but not what is wished here.
                transition.reschedule = reschedule;
            }
            transition.force_reschedule = force_reschedule.or(transition.force_reschedule);
            transition.no_shutdown_delay = no_shutdown_delay.or(transition.no_shutdown_delay);
            transition.migrate_disable_placement =
                migrate_disable_placement.or(transition.migrate_disable_placement);
            transition.force_stop = force_stop.or(transition.force_stop);
            // A mark for the scheduler; the node hears of it when the scheduler has decided.
            self.put_alloc(alloc, AllocTouch::Known);
        }
        let ids = evals.iter().map(|eval| eval.id).collect();
        for eval in evals {
            self.put_eval(eval);
        }
        Ok(Outcome::Evaluated(ids))
    }
}
