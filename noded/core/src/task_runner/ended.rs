//! What the end of an attempt means: another one, or the end of the task.

use std::time::Duration;

use protocol_model::TaskRunState;

use super::restart_policy::{AttemptEnd, OnSuccess, Verdict};
use super::{AfterStop, KillCause, Phase, RunContext, TaskRunner, history};
use crate::effect::Effect;
use crate::event::{Exit, ExitStatus, Recovery};
use crate::outbox::Outbox;
use crate::pseudo_random::{halves, mix};
use crate::time::Now;

impl TaskRunner {
    pub(super) fn on_exited(
        &mut self,
        exit: &Exit,
        stop: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.note(history::terminated(exit));
        // No failure of the task's, and nothing to be tried again here.
        let stop = match stop {
            None | Some(AfterStop::Restart) if exit.lease_expired => {
                let cause = KillCause::LeaseExpired;
                if let Some(line) = cause.line(now.wall) {
                    self.note(line);
                }
                Some(AfterStop::Die(cause))
            }
            stop => stop,
        };
        let end = match exit.status {
            ExitStatus::Code(0) if !exit.oom_killed => AttemptEnd::Success,
            ExitStatus::Code(_) | ExitStatus::Signal(_) | ExitStatus::Unknown => {
                AttemptEnd::Failure
            }
        };
        self.finish_attempt(end, stop, ctx, out, now);
    }

    /// The attempt is over: records that, lets go of the run, and decides what comes next.
    pub(super) fn finish_attempt(
        &mut self,
        end: AttemptEnd,
        stop: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        match stop {
            Some(AfterStop::Die(cause)) => self.set_dead_killed(cause, ctx, now),
            Some(AfterStop::Restart) => {
                self.run_again(Duration::ZERO, "Restart was asked for", now);
            }
            None => self.apply_policy(end, ctx, now),
        }
        self.persist(out);
        out.push(Effect::ReleaseRun { run: self.run() });
    }

    pub(super) fn apply_policy(&mut self, end: AttemptEnd, ctx: RunContext<'_>, now: Now) {
        let policy = self.restart_policy(ctx);
        let on_success = self.task_of(ctx).map_or(OnSuccess::Finish, |task| {
            OnSuccess::of(ctx.spec.job().job_type, task)
        });
        let seed = self.jitter_seed(ctx);
        match self
            .restarts
            .on_end(end, on_success, &policy, seed, now.moment)
        {
            Verdict::Finished => {
                self.phase = Phase::Dead;
                self.state.state = TaskRunState::Dead;
                self.state.finished_at = Some(now.wall);
            }
            Verdict::Restart { delay, reason } => self.run_again(delay, &reason, now),
            Verdict::GiveUp { reason } => {
                self.note(history::not_restarting(&reason, now.wall));
                self.set_dead_failed(now);
            }
        }
    }

    pub(super) fn run_again(&mut self, delay: Duration, reason: &str, now: Now) {
        self.note(history::restarting(delay, reason, now.wall));
        self.state.state = TaskRunState::Pending;
        self.state.restarts = self.state.restarts.saturating_add(1);
        self.state.last_restart = Some(now.wall);
        self.phase = if delay.is_zero() {
            Phase::Waiting
        } else {
            Phase::Delayed {
                until: now.moment.after(delay),
            }
        };
    }

    pub(super) fn set_dead_failed(&mut self, now: Now) {
        self.phase = Phase::Dead;
        self.state.state = TaskRunState::Dead;
        self.state.failed = true;
        self.state.finished_at = Some(now.wall);
    }

    /// Tasks of a node that fail together do not restart together.
    pub(super) fn jitter_seed(&self, ctx: RunContext<'_>) -> u64 {
        let (low, high) = halves(self.alloc.as_bytes());
        let name = self
            .name
            .bytes()
            .fold(high, |seed, byte| mix(seed, u64::from(byte)));
        mix(halves(&ctx.settings.seed).0 ^ low, name)
    }
}

pub(super) fn end_of(recovery: Recovery) -> AttemptEnd {
    match recovery {
        Recovery::Possible | Recovery::Cancelled => AttemptEnd::Failure,
        Recovery::Hopeless => AttemptEnd::Hopeless,
    }
}
