//! A node whose disconnect windows are over does not stay disconnected.

use std::collections::BTreeMap;

use protocol_model::{NodeId, NodeStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How often the leader tries, and a margin for slow servers and logs.
const DOWN_WITHIN: Nanos = 10 * SECOND;

/// Since when the windows of a disconnected node are over.
#[derive(Debug, Default)]
pub(super) struct WindowsEnd {
    over: BTreeMap<NodeId, Nanos>,
}

impl Invariant for WindowsEnd {
    fn name(&self) -> &'static str {
        "windows_end"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, States: WindowExpired (disconnected to down)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second | Observation::Rested) {
            return Ok(());
        }
        // A leader decides on what it has applied.
        let limit = DOWN_WITHIN + world.clocks_apart() + world.lags();
        let state = world.state();
        for record in state.nodes() {
            let node = record.node.id;
            let over = record.node.status == NodeStatus::Disconnected
                && !state.has_open_window(node, state.now());
            if !over {
                self.over.remove(&node);
                continue;
            }
            let since = *self.over.entry(node).or_insert(world.now);
            let lasts = world.now.saturating_sub(since).min(world.graced_for());
            if lasts > limit {
                return Err(format!(
                    "n{} is disconnected, and its windows are over for {} s",
                    node_ix(node),
                    lasts / SECOND
                ));
            }
        }
        Ok(())
    }
}
