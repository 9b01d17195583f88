//! When an allocation that ended, and is wanted still, is placed anew.
//!
//! Failures (Nomad, "reschedule" block): `attempts` within the sliding `interval`, unless
//! `unlimited`; the wait grows by the delay function up to `max_delay`, counted from the failure.
//! Other ends, and failures of system jobs, have no number of attempts:
//!
//! ```text
//!   placed --ends--> placed at once --ends--> waits for `delay` --> placed --ends--> waits longer
//!      ^                                                              |
//!      +---------------- a new row: it ran for longer than the longest wait
//! ```

use std::borrow::Cow;
use std::time::Duration;

use protocol_model::{
    Allocation, ClientStatus, DelayFunction, JobType, RescheduleEvent, ReschedulePolicy,
    RescheduleTracker, TaskGroup, UnixNanos,
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

/// When an allocation that ended, and is wanted still, is placed anew. What failed in a group with
/// a policy is tried elsewhere as that allows; any other end waits for [`pause`].
pub(crate) fn retry(group: &TaskGroup, alloc: &Allocation, now: UnixNanos) -> Retry {
    if alloc.desired_transition.should_force_reschedule() {
        return Retry::Now;
    }
    let ended_at = alloc.ended_at();
    let wait = match counted_policy(group, alloc) {
        Some(policy) if !alloc.has_attempt_left(policy) => return Retry::Never,
        Some(policy) => delay(policy, events(alloc), ended_at),
        // An operator does not want to wait.
        None if alloc.desired_transition.should_migrate() => return Retry::Now,
        None => pause(group, alloc),
    };
    let at = ended_at.saturating_add(wait);
    if at <= now { Retry::Now } else { Retry::At(at) }
}

/// The policy that limits attempts: of failures, in groups that have one. System jobs have none.
fn counted_policy<'a>(group: &'a TaskGroup, alloc: &Allocation) -> Option<&'a ReschedulePolicy> {
    let failed = alloc.client_status == ClientStatus::Failed;
    group.reschedule_policy.as_ref().filter(|_| failed)
}

/// How long the successor of an allocation waits that ended without a counted failure: the first
/// of a row not at all, each further one for the policy's delay. There is no number of attempts.
fn pause(group: &TaskGroup, alloc: &Allocation) -> Duration {
    if begins_row(group, alloc) {
        return Duration::ZERO;
    }
    let policy = policy_of_ends(group);
    delay(&policy, events(alloc), alloc.ended_at())
}

/// Whether an end is the first of a row: nothing ended before it, or it ran for longer than the
/// longest wait. A silent node stops a group with a lease by itself, but no sooner than after that.
fn begins_row(group: &TaskGroup, alloc: &Allocation) -> bool {
    let Some(last) = events(alloc).last() else {
        return true;
    };
    let policy = policy_of_ends(group);
    let longest = policy.max_delay().max(policy.delay());
    let ran = alloc.ended_at().saturating_since(last.reschedule_time);
    ran > longest
        || group
            .stop_on_client_after()
            .is_some_and(|after| ran >= after)
}

/// The group's policy; a service's default where it has none, or none with a delay.
fn policy_of_ends(group: &TaskGroup) -> Cow<'_, ReschedulePolicy> {
    match &group.reschedule_policy {
        Some(policy) if !policy.delay().is_zero() => Cow::Borrowed(policy),
        Some(_) | None => {
            Cow::Owned(ReschedulePolicy::default_for(JobType::Service).unwrap_or_default())
        }
    }
}

fn events(alloc: &Allocation) -> &[RescheduleEvent] {
    let tracker = alloc.reschedule_tracker.as_ref();
    tracker.map_or(&[], |tracker| &tracker.events)
}

/// The tracker of the allocation that takes the place of `ended`.
pub(crate) fn next_tracker(
    group: &TaskGroup,
    ended: &Allocation,
    now: UnixNanos,
) -> RescheduleTracker {
    let mut tracker = ended.reschedule_tracker.clone().unwrap_or_default();
    let delay = match counted_policy(group, ended) {
        Some(policy) => delay(policy, &tracker.events, ended.ended_at()),
        None => pause(group, ended),
    };
    tracker.events.push(RescheduleEvent {
        reschedule_time: now,
        prev_alloc_id: ended.id,
        prev_node_id: ended.node_id,
        delay,
    });
    let keep = match &group.reschedule_policy {
        Some(policy) if !policy.unlimited() => (policy.attempts() as usize).max(1),
        Some(_) | None => EVENTS_MAX,
    };
    let surplus = tracker.events.len().saturating_sub(keep.max(EVENTS_MAX));
    tracker.events.drain(..surplus);
    tracker
}

/// How long to wait after the end, given the attempts so far.
fn delay(policy: &ReschedulePolicy, events: &[RescheduleEvent], ended_at: UnixNanos) -> Duration {
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
    if at_cap && ended_at.saturating_since(last.reschedule_time) > policy.max_delay() {
        return first;
    }
    cap(grown.max(first))
}
