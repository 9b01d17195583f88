//! The restart policy: whether a task that ended runs again on this node, and when.
//!
//! Nomad's rules: up to `attempts` restarts within `interval`, each after `delay` plus up to a
//! quarter of it; beyond that `mode = "fail"` gives up and `mode = "delay"` waits for the next
//! interval. An end that is no failure counts only where the task is meant to go on for ever.

use std::time::Duration;

use protocol_model::{JobType, LifecycleHook, RestartMode, RestartPolicy, Task};
use serde::{Deserialize, Serialize};

use crate::pseudo_random::{mix, part_of};
use crate::time::Moment;

/// The share of the delay that jitter may add: one part in this many.
const JITTER_DIVISOR: u32 = 4;

/// What a task's history of restarts remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RestartTracker {
    /// Ends counted in the current interval.
    pub count: u32,
    /// When the interval began; `None` before the first end.
    pub interval_start: Option<Moment>,
    /// Ends counted ever: the position of the jitter.
    pub total: u64,
}

/// How an attempt ended, as the policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptEnd {
    /// The task exited with 0.
    Success,
    /// It failed, and may not another time.
    Failure,
    /// It cannot succeed.
    Hopeless,
}

/// Whether a task is to run for ever or to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnSuccess {
    /// A good end is the end.
    Finish,
    /// A good end is an end too many.
    Restart,
}

impl OnSuccess {
    /// What a good end means for `task` in a job of this type.
    pub fn of(job_type: JobType, task: &Task) -> Self {
        let restart = match task.hook() {
            Some(LifecycleHook::Poststop) => false,
            Some(LifecycleHook::Prestart | LifecycleHook::Poststart) => task
                .lifecycle
                .as_ref()
                .is_some_and(|lifecycle| lifecycle.sidecar),
            None => !job_type.runs_to_completion(),
        };
        if restart { Self::Restart } else { Self::Finish }
    }
}

/// What becomes of the task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has done its work.
    Finished,
    /// It runs again after the delay.
    Restart {
        /// The delay, jitter included.
        delay: Duration,
        /// Why, for people.
        reason: String,
    },
    /// It failed for good.
    GiveUp {
        /// Why, for people.
        reason: String,
    },
}

impl RestartTracker {
    /// Counts the end of an attempt and decides.
    pub fn on_end(
        &mut self,
        end: AttemptEnd,
        on_success: OnSuccess,
        policy: &RestartPolicy,
        seed: u64,
        now: Moment,
    ) -> Verdict {
        match (end, on_success) {
            (AttemptEnd::Success, OnSuccess::Finish) => return Verdict::Finished,
            (AttemptEnd::Hopeless, _) => {
                let reason = "The error will not go away by trying again".to_owned();
                return Verdict::GiveUp { reason };
            }
            (AttemptEnd::Success, OnSuccess::Restart) | (AttemptEnd::Failure, _) => {}
        }
        if policy.attempts() == 0 {
            let reason = "The restart policy allows no restarts".to_owned();
            return Verdict::GiveUp { reason };
        }
        let began = self.enter_interval(policy.interval(), now);
        self.count = self.count.saturating_add(1);
        self.total = self.total.saturating_add(1);
        if self.count <= policy.attempts() {
            let jitter = part_of(policy.delay() / JITTER_DIVISOR, mix(seed, self.total));
            let reason = "Restart within policy".to_owned();
            return Verdict::Restart {
                delay: policy.delay() + jitter,
                reason,
            };
        }
        match policy.mode() {
            Ok(RestartMode::Delay) => Verdict::Restart {
                delay: began.after(policy.interval()).since(now),
                reason: "The allowed attempts are used up: waiting for the next interval"
                    .to_owned(),
            },
            // A mode that does not parse was refused when the job was registered.
            Ok(RestartMode::Fail) | Err(_) => Verdict::GiveUp {
                reason: format!(
                    "Exceeded allowed attempts {} in interval {} and mode is \"fail\"",
                    policy.attempts(),
                    protocol_model::duration::format_go(policy.interval()),
                ),
            },
        }
    }

    /// The clock that the interval was measured by began anew: what was counted in it is over.
    pub(super) fn forget_interval(&mut self) {
        self.count = 0;
        self.interval_start = None;
    }

