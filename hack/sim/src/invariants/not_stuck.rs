//! A node that is well, in a cluster that is well, does not stay in its handshake.

use protocol_model::NodeStatus;

use super::{Invariant, Observation};
use crate::node_ids::node_id;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// The longest back-off of a node and the longest that a report may be owed, with a margin.
const STUCK: Nanos = 70 * SECOND;

#[derive(Debug)]
pub(super) struct NotStuck;

impl Invariant for NotStuck {
    fn name(&self) -> &'static str {
        "not_stuck"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, hole 2: no node stays initializing"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second)
            || !world.quiet_for(STUCK)
            || world.led_for() < STUCK
        {
            return Ok(());
        }
        for (ix, host) in world.nodes().iter().enumerate() {
            let well = host
                .reachable_since
                .is_some_and(|at| world.now.saturating_sub(at) > STUCK);
            let ix = u32::try_from(ix).unwrap_or(u32::MAX);
            let status = world.state().node(node_id(ix)).map(|it| it.node.status);
            if well && status != Some(NodeStatus::Ready) {
                return Err(format!("n{ix} is well and {status:?}"));
            }
        }
        Ok(())
    }
}
