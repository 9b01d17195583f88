//! An allocation that evicts others starts when nothing of them lives any more.

use std::collections::BTreeMap;

use controlplane_state::{Command, Outcome};
use protocol_model::AllocId;

use super::{Invariant, Observation};
use crate::world::World;

/// The evicted of each allocation.
#[derive(Debug, Default)]
pub(super) struct VictimsEndFirst {
    victims: BTreeMap<AllocId, Vec<AllocId>>,
}

impl Invariant for VictimsEndFirst {
    fn name(&self) -> &'static str {
        "victims_end_first"
    }

    fn source(&self) -> &'static str {
        "operations, Preemption: the new allocation starts after the end of the others"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match *seen {
            Observation::Applied {
                command: Command::PlanApply(plan),
                applied,
                ..
            } if applied.outcome == Outcome::PlanApplied => {
                for one in &plan.preempted {
                    self.victims.entry(one.by).or_default().push(one.id);
                }
                Ok(())
            }
            Observation::Spawned { node, run } => {
                let Some(victims) = self.victims.get(&run.alloc) else {
                    return Ok(());
                };
                let mut live = world.node(node).keeper.live();
                match live.find(|other| victims.contains(&other.alloc)) {
                    None => Ok(()),
                    Some(victim) => Err(format!("n{node} starts {run} while {victim} lives")),
                }
            }
            _ => Ok(()),
        }
    }
}
