//! A host that boots while it is cut off starts again what is its own, from its journal: what runs
//! on every node is not moved elsewhere meanwhile.

use std::collections::BTreeMap;

use protocol_model::{AllocId, DesiredStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_id;
use crate::schedule::jobs::Kind;
use crate::time::{Nanos, SECOND};
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
        "reconnect.md, hole 10: it may, from its journal"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
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
                let own = matches!(
                    world.kind_of(alloc.id),
                    Some(Kind::System | Kind::SystemWindow)
                );
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
