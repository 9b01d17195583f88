//! A group that stops itself is gone when no leader could confirm for so long that its node was
//! heard, whatever becomes of the node's daemon.

use std::time::Duration;

use super::{Invariant, Observation, learn_leased};
use crate::judges::Leased;
use crate::world::World;

#[derive(Debug, Default)]
pub(super) struct LeasesEnd {
    judge: Leased,
}

impl Invariant for LeasesEnd {
    fn name(&self) -> &'static str {
        "leases_end"
    }

    fn source(&self) -> &'static str {
        "reconnect.md: stop_on_client_after is a lease, which keeper enforces, noded alive or not"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        learn_leased(&mut self.judge, seen, world);
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        for (ix, host) in (0_u32..).zip(world.nodes()) {
            if let Some(since) = host.unconfirmed_since {
                let lasts = Duration::from_nanos(world.now.saturating_sub(since));
                self.judge.outlived(ix, lasts, host.keeper.live())?;
            }
        }
        Ok(())
    }
}
