//! What the scheduler stops although its node is well and its job unchanged, it stops because there
//! are enough others: a job never ends with none because both of a pair were stopped.

use controlplane_state::command::Change;
use controlplane_state::{Command, Outcome};
use protocol_model::{ClientStatus, DesiredStatus, JobType, NodeStatus};

use super::{Invariant, Observation};
use crate::schedule::jobs::Kind;
use crate::world::World;

#[derive(Debug)]
pub(super) struct StopsLeaveEnough;

impl Invariant for StopsLeaveEnough {
    fn name(&self) -> &'static str {
        "stops_leave_enough"
    }

    fn source(&self) -> &'static str {
        "reconnect.md, Allocations of a silent node: a job never ends with none"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            before,
            after,
            command: Command::PlanApply(plan),
            applied,
        } = seen
        else {
            return Ok(());
        };
        if applied.outcome != Outcome::PlanApplied {
            return Ok(());
        }
        for change in &plan.changed {
            let Change::Stop { .. } = change.change else {
                continue;
            };
            let Some(alloc) = before.alloc(change.id) else {
                continue;
            };
            let well = before.node(alloc.node_id).is_some_and(|record| {
                record.node.status == NodeStatus::Ready && !record.node.drain
            });
            let Some(job) = before.job(&alloc.job_key()) else {
                continue;
            };
            let unchanged = job.version == alloc.job_version
                && job.create_index == alloc.job_create_index
                && !job.stop
                && job.job_type == JobType::Service;
            if !well || !unchanged || alloc.client_status != ClientStatus::Running {
                continue;
            }
            // Of two with one number one goes, however few there are: a rollout that failed fills
            // no other places.
            let twin = after.allocs_by_job(&alloc.job_key()).any(|it| {
                it.id != alloc.id
                    && it.index() == alloc.index()
                    && it.client_status != ClientStatus::Unknown
                    && !it.terminal()
            });
            if twin {
                continue;
            }
            let wanted = job.task_group(&alloc.task_group).map_or(0, |it| it.count());
            let left = after
                .allocs_by_job(&alloc.job_key())
                .filter(|it| {
                    // What ended after the plan's snapshot was there when it was decided, and what
                    // its node turned out not to have any more was wanted then.
                    let since = it.modify_index > plan.snapshot_index;
                    // Of a leased group one ends first, and is followed then: its node may have
                    // been drained when that was decided, and not be any more.
                    let ends_first = world.kind_of(it.id) == Some(Kind::Leased);
                    let wanted = it.desired_status == DesiredStatus::Run
                        || since && it.client_status == ClientStatus::Lost
                        || ends_first;
                    wanted && (since || !it.client_terminal())
                })
                .count();
            if left < wanted as usize {
                return Err(format!(
                    "{} is stopped and {left} of {wanted} are left",
                    alloc.id.short()
                ));
            }
        }
        Ok(())
    }
}
