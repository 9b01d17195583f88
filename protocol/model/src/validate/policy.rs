//! Rules of the life policies: restart, reschedule, update, migrate, disconnect.

use std::time::Duration;

use crate::duration::format_go;
use crate::group::TaskGroup;
use crate::job::JobType;
use crate::policy::{
    DelayFunction, DisconnectStrategy, MigrateStrategy, ReschedulePolicy, RestartMode,
    RestartPolicy, UpdateStrategy,
};
use crate::validate::findings::Findings;

/// The shortest restart interval.
const RESTART_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// The shortest wait before a reschedule: each one costs an evaluation.
const RESCHEDULE_DELAY_MIN: Duration = Duration::from_secs(5);
/// The shortest wait of an unheard node before it stops a group. What it is told in answer to its
/// heartbeats is half a second old when all is well, and a silence of 2.6 s is borne everywhere
/// else: with less, groups that are well are stopped, or never start.
const STOP_ON_CLIENT_AFTER_MIN: Duration = Duration::from_secs(3);
/// The shortest reschedule interval.
const RESCHEDULE_INTERVAL_MIN: Duration = Duration::from_secs(15);

pub(super) fn check_group(job_type: JobType, group: &TaskGroup, findings: &mut Findings) {
    if let Some(restart) = &group.restart_policy {
        findings.at("restart", |findings| check_restart(restart, findings));
    }
    if let Some(reschedule) = &group.reschedule_policy {
        findings.at("reschedule", |findings| {
            check_reschedule(job_type, reschedule, findings);
        });
    }
    if let Some(update) = &group.update {
        findings.at("update", |findings| {
            check_update(job_type, update, findings);
            if job_type == JobType::Service {
                check_kill_timeouts(update, group, findings);
            }
        });
    }
    if let Some(migrate) = &group.migrate {
        findings.at("migrate", |findings| {
            check_migrate(job_type, migrate, findings);
        });
    }
    check_disconnect(job_type, group, findings);
}

/// A task's own policy. Nomad looks at the intervals of a group's only.
pub(super) fn check_task_restart(restart: &RestartPolicy, findings: &mut Findings) {
    let mode = findings.parse("mode", restart.mode());
    if restart.attempts() == 0 && mode == Some(RestartMode::Delay) {
        findings.refuse_hint(
            "no attempts, and mode delay: the task would wait for nothing",
            "mode = \"fail\" never restarts",
        );
    }
}

fn check_restart(restart: &RestartPolicy, findings: &mut Findings) {
    check_task_restart(restart, findings);
    let (attempts, delay, interval) = (restart.attempts(), restart.delay(), restart.interval());
    if interval < RESTART_INTERVAL_MIN {
        findings.refuse_at(
            "interval",
            format!(
                "must be at least {}, is {}",
                format_go(RESTART_INTERVAL_MIN),
                format_go(interval)
            ),
        );
    }
    if delay.saturating_mul(attempts) > interval {
        findings.refuse_hint(
            format!(
                "{attempts} attempts, {} apart, do not fit into an interval of {}",
                format_go(delay),
                format_go(interval)
            ),
            "make the interval longer, or the delay shorter",
        );
    }
}

fn check_reschedule(job_type: JobType, policy: &ReschedulePolicy, findings: &mut Findings) {
    if !policy.is_enabled() {
        return;
    }
    if job_type.is_per_node() {
        findings.refuse(format!("a {job_type} job has no other node to go to"));
        return;
    }
    if policy.unlimited() && policy.attempts() > 0 {
        findings.refuse_hint(
            format!(
                "attempts = {} and unlimited contradict each other",
                policy.attempts()
            ),
            "set unlimited = false to limit the attempts",
        );
        return;
    }
    let (delay, delay_max) = (policy.delay(), policy.max_delay());
    if delay < RESCHEDULE_DELAY_MIN {
        refuse_shorter("delay", delay, RESCHEDULE_DELAY_MIN, findings);
    }
    let Some(function) = findings.parse("delay_function", policy.delay_function()) else {
        return;
    };
    if function != DelayFunction::Constant && delay_max < delay.max(RESCHEDULE_DELAY_MIN) {
        refuse_shorter(
            "max_delay",
            delay_max,
            delay.max(RESCHEDULE_DELAY_MIN),
            findings,
        );
        return;
    }
    if policy.unlimited() {
        return;
    }
    let interval = policy.interval();
    if interval < RESCHEDULE_INTERVAL_MIN {
        refuse_shorter("interval", interval, RESCHEDULE_INTERVAL_MIN, findings);
        return;
    }
    let fitting = attempts_that_fit(policy, function);
    if fitting < policy.attempts() {
        findings.refuse_hint(
            format!(
                "{} attempts do not fit into an interval of {}, only {fitting} do",
                policy.attempts(),
                format_go(interval)
            ),
            "make the interval longer, or the delays shorter",
        );
    }
}

/// How many of the policy's attempts have started by the end of its interval.
fn attempts_that_fit(policy: &ReschedulePolicy, function: DelayFunction) -> u32 {
    let delay_max = match function {
        DelayFunction::Constant => policy.delay(),
        DelayFunction::Exponential | DelayFunction::Fibonacci => policy.max_delay(),
    };
    let (mut delay, mut before) = (policy.delay(), Duration::ZERO);
    let mut elapsed = Duration::ZERO;
    for attempt in 0..policy.attempts() {
        elapsed = elapsed.saturating_add(delay);
        if elapsed > policy.interval() || delay.is_zero() {
            return attempt;
        }
        let next = match function {
            DelayFunction::Constant => delay,
            DelayFunction::Exponential => delay.saturating_mul(2),
            DelayFunction::Fibonacci => delay.saturating_add(before),
        };
        before = delay;
        delay = next.min(delay_max);
    }
    policy.attempts()
}

