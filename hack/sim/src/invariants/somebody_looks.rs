//! What a node's silence or return asks of the scheduler is asked in the same entry: at no moment
//! is there an allocation that somebody has to look at and nobody will.

use protocol_model::{Allocation, ClientStatus, DesiredStatus, EvalStatus, Node, NodeStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::world::World;

#[derive(Debug)]
pub(super) struct SomebodyLooks;

impl Invariant for SomebodyLooks {
    fn name(&self) -> &'static str {
        "somebody_looks"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, hole 3: status change and evaluations are one entry"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        let state = world.state();
        for alloc in state.allocs() {
            if alloc.desired_status != DesiredStatus::Run || alloc.client_terminal() {
                continue;
            }
            let Some(node) = state.node(alloc.node_id).map(|record| &record.node) else {
                continue;
            };
            if is_asked_for(alloc, node) && !is_pending(world, alloc) {
                return Err(format!(
                    "n{} is {}, its allocation {} is {}, and nobody will look at {}",
                    node_ix(node.id),
                    node.status.as_str(),
                    alloc.id.short(),
                    alloc.client_status.as_str(),
                    alloc.job_id
                ));
            }
        }
        Ok(())
    }
}

/// Whether its node's condition asks somebody to look at an allocation that lives.
fn is_asked_for(alloc: &Allocation, node: &Node) -> bool {
    let unknown = alloc.client_status == ClientStatus::Unknown;
    match node.status {
        NodeStatus::Down | NodeStatus::Disconnected => !unknown,
        // What is back on a node that drains leaves it, once there is room elsewhere. What its host
        // starts again is waited for: it may not run, and then stays who took its place.
        NodeStatus::Ready => {
            alloc.needs_reconnect() && !node.drain && alloc.client_status != ClientStatus::Pending
        }
        NodeStatus::Initializing => false,
    }
}

/// Whether somebody will look at its job now: what waits for a later time is about something else.
fn is_pending(world: &World, alloc: &Allocation) -> bool {
    let state = world.state();
    state.evals_by_job(&alloc.job_key()).any(|eval| {
        let due = eval.wait_until.is_none_or(|until| until <= state.now());
        due && eval.status == EvalStatus::Pending
    })
}
