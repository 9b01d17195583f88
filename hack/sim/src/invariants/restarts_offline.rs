//! A host that boots while it is cut off starts again what is its own, from its journal, and
//! nothing else: what runs on every node is not moved elsewhere meanwhile, and what is tolerated on
//! a silent node is expected back within its window.

use std::collections::BTreeMap;

use protocol_model::{AllocId, DesiredStatus};

use super::{Invariant, Observation};
use crate::event::NodeIx;
use crate::node_ids::node_id;
use crate::schedule::jobs::{Kind, WINDOW};
use crate::time::{Nanos, SECOND, wall};
use crate::world::World;

/// How long starting may take, with a few failures on the way.
const STARTS_WITHIN: Nanos = 12 * SECOND;

/// Since when each of a host's own allocations has not been running.
#[derive(Debug, Default)]
pub(super) struct RestartsOffline {
    resting: BTreeMap<AllocId, Nanos>,
}

impl Invariant for RestartsOffline {
    fn name(&self) -> &'static str {
        "restarts_offline"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, hole 10: it may, within its group's disconnect window, from its journal"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if let Observation::Spawned { node, run } = seen {
            let host = world.node(*node);
            let told = host.boot <= 1 || host.told_in == host.boot;
            if !told && !is_own(world, *node, run.alloc, 0) {
                return Err(format!("n{node} was told nothing and starts {run}"));
            }
        }
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        let before = std::mem::take(&mut self.resting);
        for (ix, host) in world.nodes().iter().enumerate() {
            let ix = u32::try_from(ix).unwrap_or(u32::MAX);
            let Some(core) = host.core.as_ref().filter(|_| host.boot > 1) else {
                continue;
            };
            if host.unreachable_since.is_none() || host.journal.full || host.journal.slow > 0 {
                continue;
            }
            for alloc in world.state().allocs_on_node(node_id(ix)) {
                // With a margin for the time between the boot and the daemon's start.
                let own = is_own(world, ix, alloc.id, 5 * SECOND);
                let told = core
                    .alloc(alloc.id)
                    .is_some_and(|known| known.spec().alloc().desired_status == DesiredStatus::Run);
                let over = core
                    .alloc_status(alloc.id)
                    .is_none_or(|said| said.client_status.is_terminal());
                let lives = host.keeper.live().any(|run| run.alloc == alloc.id);
                if !own || !told || over || lives {
                    continue;
                }
                let since = before.get(&alloc.id).copied().unwrap_or(world.now);
                self.resting.insert(alloc.id, since);
                if world.now.saturating_sub(since) > STARTS_WITHIN {
                    return Err(format!(
                        "n{ix} is cut off and does not start {} again",
                        alloc.id.short()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Whether a host may start an allocation again by its own word, when it boots; `margin` before its
/// window ends.
fn is_own(world: &World, node: NodeIx, alloc: AllocId, margin: Nanos) -> bool {
    let host = world.node(node);
    match world.kind_of(alloc) {
        Some(Kind::System | Kind::SystemWindow) => true,
        Some(Kind::Window | Kind::Patient | Kind::RollingWindow) => {
            let booted = wall(host.booted_at + margin, host.skew);
            host.journal
                .heard()
                .is_some_and(|at| booted < at.saturating_add(WINDOW))
        }
        _ => false,
    }
}
