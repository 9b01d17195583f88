//! A successor on its predecessor's node starts when nothing of the predecessor lives any more.

use std::collections::BTreeMap;

use controlplane_state::Command;
use protocol_model::AllocId;

use super::{Invariant, Observation};
use crate::world::World;

/// What was placed where what it takes the place of is, and what that is.
#[derive(Debug, Default)]
pub(super) struct SuccessorsWait {
    predecessors: BTreeMap<AllocId, AllocId>,
}

impl Invariant for SuccessorsWait {
    fn name(&self) -> &'static str {
        "successors_wait"
    }

    fn source(&self) -> &'static str {
        "job files, What is being stopped: a successor on the same node starts after the end"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::Applied {
                command: Command::PlanApply(plan),
                after,
                ..
            } => {
                for alloc in &plan.placed {
                    let previous = alloc.previous_allocation.and_then(|id| after.alloc(id));
                    if let Some(previous) = previous.filter(|it| it.node_id == alloc.node_id) {
                        self.predecessors.insert(alloc.id, previous.id);
                    }
                }
                Ok(())
            }
            Observation::Spawned { node, run } => {
                let Some(previous) = self.predecessors.get(&run.alloc) else {
                    return Ok(());
                };
                let mut live = world.node(*node).keeper.live();
                match live.find(|other| other.alloc == *previous) {
                    None => Ok(()),
                    Some(before) => Err(format!("n{node} starts {run} while {before} lives")),
                }
            }
            _ => Ok(()),
        }
    }
}
