//! What a node that is ready does not accept does not wait there for ever: somebody is asked to
//! move it elsewhere.

use std::collections::BTreeMap;

use controlplane_leader::unaccepted::ACCEPTED_WITHIN;
use protocol_model::{AllocId, NodeStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND, nanos};
use crate::world::World;

/// How often the leader looks, what a new one gives anew, and a margin for slow servers and logs.
const MARGIN: Nanos = 20 * SECOND;

/// Since when an allocation waits on a node that is ready, under one leader.
#[derive(Debug, Default)]
pub(super) struct PendingMoves {
    waiting: BTreeMap<AllocId, Nanos>,
}

impl Invariant for PendingMoves {
    fn name(&self) -> &'static str {
        "pending_moves"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, hole 9: unaccepted past a deadline is rescheduled"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        let limit = nanos(ACCEPTED_WITHIN) + MARGIN + world.clocks_apart();
        let state = world.state();
        let before = std::mem::take(&mut self.waiting);
        for alloc in state.allocs() {
            if !state.is_unaccepted(alloc) {
                continue;
            }
            let ready = state
                .node(alloc.node_id)
                .is_some_and(|record| record.node.status == NodeStatus::Ready);
            if !ready {
                continue;
            }
            let since = before.get(&alloc.id).copied().unwrap_or(world.now);
            self.waiting.insert(alloc.id, since);
            let lasts = world.now.saturating_sub(since).min(world.led_for());
            if lasts > limit {
                return Err(format!(
                    "n{} is ready, says nothing of {} for {} s, and nobody moves it",
                    node_ix(alloc.node_id),
                    alloc.id.short(),
                    lasts / SECOND
                ));
            }
        }
        Ok(())
    }
}
