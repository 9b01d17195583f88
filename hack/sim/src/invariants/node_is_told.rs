//! What is placed on a node that is well is told to it: no allocation stays pending because its
//! node never heard of it.

use protocol_model::reconnect::time_to_return;
use protocol_model::{ClientStatus, DesiredStatus, NodeStatus, UnixNanos};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND, nanos, wall};
use crate::world::World;

/// How much longer than a node needs to be back everything must have been well, and the allocation
/// have waited.
const MARGIN: Nanos = 10 * SECOND;

#[derive(Debug)]
pub(super) struct NodeIsTold;

impl Invariant for NodeIsTold {
    fn name(&self) -> &'static str {
        "node_is_told"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, hole 9: a pending allocation that the node never accepted"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        // What was placed, and when, is said by servers' clocks.
        let returned = nanos(time_to_return(world.servers.len()));
        let limit = returned + MARGIN + world.clocks_apart();
        if !matches!(seen, Observation::Second) || world.led_for() < limit {
            return Ok(());
        }
        let before = wall(world.now.saturating_sub(limit), 0);
        for alloc in world.state().allocs() {
            let waits = alloc.desired_status == DesiredStatus::Run
                && alloc.client_status == ClientStatus::Pending
                && alloc.create_time < before;
            if !waits {
                continue;
            }
            let host = world.node(node_ix(alloc.node_id));
            let well = host
                .reachable_since
                .is_some_and(|at| world.now.saturating_sub(at) > limit);
            // One that owes its report is told nothing: its disk may be full, or a server slow.
            let ready = world.state().node(alloc.node_id).is_some_and(|record| {
                let since = UnixNanos(record.node.status_updated_at.saturating_mul(1_000_000_000));
                record.node.status == NodeStatus::Ready && since < before
            });
            let unheard = host
                .core
                .as_ref()
                .is_some_and(|core| core.alloc(alloc.id).is_none());
            if well && ready && unheard {
                return Err(format!(
                    "n{} does not know of {}, which was placed on it",
                    node_ix(alloc.node_id),
                    alloc.id.short()
                ));
            }
        }
        Ok(())
    }
}