fn refuse_shorter(field: &str, value: Duration, least: Duration, findings: &mut Findings) {
    let (value, least) = (format_go(value), format_go(least));
    findings.refuse_at(field, format!("must be at least {least}, is {value}"));
}

fn check_update(job_type: JobType, update: &UpdateStrategy, findings: &mut Findings) {
    if job_type.runs_to_completion() {
        findings.refuse_hint(
            format!("a {job_type} job is not updated while it runs"),
            "remove the update block of the group and of the job",
        );
        return;
    }
    findings.parse("health_check", update.health_check());
    // All at once and without a deployment: the rest has no meaning.
    if update.max_parallel() == 0 {
        return;
    }
    if update.auto_promote() && update.canary() == 0 {
        findings.refuse_hint("auto_promote needs canaries", "set canary to 1 or more");
    }
    if update.stagger().is_zero() {
        findings.refuse_at("stagger", "must be more than zero");
    }
    check_health_times(
        update.min_healthy_time(),
        update.healthy_deadline(),
        findings,
    );
    let progress = update.progress_deadline();
    if !progress.is_zero() && update.healthy_deadline() >= progress {
        findings.refuse_at(
            "progress_deadline",
            format!(
                "{} must be more than healthy_deadline ({}), or 0",
                format_go(progress),
                format_go(update.healthy_deadline())
            ),
        );
    }
}

/// A task that replaces another starts when that one has ended at the latest: with less time the
/// deployment could fail before anything of it runs.
fn check_kill_timeouts(update: &UpdateStrategy, group: &TaskGroup, findings: &mut Findings) {
    let progress = update.progress_deadline();
    if progress.is_zero() {
        return;
    }
    for task in &group.tasks {
        let kill_timeout = task.kill_timeout();
        if kill_timeout > progress {
            findings.at("progress_deadline", |findings| {
                findings.refuse_hint(
                    format!(
                        "{} is less than the kill_timeout of task {:?} ({})",
                        format_go(progress),
                        task.name,
                        format_go(kill_timeout)
                    ),
                    "set a longer progress_deadline, or 0, or a shorter kill_timeout",
                );
            });
        }
    }
}

fn check_health_times(least: Duration, deadline: Duration, findings: &mut Findings) {
    if deadline.is_zero() {
        findings.refuse_at("healthy_deadline", "must be more than zero");
    } else if least >= deadline {
        findings.refuse_at(
            "min_healthy_time",
            format!(
                "{} must be less than healthy_deadline ({})",
                format_go(least),
                format_go(deadline)
            ),
        );
    }
}

fn check_migrate(job_type: JobType, migrate: &MigrateStrategy, findings: &mut Findings) {
    if job_type != JobType::Service {
        findings.refuse(format!("only for service jobs, not {job_type} jobs"));
        return;
    }
    findings.parse("health_check", migrate.health_check());
    check_health_times(
        migrate.min_healthy_time(),
        migrate.healthy_deadline(),
        findings,
    );
}

fn check_disconnect(job_type: JobType, group: &TaskGroup, findings: &mut Findings) {
    let stops_itself = matches!(job_type, JobType::Service | JobType::Batch);
    if let Some(block) = &group.disconnect {
        findings.at("disconnect", |findings| {
            findings.parse("reconcile", block.reconcile());
            check_either_spelling(block, group, findings);
        });
    }
    if let Some(after) = group.stop_on_client_after() {
        let new = group.disconnect.as_ref();
        let new = new.is_some_and(|block| block.stop_on_client_after.is_some());
        let spelling = if new {
            "disconnect > stop_on_client_after"
        } else {
            "stop_after_client_disconnect"
        };
        if !stops_itself {
            let message = format!("only for service and batch jobs, not {job_type} jobs");
            findings.refuse_at(spelling, message);
        }
        if after < STOP_ON_CLIENT_AFTER_MIN {
            let least = format_go(STOP_ON_CLIENT_AFTER_MIN);
            let message = format!(
                "must be at least {least}, is {}: a few lost packets would stop the group, since \
                 a node hears half a second late that it is heard",
                format_go(after)
            );
            findings.refuse_at(spelling, message);
        }
    }
    if group.disconnect_window().is_some() && group.stop_on_client_after().is_some() {
        findings.refuse_hint(
            "waiting for a silent node (lost_after, max_client_disconnect) and having it stop the \
             group (stop_on_client_after, stop_after_client_disconnect) exclude each other",
            "keep one of them",
        );
    }
}

fn check_either_spelling(block: &DisconnectStrategy, group: &TaskGroup, findings: &mut Findings) {
    let pairs = [
        (
            block.lost_after.is_some() && group.max_client_disconnect.is_some(),
            "lost_after",
            "max_client_disconnect",
        ),
        (
            block.stop_on_client_after.is_some() && group.stop_after_client_disconnect.is_some(),
            "stop_on_client_after",
            "stop_after_client_disconnect",
        ),
        (
            group.prevent_reschedule_on_lost == Some(true),
            "replace",
            "prevent_reschedule_on_lost",
        ),
    ];
    for (both, new, old) in pairs {
        if both {
            findings.refuse_at(new, format!("is given twice: the group has {old} too"));
        }
    }
}
