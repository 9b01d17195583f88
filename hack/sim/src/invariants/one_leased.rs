//! Of a group that stops itself when it is not heard, at most one instance of each number lives at
//! once, on whatever host, however the one before came to leave.

use std::collections::BTreeMap;

use controlplane_state::Command;
use protocol_model::AllocId;

use super::{Invariant, Observation};
use crate::schedule::jobs::Kind;
use crate::world::World;

/// The names of what was ever placed of such groups: a host may have it for longer than the state.
#[derive(Debug, Default)]
pub(super) struct OneLeased {
    names: BTreeMap<AllocId, String>,
}

impl Invariant for OneLeased {
    fn name(&self) -> &'static str {
        "one_leased"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, physically at most one runs"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if let Observation::Applied {
            command: Command::PlanApply(plan),
            ..
        } = seen
        {
            let leased = plan
                .placed
                .iter()
                .filter(|alloc| world.kind_of(alloc.id) == Some(Kind::Leased));
            self.names
                .extend(leased.map(|alloc| (alloc.id, alloc.name.clone())));
        }
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        let Some(name) = self.names.get(&run.alloc) else {
            return Ok(());
        };
        for (other, host) in world.nodes().iter().enumerate() {
            let mut live = host.keeper.live();
            let is_twin = |it: &AllocId| *it != run.alloc && self.names.get(it) == Some(name);
            if let Some(twin) = live.find(|it| is_twin(&it.alloc)) {
                return Err(format!(
                    "n{node} starts {run} while {twin} lives on n{other}, and both are {name}"
                ));
            }
        }
        Ok(())
    }
}
