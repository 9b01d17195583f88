//! Until its canaries are promoted, a group has no more of the new version than them, and they end
//! with their deployment.

use std::collections::BTreeMap;

use controlplane_state::command::PlanApply;
use controlplane_state::{Command, Outcome, Snapshot};
use protocol_model::{AllocId, Allocation, ClientStatus, JobKey, NodeStatus};

use super::{Invariant, Observation};
use crate::schedule::jobs::{self, CANARIES};
use crate::time::{Nanos, SECOND};
use crate::world::World;

/// How long a canary may outlive its deployment, with a margin for slow servers and logs.
const ENDS_WITHIN: Nanos = 15 * SECOND;

/// Since when canaries should have been stopped.
#[derive(Debug, Default)]
pub(super) struct TrialsHold {
    stale: BTreeMap<AllocId, Nanos>,
}

impl Invariant for TrialsHold {
    fn name(&self) -> &'static str {
        "trials_hold"
    }

    fn source(&self) -> &'static str {
        "update.canary: nothing of a new version but its canaries runs before their promotion"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        match seen {
            Observation::Applied {
                after,
                command: Command::PlanApply(plan),
                applied,
                ..
            } if applied.outcome == Outcome::PlanApplied => {
                for (job, kind) in world.schedule.jobs.iter().enumerate() {
                    if jobs::has_canaries(*kind) {
                        let key = JobKey::new("default", jobs::name(job));
                        within(after, plan, &key)?;
                    }
                }
                Ok(())
            }
            Observation::Second | Observation::Rested => self.end_in_time(world),
            _ => Ok(()),
        }
    }
}

impl TrialsHold {
    fn end_in_time(&mut self, world: &World) -> Result<(), String> {
        let state = world.state();
        let over = |alloc: &Allocation| {
            let deployment = alloc.deployment_id.and_then(|id| state.deployment(id));
            deployment.is_none_or(|deployment| !deployment.status.is_active())
        };
        let heard = |alloc: &Allocation| {
            let node = state.node(alloc.node_id);
            alloc.client_status != ClientStatus::Unknown
                && node.is_some_and(|record| record.node.status == NodeStatus::Ready)
        };
        let all = state.allocs();
        let stale = all.filter(|it| !it.terminal() && is_canary(it) && over(it) && heard(it));
        let stale: Vec<AllocId> = stale.map(|alloc| alloc.id).collect();
        self.stale.retain(|id, _| stale.contains(id));
        for id in stale {
            let since = *self.stale.entry(id).or_insert(world.now);
            let lasts = world.now.saturating_sub(since).min(world.graced_for());
            if lasts > ENDS_WITHIN + world.clocks_apart() {
                let seconds = lasts / SECOND;
                let id = id.short();
                return Err(format!(
                    "canary {id} runs on {seconds} s after its deployment ended"
                ));
            }
        }
        Ok(())
    }
}

fn is_canary(alloc: &Allocation) -> bool {
    let status = alloc.deployment_status.as_ref();
    status.is_some_and(|status| status.canary)
}

fn within(after: &Snapshot, plan: &PlanApply, key: &JobKey) -> Result<(), String> {
    let (Some(job), Some(deployment)) = (after.job(key), after.latest_deployment(key)) else {
        return Ok(());
    };
    // A plan is judged by the state that it was made from.
    let moved = deployment.modify_index > plan.snapshot_index && plan.deployment.is_none();
    let trial = deployment.job_version == job.version
        && job.job_modify_index <= plan.snapshot_index
        && deployment.status.is_active();
    if !trial || moved || job.stop {
        return Ok(());
    }
    for (name, group) in &deployment.task_groups {
        if !group.awaits_promotion() {
            continue;
        }
        let live = after.allocs_by_job(key);
        let live = live.filter(|it| it.task_group == *name && !it.terminal());
        let heard = live.filter(|it| {
            it.client_status != ClientStatus::Unknown
                && !it.needs_reconnect()
                && it.job_version == job.version
                && it.job_create_index == job.create_index
        });
        let (canaries, others): (Vec<_>, Vec<_>) = heard.partition(|it| is_canary(it));
        if let Some(other) = others.first() {
            let id = other.id.short();
            return Err(format!("{key}: {id} is of the new version and no canary"));
        }
        if canaries.len() > CANARIES as usize {
            let count = canaries.len();
            return Err(format!("{key}: {count} canaries of {CANARIES}"));
        }
    }
    Ok(())
}
