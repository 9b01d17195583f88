//! Nothing that has to leave a draining node stays beyond the drain's deadline, and a drain of a
//! node that is empty is over.

use std::collections::BTreeMap;

use controlplane_state::NodeRecord;
use protocol_model::{JobType, NodeId, NodeStatus};

use super::{Invariant, Observation};
use crate::node_ids::node_ix;
use crate::time::{Nanos, SECOND, wall};
use crate::world::World;

/// How long an end may take under one leader: a look, a plan, the kill timeout, a report; and the
/// same for system jobs.
const ENDS_WITHIN: Nanos = 12 * SECOND;

/// Since when a drain should be over.
#[derive(Debug, Default)]
pub(super) struct DrainsEnd {
    late: BTreeMap<NodeId, (u64, Nanos)>,
}

impl Invariant for DrainsEnd {
    fn name(&self) -> &'static str {
        "drains_end"
    }

    fn source(&self) -> &'static str {
        "operations, Drain a node: what is left at the deadline is stopped"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second) {
            return Ok(());
        }
        let before = std::mem::take(&mut self.late);
        let limit = ENDS_WITHIN + world.clocks_apart();
        for record in world.state().nodes() {
            let Some(why) = should_end(world, record) else {
                continue;
            };
            let id = record.node.id;
            let known = before
                .get(&id)
                .filter(|(drain, _)| *drain == record.drain_index);
            let since = known.map_or(world.now, |(_, since)| *since);
            self.late.insert(id, (record.drain_index, since));
            let lasts = world.now.saturating_sub(since).min(world.graced_for());
            if lasts > limit {
                return Err(format!(
                    "n{} drains, {why}, and that for {} s",
                    node_ix(id),
                    lasts / SECOND
                ));
            }
        }
        Ok(())
    }
}

/// Why a node that is heard should not be draining any more.
fn should_end(world: &World, record: &NodeRecord) -> Option<String> {
    let strategy = record.node.drain_strategy?;
    if record.node.status != NodeStatus::Ready {
        return None;
    }
    let state = world.state();
    let mut on_node = state.allocs_on_node(record.node.id);
    let left = on_node.find(|alloc| {
        let job = state.job_of_alloc(alloc);
        let system = job.is_some_and(|job| job.job_type == JobType::System);
        let stays = system && strategy.ignore_system_jobs;
        !alloc.client_terminal() && !stays
    });
    match left {
        None => Some("nothing has to leave it".to_owned()),
        Some(alloc) if strategy.is_overdue(wall(world.now, 0)) => Some(format!(
            "{} of {} is left although its deadline is over",
            alloc.id.short(),
            alloc.job_id
        )),
        Some(_) => None,
    }
}
