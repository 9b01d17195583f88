//! A node that nobody can hear is noticed in constant time, whatever the number of nodes and
//! whoever leads.

use protocol_model::NodeStatus;

use super::{Invariant, Observation};
use crate::node_ids::node_id;
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// A detection period, what a new leader adds, and a wide margin for slow servers and for what was
/// still on its way.
const NOTICED_WITHIN: Nanos = 9 * SECOND;

#[derive(Debug)]
pub(super) struct SilenceNoticed;

impl Invariant for SilenceNoticed {
    fn name(&self) -> &'static str {
        "silence_noticed"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Liveness (holes 6 and 7)"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        // A leader that lags hears of a session that much later, and of the one before it.
        let limit = NOTICED_WITHIN + 2 * world.lags();
        if !matches!(seen, Observation::Second) || world.minded_for() < limit {
            return Ok(());
        }
        for (ix, host) in world.nodes().iter().enumerate() {
            let silent = host
                .unreachable_since
                .is_some_and(|at| world.now.saturating_sub(at) > limit);
            if !silent {
                continue;
            }
            let ix = u32::try_from(ix).unwrap_or(u32::MAX);
            let ready = world
                .state()
                .node(node_id(ix))
                .is_some_and(|record| record.node.status == NodeStatus::Ready);
            if ready {
                let limit = limit / SECOND;
                return Err(format!("n{ix} is silent for {limit} s and still ready"));
            }
        }
        Ok(())
    }
}
