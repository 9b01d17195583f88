//! A node that is well, in a cluster that is well, is never taken for silent.

use super::{Invariant, Observation, taken_in};
use crate::net::Heartbeats;
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
        for node in taken_in(seen) {
            let since = world.node(node).reachable_since;
            let well = since.is_some_and(|at| world.now.saturating_sub(at) > WELL);
            if well && conditions_are_good(world) && world.led_for() > WELL {
                return Err(format!("n{node} is well and taken for silent"));
            }
        }
        Ok(())
    }
}

/// Where heartbeats wait for those that were lost, the weather that is promised for is too bad.
fn conditions_are_good(world: &World) -> bool {
    match world.net.heartbeats {
        Heartbeats::InOrder => world.quiet_for(WELL),
        Heartbeats::Alone => world.only_weather_for(WELL),
    }
}
