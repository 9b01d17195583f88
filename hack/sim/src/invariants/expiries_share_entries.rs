//! Nodes that fall silent together share a log entry: the next expiry is proposed only when the one
//! before has been committed.

use controlplane_state::Command;

use super::{Invariant, Observation};
use crate::time::Nanos;
use crate::world::World;

/// When the newest expiry was applied, and how many others at that very moment.
#[derive(Debug, Default)]
pub(super) struct ExpiriesShareEntries {
    newest: Option<Nanos>,
}

impl Invariant for ExpiriesShareEntries {
    fn name(&self) -> &'static str {
        "expiries_share_entries"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, hole 8: expiries of one period are one entry"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            command: Command::HeartbeatMissed { nodes },
            ..
        } = seen
        else {
            return Ok(());
        };
        if self.newest.replace(world.now) == Some(world.now) {
            return Err(format!(
                "{} more nodes in an entry of their own",
                nodes.len()
            ));
        }
        Ok(())
    }
}
