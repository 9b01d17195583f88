//! Defaults of the life policies, per job type: what a group says wins over what its job says,
//! which wins over the defaults.

use std::time::Duration;

use crate::canonical::defaults;
use crate::job::JobType;
use crate::policy::{
    DisconnectStrategy, MigrateStrategy, ReschedulePolicy, RestartPolicy, UpdateStrategy,
};

impl RestartPolicy {
    /// The restart policy of a group that says nothing.
    pub fn default_for(job_type: JobType) -> Self {
        let (attempts, interval) = if job_type.runs_to_completion() {
            (
                defaults::BATCH_RESTART_ATTEMPTS,
                defaults::BATCH_RESTART_INTERVAL,
            )
        } else {
            (
                defaults::SERVICE_RESTART_ATTEMPTS,
                defaults::SERVICE_RESTART_INTERVAL,
            )
        };
        Self {
            attempts: Some(attempts),
            delay: Some(defaults::RESTART_DELAY),
            interval: Some(interval),
            mode: Some("fail".to_owned()),
            render_templates: Some(false),
        }
    }

    /// This policy, with what it leaves out taken from `base`.
    pub(super) fn over(self, base: &Self) -> Self {
        let Self {
            attempts,
            delay,
            interval,
            mode,
            render_templates,
        } = self;
        Self {
            attempts: attempts.or(base.attempts),
            delay: delay.or(base.delay),
            interval: interval.or(base.interval),
            mode: mode.or_else(|| base.mode.clone()),
            render_templates: render_templates.or(base.render_templates),
        }
    }
}

impl ReschedulePolicy {
    /// The reschedule policy of a group that says nothing. Jobs that run on every node have none:
    /// there is no other node to go to.
    pub fn default_for(job_type: JobType) -> Option<Self> {
        let policy = match job_type {
            JobType::Service => Self {
                attempts: Some(0),
                interval: Some(Duration::ZERO),
                delay: Some(defaults::SERVICE_RESCHEDULE_DELAY),
                delay_function: Some("exponential".to_owned()),
                max_delay: Some(defaults::SERVICE_RESCHEDULE_DELAY_MAX),
                unlimited: Some(true),
            },
            JobType::Batch => Self {
                attempts: Some(defaults::BATCH_RESCHEDULE_ATTEMPTS),
                interval: Some(defaults::BATCH_RESCHEDULE_INTERVAL),
                delay: Some(defaults::BATCH_RESCHEDULE_DELAY),
                delay_function: Some("constant".to_owned()),
                max_delay: Some(Duration::ZERO),
                unlimited: Some(false),
            },
            JobType::System | JobType::Sysbatch => return None,
        };
        Some(policy)
    }

    /// This policy, with what it leaves out taken from `base`.
    pub(super) fn over(self, base: &Self) -> Self {
        let Self {
            attempts,
            interval,
            delay,
            delay_function,
            max_delay,
            unlimited,
        } = self;
        Self {
            attempts: attempts.or(base.attempts),
            interval: interval.or(base.interval),
            delay: delay.or(base.delay),
            delay_function: delay_function.or_else(|| base.delay_function.clone()),
            max_delay: max_delay.or(base.max_delay),
            unlimited: unlimited.or(base.unlimited),
        }
    }
}

impl UpdateStrategy {
    /// The update strategy of a service that says nothing.
    pub fn default_for_service() -> Self {
        Self {
            stagger: Some(defaults::UPDATE_STAGGER),
            max_parallel: Some(defaults::UPDATE_MAX_PARALLEL),
            health_check: Some("checks".to_owned()),
            min_healthy_time: Some(defaults::MIN_HEALTHY_TIME),
            healthy_deadline: Some(defaults::HEALTHY_DEADLINE),
            progress_deadline: Some(defaults::PROGRESS_DEADLINE),
            canary: Some(0),
            auto_revert: Some(false),
            auto_promote: Some(false),
        }
    }

    /// This strategy, with what it leaves out taken from `base`.
    pub(super) fn over(self, base: &Self) -> Self {
        Self {
            stagger: self.stagger.or(base.stagger),
            max_parallel: self.max_parallel.or(base.max_parallel),
            health_check: self.health_check.or_else(|| base.health_check.clone()),
            min_healthy_time: self.min_healthy_time.or(base.min_healthy_time),
            healthy_deadline: self.healthy_deadline.or(base.healthy_deadline),
            progress_deadline: self.progress_deadline.or(base.progress_deadline),
            canary: self.canary.or(base.canary),
            auto_revert: self.auto_revert.or(base.auto_revert),
            auto_promote: self.auto_promote.or(base.auto_promote),
        }
    }
}

