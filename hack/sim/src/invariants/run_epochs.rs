//! No run epoch of a task is started twice within one boot of its host.

use std::collections::BTreeMap;

use noded_core::RunEpoch;
use protocol_model::AllocId;

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::world::World;

/// The highest epoch that was started, by task and boot.
#[derive(Debug, Default)]
pub(super) struct RunEpochs {
    highest: BTreeMap<(NodeIx, AllocId, String), (u32, RunEpoch)>,
}

impl Invariant for RunEpochs {
    fn name(&self) -> &'static str {
        "run_epochs"
    }

    fn source(&self) -> &'static str {
        "architecture, 6: keeper refuses a run epoch that is not above the highest it saw"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        let boot = world.node(*node).boot;
        let key = (*node, run.alloc, run.task.clone());
        match self.highest.insert(key, (boot, run.epoch)) {
            Some((earlier, highest)) if earlier == boot && run.epoch <= highest => {
                Err(format!("n{node} starts {run} after epoch {}", highest.0))
            }
            _ => Ok(()),
        }
    }
}
