//! A group that stops itself is gone when its node was not heard for so long, whatever becomes of
//! the node's daemon.

use super::{Invariant, Observation};
use crate::schedule::jobs::{KILL_TIMEOUT, Kind, LEASE};
use crate::time::{Nanos, SECOND, nanos};
use crate::world::World;

/// What was said before the silence and was still on its way.
const MARGIN: Nanos = 2 * SECOND;

#[derive(Debug)]
pub(super) struct LeasesEnd;

impl Invariant for LeasesEnd {
    fn name(&self) -> &'static str {
        "leases_end"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, which keeper enforces, noded alive or not"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        let limit = nanos(LEASE + KILL_TIMEOUT) + MARGIN;
        for (ix, host) in world.nodes().iter().enumerate() {
            let silent = host
                .unreachable_since
                .is_some_and(|at| world.now.saturating_sub(at) > limit);
            if !silent {
                continue;
            }
            let mut live = host.keeper.live();
            if let Some(run) = live.find(|run| world.kind_of(run.alloc) == Some(Kind::Leased)) {
                let limit = limit / SECOND;
                return Err(format!("n{ix} is not heard for {limit} s and runs {run}"));
            }
        }
        Ok(())
    }
}
