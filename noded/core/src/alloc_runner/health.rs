//! Whether an allocation is healthy: what a deployment or a drain waits for.
//!
//! Healthy once every task that should run has run without a restart for `min_healthy_time`;
//! unhealthy when one fails, or at `healthy_deadline`. Decided once per deployment. Service checks
//! are not looked at: `health_check = "checks"` counts as `task_states`, as in Nomad where a group
//! has no checks.

use std::time::Duration;

use protocol_model::{HealthCheck, JobType, TaskRunState};

use super::Member;
use crate::alloc_spec::AllocSpec;
use crate::lifecycle::{Role, Stay};
use crate::time::{Moment, Now};

/// Watches one allocation until its health is decided.
#[derive(Clone, Debug)]
pub struct HealthTracker {
    watch: Option<Watch>,
}

#[derive(Clone, Debug)]
struct Watch {
    min_healthy_time: Duration,
    deadline: Moment,
    /// Since when everything has run without a restart, and how many there had been.
    steady: Option<(Moment, u64)>,
}

impl HealthTracker {
    /// Watches an allocation whose health someone waits for, unless it is known.
    pub(crate) fn new(spec: &AllocSpec, known: Option<bool>, now: Now) -> Self {
        let told = spec
            .alloc()
            .deployment_status
            .as_ref()
            .and_then(|status| status.healthy);
        let wanted = if known.or(told).is_some() {
            None
        } else {
            watched(spec)
        };
        let watch = wanted.map(|(min_healthy_time, healthy_deadline)| Watch {
            min_healthy_time,
            deadline: now.moment.after(healthy_deadline),
            steady: None,
        });
        Self { watch }
    }

    /// Looks at the tasks. Returns the health once it is decided, and watches no more.
    pub(crate) fn observe(&mut self, members: &[Member], now: Now) -> Option<bool> {
        let watch = self.watch.as_mut()?;
        let decision = watch.observe(members, now);
        if decision.is_some() {
            self.watch = None;
        }
        decision
    }

    /// When [`Self::observe`] is next due.
    pub(crate) fn poll_timeout(&self) -> Option<Moment> {
        let watch = self.watch.as_ref()?;
        let healthy_at = watch
            .steady
            .map(|(since, _)| since.after(watch.min_healthy_time));
        Some(healthy_at.map_or(watch.deadline, |at| at.min(watch.deadline)))
    }
}

impl Watch {
    fn observe(&mut self, members: &[Member], now: Now) -> Option<bool> {
        if members.iter().any(is_broken) {
            return Some(false);
        }
        let restarts = members.iter().map(|member| member.restarts).sum();
        self.steady = match self.steady {
            _ if !members.iter().all(is_steady) => None,
            Some((since, earlier)) if earlier == restarts => Some((since, earlier)),
            Some(_) | None => Some((now.moment, restarts)),
        };
        if let Some((since, _)) = self.steady
            && since.after(self.min_healthy_time) <= now.moment
        {
            return Some(true);
        }
        (self.deadline <= now.moment).then_some(false)
    }
}

/// The times to watch by, where someone waits for this allocation's health.
fn watched(spec: &AllocSpec) -> Option<(Duration, Duration)> {
    let group = spec.group();
    let (check, min_healthy_time, deadline) = if spec.alloc().deployment_id.is_some() {
        let update = group.update.as_ref()?;
        (
            update.health_check(),
            update.min_healthy_time(),
            update.healthy_deadline(),
        )
    } else if spec.job().job_type == JobType::Service {
        let migrate = group.migrate.as_ref()?;
        (
            migrate.health_check(),
            migrate.min_healthy_time(),
            migrate.healthy_deadline(),
        )
    } else {
        return None;
    };
    match check {
        Ok(HealthCheck::Manual) | Err(_) => None,
        Ok(HealthCheck::Checks | HealthCheck::TaskStates) => Some((min_healthy_time, deadline)),
    }
}

/// Whether a task is as it should be in a healthy allocation.
fn is_steady(member: &Member) -> bool {
    let running = member.facts.state == TaskRunState::Running;
    match member.facts.role {
        Role::Main | Role::Prestart(Stay::Sidecar) | Role::Poststart(Stay::Sidecar) => running,
        Role::Prestart(Stay::Ephemeral) | Role::Poststart(Stay::Ephemeral) => {
            member.facts.state == TaskRunState::Dead && !member.facts.failed
        }
        Role::Poststop => true,
    }
}

/// Whether a task makes the allocation unhealthy for good.
fn is_broken(member: &Member) -> bool {
    let ended = member.facts.state == TaskRunState::Dead && member.facts.role == Role::Main;
    member.facts.failed || ended
}

#[cfg(test)]
mod tests {
    use protocol_model::{AllocId, DeploymentId, UpdateStrategy};

    use super::*;
    use crate::lifecycle::TaskFacts;
    use crate::test_support::{alloc_of, at, job_with_tasks, task};

    fn tracker() -> HealthTracker {
        let mut job = job_with_tasks("web", vec![task("main")]);
        job.task_groups[0].update = Some(UpdateStrategy {
            health_check: Some("task_states".to_owned()),
            min_healthy_time: Some(Duration::from_secs(10)),
            healthy_deadline: Some(Duration::from_secs(60)),
            ..UpdateStrategy::default()
        });
        let mut alloc = alloc_of(&job, AllocId::from_u128(1));
        alloc.deployment_id = Some(DeploymentId::from_u128(2));
        let spec = AllocSpec::new(alloc, std::sync::Arc::new(job)).expect("fits");
        HealthTracker::new(&spec, None, at(0))
    }

    fn main_task(state: TaskRunState, restarts: u64, failed: bool) -> [Member; 1] {
        let facts = TaskFacts {
            role: Role::Main,
            state,
            failed,
        };
        [Member {
            name: "main".to_owned(),
            is_lead: false,
            restarts,
            facts,
        }]
    }

    #[test]
    fn running_long_enough_without_a_restart_is_healthy() {
        let mut tracker = tracker();
        assert_eq!(
            tracker.observe(&main_task(TaskRunState::Running, 0, false), at(1_000)),
            None
        );
        assert_eq!(tracker.poll_timeout(), Some(at(11_000).moment));
        assert_eq!(
            tracker.observe(&main_task(TaskRunState::Running, 1, false), at(9_000)),
            None
        );
        assert_eq!(
            tracker.observe(&main_task(TaskRunState::Running, 1, false), at(12_000)),
            None
        );
        let healthy = tracker.observe(&main_task(TaskRunState::Running, 1, false), at(19_000));
        assert_eq!(healthy, Some(true));
        assert_eq!(tracker.poll_timeout(), None);
    }

    #[test]
    fn a_failure_or_the_deadline_is_unhealthy() {
        let failed = tracker().observe(&main_task(TaskRunState::Dead, 0, true), at(1_000));
        assert_eq!(failed, Some(false));
        let late = tracker().observe(&main_task(TaskRunState::Pending, 0, false), at(60_000));
        assert_eq!(late, Some(false));
    }
}
