//! Whoever was asked to leave leaves, or somebody waits for what that takes: room elsewhere, the
//! end of a lease. That its node is silent is no reason to stay.

use std::collections::BTreeMap;

use protocol_model::{AllocId, Allocation, DesiredStatus, EvalStatus};

use super::{Invariant, Observation};
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How long an evaluation may be on its way, under one leader.
const MARGIN: Nanos = 5 * SECOND;

/// Since when nobody waits for what one needs that was asked to leave.
#[derive(Debug, Default)]
pub(super) struct StopsAreHeeded {
    asked: BTreeMap<AllocId, Nanos>,
}

impl Invariant for StopsAreHeeded {
    fn name(&self) -> &'static str {
        "stops_are_heeded"
    }

    fn source(&self) -> &'static str {
        "job files, When a node falls silent: alloc stop ends the wait for a silent allocation"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        let before = std::mem::take(&mut self.asked);
        for alloc in world.state().allocs() {
            let asked = alloc.desired_transition.should_migrate()
                && alloc.desired_status == DesiredStatus::Run
                && !alloc.client_terminal();
            if !asked || is_awaited(world, alloc) {
                continue;
            }
            let since = before.get(&alloc.id).copied().unwrap_or(world.now);
            self.asked.insert(alloc.id, since);
            let lasts = world.now.saturating_sub(since).min(world.led_for());
            if lasts > MARGIN {
                return Err(format!(
                    "{} of {} was asked to leave, is {}, and nobody waits for anything",
                    alloc.id.short(),
                    alloc.job_id,
                    alloc.client_status.as_str()
                ));
            }
        }
        Ok(())
    }
}

/// Whether an evaluation of its job is to come, at once or when there is room or time.
fn is_awaited(world: &World, alloc: &Allocation) -> bool {
    let mut evals = world.state().evals_by_job(&alloc.job_key());
    evals.any(|eval| matches!(eval.status, EvalStatus::Pending | EvalStatus::Blocked))
}
