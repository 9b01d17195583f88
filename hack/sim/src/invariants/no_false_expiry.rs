//! A node that is well, in a cluster that is well, is never taken for silent.

use controlplane_state::{Command, Outcome};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How long everything must have been well.
const WELL: Nanos = 10 * SECOND;

#[derive(Debug)]
pub(super) struct NoFalseExpiry;

impl Invariant for NoFalseExpiry {
    fn name(&self) -> &'static str {
        "no_false_expiry"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Liveness: no false positives"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            command: Command::HeartbeatMissed { .. },
            applied,
            ..
        } = seen
        else {
            return Ok(());
        };
        let Outcome::Missed(results) = &applied.outcome else {
            return Ok(());
        };
        for result in results.iter().filter(|it| it.status.is_some()) {
            let node = node_ix(result.node);
            let since = world.node(node).reachable_since;
            let well = since.is_some_and(|at| world.now.saturating_sub(at) > WELL);
            if well && world.quiet_for(WELL) && world.led_for() > WELL {
                return Err(format!("n{node} is well and taken for silent"));
            }
        }
        Ok(())
    }
}
