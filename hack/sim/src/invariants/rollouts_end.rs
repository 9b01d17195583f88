//! A rollout that can make no progress fails in time, and one that has nothing left to do is over.

use std::collections::BTreeMap;

use protocol_model::{ClientStatus, Deployment, DeploymentId, DeploymentStatus, NodeStatus};

use super::{Invariant, Observation};
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How often the leader tries, and a margin for slow servers and logs.
const ENDS_WITHIN: Nanos = 15 * SECOND;

/// Since when a rollout should be over.
#[derive(Debug, Default)]
pub(super) struct RolloutsEnd {
    overdue: BTreeMap<DeploymentId, Nanos>,
}

impl Invariant for RolloutsEnd {
    fn name(&self) -> &'static str {
        "rollouts_end"
    }

    fn source(&self) -> &'static str {
        "update.progress_deadline: a rollout without progress fails"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        if !matches!(seen, Observation::Second | Observation::Rested) {
            return Ok(());
        }
        let limit = ENDS_WITHIN + world.clocks_apart();
        for deployment in world.state().deployments() {
            if !is_overdue(world, deployment) {
                self.overdue.remove(&deployment.id);
                continue;
            }
            let since = *self.overdue.entry(deployment.id).or_insert(world.now);
            let lasts = world.now.saturating_sub(since).min(world.graced_for());
            if lasts > limit {
                return Err(format!(
                    "the rollout of {} v{} should have ended {} s ago",
                    deployment.job_id,
                    deployment.job_version,
                    lasts / SECOND
                ));
            }
        }
        Ok(())
    }
}

/// Whether it runs, and nothing is left to wait for: neither time nor a silent node.
fn is_overdue(world: &World, deployment: &Deployment) -> bool {
    if deployment.status != DeploymentStatus::Running {
        return false;
    }
    let state = world.state();
    let key = deployment.job_key();
    let silent = state.allocs_by_job(&key).any(|alloc| {
        !alloc.terminal()
            && (alloc.client_status == ClientStatus::Unknown
                || state
                    .node(alloc.node_id)
                    .is_none_or(|record| record.node.status != NodeStatus::Ready))
    });
    let waits = deployment.task_groups.values().any(|group| {
        let by = group.require_progress_by;
        let in_time = by.is_none_or(|by| by > state.now());
        if !group.awaits_promotion() {
            return group.healthy_allocs < group.desired_total && in_time;
        }
        let healthy = group.healthy_canaries(|id| state.alloc(id).map(|alloc| &**alloc));
        if healthy < group.desired_canaries {
            in_time
        } else {
            // A person takes as long as it takes.
            !group.auto_promote
        }
    });
    !silent && !waits
}
