//! How allocations leave a draining node: the questions that the leader asks before it proposes,
//! and that `apply` asks again.
//!
//! | allocation | leaves |
//! |---|---|
//! | of a service: not running, or unhealthy | at once |
//! | of a service: running | in turn, as `migrate.max_parallel` allows |
//! | of a batch or sysbatch job | by itself; at the deadline without a successor |
//! | of a system job | when nothing else is left, unless ignored |
//!
//! At the deadline a service's allocation is stopped whether its successor has a node or not.
//! Nothing is marked while its node is silent: then the rules of silence hold.

use protocol_model::{
    Allocation, ClientStatus, DrainStrategy, HealthCheck, JobKey, JobType, NodeStatus, UnixNanos,
};

use crate::command::DrainMark;
use crate::record::NodeRecord;
use crate::tables::Tables;

/// When an allocation leaves its draining node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// As soon as its successor has a node.
    AtOnce,
    /// The same, as many at a time as its group allows.
    InTurn,
    /// At the deadline.
    AtDeadline,
    /// When nothing else is left.
    Last,
    /// It stays.
    Never,
}

impl Tables {
    /// When `alloc`, which is not terminal, leaves its node, which drains as `strategy` says.
    pub fn departure(&self, alloc: &Allocation, strategy: DrainStrategy) -> Departure {
        let job_type = self.job_of_alloc(alloc).map(|job| job.job_type);
        match job_type {
            Some(JobType::System) if strategy.ignore_system_jobs => Departure::Never,
            Some(JobType::System) => Departure::Last,
            Some(JobType::Batch | JobType::Sysbatch) => Departure::AtDeadline,
            Some(JobType::Service) | None if self.keeps_its_turn(alloc) => Departure::InTurn,
            Some(JobType::Service) | None => Departure::AtOnce,
        }
    }

    /// The mark that `alloc` gets at `now` by the drain of its node; in turn only if one is free
    /// ([`Self::drain_turns`]). `None` where it has that mark, or has to wait.
    pub fn drain_mark(
        &self,
        alloc: &Allocation,
        strategy: DrainStrategy,
        now: UnixNanos,
    ) -> Option<DrainMark> {
        let record = self.node(alloc.node_id)?;
        if alloc.terminal() || record.node.status != NodeStatus::Ready {
            return None;
        }
        let transition = &alloc.desired_transition;
        let overdue = strategy.is_overdue(now);
        let unmarked = !transition.should_migrate();
        match self.departure(alloc, strategy) {
            Departure::AtOnce | Departure::InTurn if overdue => {
                (!transition.should_force_stop()).then_some(DrainMark::ForceStop)
            }
            Departure::AtOnce | Departure::InTurn => unmarked.then_some(DrainMark::Migrate),
            Departure::AtDeadline => (overdue && !transition.ends_here()).then_some(DrainMark::End),
            Departure::Last => {
                (unmarked && self.only_system_is_left(record)).then_some(DrainMark::Migrate)
            }
            Departure::Never => None,
        }
    }

    /// How many running allocations of a group may be asked to leave their draining nodes now: as
    /// many as are healthy, on any node, above `count - migrate.max_parallel`.
    pub fn drain_turns(&self, key: &JobKey, group: &str) -> u32 {
        let Some(group) = self.job(key).and_then(|job| job.task_group(group)) else {
            return 0;
        };
        let parallel = group.migrate.as_ref().map_or(1, |it| it.max_parallel());
        let needed = group.count().saturating_sub(parallel);
        let members = self.allocs_by_job(key);
        let healthy = members.filter(|it| it.task_group == group.name && self.serves(it));
        let healthy = u32::try_from(healthy.count()).unwrap_or(u32::MAX);
        healthy.saturating_sub(needed)
    }

    /// Whether nothing is left on a draining node that has to leave it.
    pub fn drain_is_over(&self, record: &NodeRecord) -> bool {
        let Some(strategy) = record.node.drain_strategy else {
            return false;
        };
        self.allocs_on_node(record.node.id).all(|alloc| {
            self.has_left(record, alloc) || self.departure(alloc, strategy) == Departure::Never
        })
    }

    /// Whether only system jobs are left on a draining node.
    fn only_system_is_left(&self, record: &NodeRecord) -> bool {
        self.allocs_on_node(record.node.id).all(|alloc| {
            let job = self.job_of_alloc(alloc);
            self.has_left(record, alloc) || job.is_some_and(|it| it.job_type == JobType::System)
        })
    }

    /// Whether nothing of `alloc` runs on its node any more, as far as anyone can tell.
    fn has_left(&self, record: &NodeRecord, alloc: &Allocation) -> bool {
        let down = record.node.status == NodeStatus::Down;
        alloc.client_terminal() || (down && alloc.server_terminal() && !self.is_on_lease(alloc))
    }

    /// Whether others have to be healthy before `alloc` leaves. An allocation that was not judged
    /// yet may serve, and is judged soon. An allocation whose group the job dropped leaves anyway.
    fn keeps_its_turn(&self, alloc: &Allocation) -> bool {
        let wanted = self
            .job(&alloc.job_key())
            .is_some_and(|job| !job.stop && job.task_group(&alloc.task_group).is_some());
        wanted
            && alloc.client_status == ClientStatus::Running
            && health(alloc) != Some(false)
            && !self.is_open_canary(alloc)
    }

    /// Whether its group can rely on an allocation while others move: its node is heard, and it is
    /// healthy.
    fn serves(&self, alloc: &Allocation) -> bool {
        let node = self.node(alloc.node_id);
        node.is_some_and(|record| record.node.status == NodeStatus::Ready)
            && !alloc.terminal()
            && !alloc.desired_transition.should_migrate()
            && alloc.client_status == ClientStatus::Running
            && !self.is_open_canary(alloc)
            && health(alloc).unwrap_or_else(|| !self.is_judged(alloc))
    }

    /// Whether its node finds out whether an allocation is healthy.
    fn is_judged(&self, alloc: &Allocation) -> bool {
        let Some(group) = self.group_of_alloc(alloc) else {
            return false;
        };
        let check = if alloc.deployment_id.is_some() {
            group.update.as_ref().map(|update| update.health_check())
        } else {
            group.migrate.as_ref().map(|migrate| migrate.health_check())
        };
        matches!(
            check,
            Some(Ok(HealthCheck::Checks | HealthCheck::TaskStates))
        )
    }

    /// Whether it is a canary of a version that may be given up still: it is no substitute for what
    /// runs.
    fn is_open_canary(&self, alloc: &Allocation) -> bool {
        let is_canary = alloc.deployment_status.as_ref().is_some_and(|it| it.canary);
        let deployment = alloc.deployment_id.and_then(|id| self.deployment(id));
        let group = deployment.and_then(|it| it.task_groups.get(&alloc.task_group));
        is_canary && group.is_some_and(|group| !group.promoted)
    }
}

fn health(alloc: &Allocation) -> Option<bool> {
    alloc.deployment_status.as_ref().and_then(|it| it.healthy)
}