/// The job-level update strategy that groups inherit from.
///
/// A job that a server answered carries only `stagger` and `max_parallel` at this level; its empty
/// health check tells it from what a user wrote. Its zeros must not be inherited as wishes.
pub(super) fn job_update(
    job_type: JobType,
    written: Option<UpdateStrategy>,
) -> Option<UpdateStrategy> {
    match written {
        None if job_type == JobType::Service => Some(UpdateStrategy::default()),
        None => None,
        Some(remainder) if remainder.health_check.as_deref() == Some("") => {
            let empty = remainder.stagger().is_zero() && remainder.max_parallel() == 0;
            (!empty).then(|| UpdateStrategy {
                stagger: remainder.stagger,
                max_parallel: remainder.max_parallel,
                ..UpdateStrategy::default()
            })
        }
        Some(written) => Some(written),
    }
}

/// What stays at the job's level once the groups have inherited.
pub(super) fn job_update_remainder(inherited: Option<&UpdateStrategy>) -> UpdateStrategy {
    let (stagger, max_parallel) = match inherited {
        None => (Duration::ZERO, 0),
        Some(update) => (
            update.stagger.unwrap_or(defaults::UPDATE_STAGGER),
            update.max_parallel.unwrap_or(defaults::UPDATE_MAX_PARALLEL),
        ),
    };
    UpdateStrategy {
        stagger: Some(stagger),
        max_parallel: Some(max_parallel),
        health_check: Some(String::new()),
        min_healthy_time: Some(Duration::ZERO),
        healthy_deadline: Some(Duration::ZERO),
        progress_deadline: Some(Duration::ZERO),
        canary: Some(0),
        auto_revert: Some(false),
        auto_promote: Some(false),
    }
}

/// A group's update strategy.
pub(super) fn group_update(
    inherited: Option<&UpdateStrategy>,
    written: Option<UpdateStrategy>,
) -> Option<UpdateStrategy> {
    let merged = match (written, inherited) {
        (None, None) => return None,
        (Some(written), None) => written,
        (None, Some(inherited)) => inherited.clone(),
        (Some(written), Some(inherited)) => written.over(inherited),
    };
    Some(merged.over(&UpdateStrategy::default_for_service()))
}

/// A group's reschedule policy.
pub(super) fn group_reschedule(
    job_type: JobType,
    inherited: Option<&ReschedulePolicy>,
    written: Option<ReschedulePolicy>,
) -> Option<ReschedulePolicy> {
    let defaults = ReschedulePolicy::default_for(job_type);
    if defaults.is_none() && inherited.is_none() && written.is_none() {
        return None;
    }
    let nothing = ReschedulePolicy {
        attempts: Some(0),
        interval: Some(Duration::ZERO),
        delay: Some(Duration::ZERO),
        delay_function: Some(String::new()),
        max_delay: Some(Duration::ZERO),
        unlimited: Some(false),
    };
    let defaults = defaults.unwrap_or(nothing);
    let inherited = inherited.cloned().unwrap_or_default().over(&defaults);
    Some(written.unwrap_or_default().over(&inherited))
}

/// A group's migrate strategy. Only services have a default: nothing else waits for health when a
/// node drains.
pub(super) fn group_migrate(
    job_type: JobType,
    inherited: Option<&MigrateStrategy>,
    written: Option<MigrateStrategy>,
) -> Option<MigrateStrategy> {
    if job_type != JobType::Service && inherited.is_none() && written.is_none() {
        return None;
    }
    let base = inherited.cloned().unwrap_or_default();
    let written = written.unwrap_or_default();
    Some(MigrateStrategy {
        max_parallel: written
            .max_parallel
            .or(base.max_parallel)
            .or(Some(defaults::UPDATE_MAX_PARALLEL)),
        health_check: written
            .health_check
            .or(base.health_check)
            .or_else(|| Some("checks".to_owned())),
        min_healthy_time: written
            .min_healthy_time
            .or(base.min_healthy_time)
            .or(Some(defaults::MIN_HEALTHY_TIME)),
        healthy_deadline: written
            .healthy_deadline
            .or(base.healthy_deadline)
            .or(Some(defaults::HEALTHY_DEADLINE)),
    })
}

/// Fills in a group's disconnect block. No window is one of zero: Nomad writes `"LostAfter": 0`
/// where nothing was said.
pub(super) fn canonicalize_disconnect(disconnect: &mut DisconnectStrategy) {
    disconnect.lost_after = a_window(disconnect.lost_after);
    disconnect.replace.get_or_insert(true);
    disconnect
        .reconcile
        .get_or_insert_with(|| "best_score".to_owned());
}

/// A window of no length is none.
pub(super) fn a_window(written: Option<Duration>) -> Option<Duration> {
    written.filter(|window| !window.is_zero())
}
