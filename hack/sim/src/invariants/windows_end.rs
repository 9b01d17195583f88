//! A node whose disconnect windows are over does not stay disconnected.

use std::collections::BTreeMap;

use protocol_model::{NodeId, NodeStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::schedule::fault::FaultKind;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How often the leader tries, and a margin for slow servers and logs.
const DOWN_WITHIN: Nanos = 10 * SECOND;
/// By how much a server lags at most that leads, where some do: it decides on what it has applied.
const LAGS: Nanos = 5 * SECOND;

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
        let mut faults = world.schedule.faults.iter();
        let lags = faults.any(|fault| matches!(fault.kind, FaultKind::LagServer { .. }));
        let limit = DOWN_WITHIN + world.clocks_apart() + if lags { LAGS } else { 0 };
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
            let lasts = world.now.saturating_sub(since).min(world.minded_for());
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