    /// Begins a new interval where the old one is over, or lies in the future (another boot).
    fn enter_interval(&mut self, interval: Duration, now: Moment) -> Moment {
        match self.interval_start {
            Some(began) if began <= now && now <= began.after(interval) => began,
            _ => {
                self.count = 0;
                self.interval_start = Some(now);
                now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(attempts: u32, mode: &str) -> RestartPolicy {
        RestartPolicy {
            attempts: Some(attempts),
            delay: Some(Duration::from_secs(15)),
            interval: Some(Duration::from_secs(1800)),
            mode: Some(mode.to_owned()),
            render_templates: None,
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn end(tracker: &mut RestartTracker, policy: &RestartPolicy, now: u64) -> Verdict {
        tracker.on_end(AttemptEnd::Failure, OnSuccess::Restart, policy, 1, at(now))
    }

    #[test]
    fn attempts_are_counted_within_the_interval_and_then_the_task_fails() {
        let (mut tracker, policy) = (RestartTracker::default(), policy(2, "fail"));
        for now in [10, 20] {
            let Verdict::Restart { delay, .. } = end(&mut tracker, &policy, now) else {
                panic!("restart {now} is within the policy");
            };
            assert!(delay >= Duration::from_secs(15));
            assert!(delay <= Duration::from_millis(18_750));
        }
        assert!(matches!(
            end(&mut tracker, &policy, 30),
            Verdict::GiveUp { .. }
        ));
    }

    #[test]
    fn a_new_interval_forgets_the_old_attempts() {
        let (mut tracker, policy) = (RestartTracker::default(), policy(1, "fail"));
        assert!(matches!(
            end(&mut tracker, &policy, 10),
            Verdict::Restart { .. }
        ));
        assert!(matches!(
            end(&mut tracker, &policy, 1811),
            Verdict::Restart { .. }
        ));
        assert!(matches!(
            end(&mut tracker, &policy, 1812),
            Verdict::GiveUp { .. }
        ));
    }

    #[test]
    fn mode_delay_waits_for_the_next_interval() {
        let (mut tracker, policy) = (RestartTracker::default(), policy(1, "delay"));
        assert!(matches!(
            end(&mut tracker, &policy, 100),
            Verdict::Restart { .. }
        ));
        let Verdict::Restart { delay, .. } = end(&mut tracker, &policy, 200) else {
            panic!("mode delay never gives up");
        };
        assert_eq!(delay, Duration::from_secs(1700));
    }

    #[test]
    fn a_policy_without_attempts_gives_up_at_once() {
        let (mut tracker, policy) = (RestartTracker::default(), policy(0, "delay"));
        assert!(matches!(
            end(&mut tracker, &policy, 1),
            Verdict::GiveUp { .. }
        ));
        let finished = tracker.on_end(AttemptEnd::Success, OnSuccess::Finish, &policy, 1, at(2));
        assert_eq!(finished, Verdict::Finished);
    }

    #[test]
    fn a_start_of_the_interval_after_a_reboot_lies_in_the_future_and_is_forgotten() {
        let mut tracker = RestartTracker {
            count: 9,
            interval_start: Some(at(5000)),
            total: 9,
        };
        assert!(matches!(
            end(&mut tracker, &policy(2, "fail"), 7),
            Verdict::Restart { .. }
        ));
        assert_eq!(tracker.count, 1);
    }

    #[test]
    fn only_tasks_that_are_to_go_on_restart_after_a_good_end() {
        let lifecycle = |hook: &str, sidecar| Task {
            lifecycle: Some(protocol_model::TaskLifecycle {
                hook: hook.to_owned(),
                sidecar,
            }),
            ..Task::default()
        };
        let main = Task::default();
        assert_eq!(OnSuccess::of(JobType::Service, &main), OnSuccess::Restart);
        assert_eq!(OnSuccess::of(JobType::Sysbatch, &main), OnSuccess::Finish);
        for hook in ["prestart", "poststart"] {
            let (ends, stays) = (lifecycle(hook, false), lifecycle(hook, true));
            assert_eq!(OnSuccess::of(JobType::Service, &ends), OnSuccess::Finish);
            assert_eq!(OnSuccess::of(JobType::Batch, &stays), OnSuccess::Restart);
        }
        let poststop = lifecycle("poststop", false);
        assert_eq!(
            OnSuccess::of(JobType::Service, &poststop),
            OnSuccess::Finish
        );
    }
}
