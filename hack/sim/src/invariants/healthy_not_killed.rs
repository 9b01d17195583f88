//! A node ends a run that is wanted only where its group asked for that: no lagging server, no
//! change of leaders and no restart kills what is healthy.

use protocol_model::DesiredStatus;

use super::{Invariant, Observation};
use crate::schedule::jobs::Kind;
use crate::world::World;

#[derive(Debug)]
pub(super) struct HealthyNotKilled;

impl Invariant for HealthyNotKilled {
    fn name(&self) -> &'static str {
        "healthy_not_killed"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: never killed for a lagging server (hole 5)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::StopAsked { node, run } = seen else {
            return Ok(());
        };
        let host = world.node(*node);
        // A run above the newest that a damaged journal knows is killed, whatever else is known.
        if !host.keeper.lives(run) || host.journal.damaged {
            return Ok(());
        }
        // A run that the journal does not know is killed: the newest one goes on or follows.
        let newest = host
            .core
            .as_ref()
            .and_then(|core| core.alloc(run.alloc))
            .and_then(|alloc| alloc.tasks().get(&run.task))
            .is_some_and(|task| task.run() == **run);
        let wanted = world.state().alloc(run.alloc).is_some_and(|alloc| {
            alloc.desired_status == DesiredStatus::Run && !alloc.client_terminal()
        });
        let leased = world.kind_of(run.alloc) == Some(Kind::Leased);
        if wanted && newest && !leased {
            return Err(format!("n{node} ends {run}, which is wanted and runs"));
        }
        Ok(())
    }
}
