//! Of a group that stops itself when it is not heard, at most one instance of each number lives at
//! once, on whatever host, however the one before came to leave.

use super::{Invariant, Observation, learn_leased};
use crate::judges::Leased;
use crate::world::World;

#[derive(Debug, Default)]
pub(super) struct OneLeased {
    judge: Leased,
}

impl Invariant for OneLeased {
    fn name(&self) -> &'static str {
        "one_leased"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, physically at most one runs"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        learn_leased(&mut self.judge, seen, world);
        let Observation::Spawned { node, run } = seen else {
            return Ok(());
        };
        let hosts = (0_u32..).zip(world.nodes());
        let live = hosts.flat_map(|(ix, host)| host.keeper.live().map(move |run| (ix, run)));
        self.judge.starts(*node, run, live)
    }
}
