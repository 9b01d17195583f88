//! May a failed allocation be tried elsewhere, and when?

use std::time::Duration;

use protocol_model::{
    Allocation, DelayFunction, RescheduleEvent, ReschedulePolicy, RescheduleTracker, UnixNanos,
};

/// Attempts that a tracker remembers where the policy sets no number (as Nomad).
const EVENTS_MAX: usize = 5;

/// The answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Retry {
    /// Now.
    Now,
    /// Not before this time.
    At(UnixNanos),
    /// Never: the policy's attempts are used up, or there are none.
    Never,
}

/// When the failed allocation may be tried elsewhere.
///
/// Rule (Nomad, "reschedule" block): `attempts` within the sliding `interval`, unless `unlimited`;
/// the wait grows by the delay function up to `max_delay`, counted from the failure.
pub(crate) fn retry(alloc: &Allocation, policy: &ReschedulePolicy, now: UnixNanos) -> Retry {
    if alloc.desired_transition.should_force_reschedule() {
        return Retry::Now;
    }
    if !policy.is_enabled() {
        return Retry::Never;
    }
    let failed_at = failed_at(alloc);
    let events = alloc
        .reschedule_tracker
        .as_ref()
        .map_or(&[][..], |tracker| &tracker.events);
    if !policy.unlimited() {
        let within = events
            .iter()
            .filter(|event| failed_at.saturating_since(event.reschedule_time) < policy.interval())
            .count();
        if within >= policy.attempts() as usize {
            return Retry::Never;
        }
    }
    let at = failed_at.saturating_add(delay(policy, events, failed_at));
    if at <= now { Retry::Now } else { Retry::At(at) }
}

/// When an allocation failed: when its last task finished, or when the report came.
pub(crate) fn failed_at(alloc: &Allocation) -> UnixNanos {
    alloc.finished_at().unwrap_or(alloc.modify_time)
}

/// The tracker of the allocation that takes the place of `failed`.
pub(crate) fn next_tracker(
    failed: &Allocation,
    policy: &ReschedulePolicy,
    now: UnixNanos,
) -> RescheduleTracker {
    let mut tracker = failed.reschedule_tracker.clone().unwrap_or_default();
    let delay = delay(policy, &tracker.events, failed_at(failed));
    tracker.events.push(RescheduleEvent {
        reschedule_time: now,
        prev_alloc_id: failed.id,
        prev_node_id: failed.node_id,
        delay,
    });
    let keep = if policy.unlimited() {
        EVENTS_MAX
    } else {
        (policy.attempts() as usize).max(1)
    };
    let surplus = tracker.events.len().saturating_sub(keep.max(EVENTS_MAX));
    tracker.events.drain(..surplus);
    tracker
}

/// How long to wait after the failure, given the attempts so far.
fn delay(policy: &ReschedulePolicy, events: &[RescheduleEvent], failed_at: UnixNanos) -> Duration {
    let first = policy.delay();
    let Some(last) = events.last() else {
        return first;
    };
    let cap = |delay: Duration| {
        if policy.max_delay().is_zero() {
            delay
        } else {
            delay.min(policy.max_delay())
        }
    };
    let grown = match policy.delay_function().unwrap_or(DelayFunction::Constant) {
        DelayFunction::Constant => return first,
        DelayFunction::Exponential => last.delay.saturating_mul(2),
        DelayFunction::Fibonacci => match events {
            [.., before, last] => before.delay.saturating_add(last.delay),
            _ => last.delay,
        },
    };
    // One that ran well for longer than the longest wait begins anew.
    let at_cap = !policy.max_delay().is_zero() && grown > policy.max_delay();
    if at_cap && failed_at.saturating_since(last.reschedule_time) > policy.max_delay() {
        return first;
    }
    cap(grown.max(first))
}
