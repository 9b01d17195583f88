//! Trouble of one server, or on the way to it, costs no node its readiness: another server holds
//! its session before it has been silent for too long.

use super::{Invariant, Observation, taken_in};
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// For how long nothing else may have been wrong, and a node in touch before.
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
        let Some((server, since)) = world.only_troubled_server(WELL) else {
            return Ok(());
        };
        for ix in taken_in(seen) {
            // One that was on its way back may wait a while before it asks a server again.
            let settled = world.was_settled(ix, since, WELL);
            if settled && world.node(ix).core.is_some() {
                return Err(format!(
                    "n{ix} is taken for silent, and nothing was wrong but s{server}"
                ));
            }
        }
        Ok(())
    }
}
