//! Trouble of one server, or on the way to it, costs no node its readiness: another server holds
//! its session before it has been silent for too long.

use super::{Invariant, Observation, taken_in};
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// For how long nothing else may have been wrong.
const WELL: Nanos = 10 * SECOND;

#[derive(Debug)]
pub(super) struct OneServerInTrouble;

impl Invariant for OneServerInTrouble {
    fn name(&self) -> &'static str {
        "one_server_in_trouble"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Liveness: kill -9 of each server, a cut of each link: no node leaves `ready`"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Some(server) = world.only_troubled_server(WELL) else {
            return Ok(());
        };
        for ix in taken_in(seen) {
            let node = world.node(ix);
            let up = node.core.is_some() && world.now.saturating_sub(node.booted_at) > WELL;
            if up {
                return Err(format!(
                    "n{ix} is taken for silent, and nothing was wrong but s{server}"
                ));
            }
        }
        Ok(())
    }
}
