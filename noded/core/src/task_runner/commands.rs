//! What is wished of a task from outside: its end, another run, a signal.

use protocol_model::TaskRunState;

use super::history;
use super::restart_policy::RestartTracker;
use super::{AfterStop, KillCause, Phase, RunContext, ShutdownDelay, TaskRefusal, TaskRunner};
use crate::effect::{Durability, Effect};
use crate::outbox::Outbox;
use crate::time::Now;

impl TaskRunner {
    /// Asks for the end of the task. Whatever is under way is ended; nothing new begins.
    pub(crate) fn kill(
        &mut self,
        cause: KillCause,
        delay: ShutdownDelay,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let wish = AfterStop::Die(cause);
        match self.phase {
            // It waits, for an earlier cause, and is to wait no longer.
            Phase::ShutdownDelay { cause, .. } if delay == ShutdownDelay::Skip => {
                return self.begin_stop(AfterStop::Die(cause), ctx, out, now);
            }
            Phase::Dead | Phase::ShutdownDelay { .. } => return,
            Phase::Stopping {
                after: AfterStop::Die(_),
            }
            | Phase::Preparing {
                stop: Some(AfterStop::Die(_)),
            }
            | Phase::Starting {
                stop: Some(AfterStop::Die(_)),
            } => return,
            Phase::Waiting
            | Phase::Delayed { .. }
            | Phase::Preparing { .. }
            | Phase::Starting { .. }
            | Phase::Running
            | Phase::Stopping {
                after: AfterStop::Restart,
            } => {}
        }
        if let Some(line) = cause.line(now.wall) {
            self.note(line);
        }
        match &mut self.phase {
            Phase::Waiting | Phase::Delayed { .. } => self.die_killed(cause, ctx, out, now),
            Phase::Preparing { stop } => {
                let earlier = stop.replace(stop.map_or(wish, |earlier| earlier.merge(wish)));
                self.cancel_preparation(earlier, out);
            }
            Phase::Starting { stop } => {
                *stop = Some(stop.map_or(wish, |earlier| earlier.merge(wish)));
            }
            Phase::Stopping { after } => *after = after.merge(wish),
            Phase::Running => self.begin_kill(cause, delay, ctx, out, now),
            Phase::ShutdownDelay { .. } | Phase::Dead => {}
        }
    }

    /// Hooks may wait for long; nobody wants their outcome any more. Asked for once.
    fn cancel_preparation(&self, earlier: Option<AfterStop>, out: &mut Outbox) {
        if earlier.is_none() {
            let run = self.run();
            out.push_after(Durability::Nothing, Effect::CancelPrepare { run });
        }
    }

    /// Asks for another run: the process is stopped and started again at once.
    ///
    /// # Errors
    /// Where there is no process to restart.
    pub(crate) fn restart(
        &mut self,
        reason: &str,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) -> Result<(), TaskRefusal> {
        match self.phase {
            Phase::Running => {}
            Phase::ShutdownDelay { .. } | Phase::Stopping { .. } => {
                return Err(TaskRefusal::Stopping);
            }
            Phase::Waiting
            | Phase::Delayed { .. }
            | Phase::Preparing { .. }
            | Phase::Starting { .. }
            | Phase::Dead => return Err(TaskRefusal::NotRunning),
        }
        self.note(history::restart_signaled(reason, now.wall));
        self.begin_stop(AfterStop::Restart, ctx, out, now);
        self.persist(out);
        Ok(())
    }

    /// Brings the task back to its start, dead or alive: it runs again once its stage permits it.
    pub(crate) fn revive(&mut self, reason: &str, ctx: RunContext<'_>, out: &mut Outbox, now: Now) {
        match &mut self.phase {
            Phase::Running => {
                self.note(history::restart_signaled(reason, now.wall));
                self.begin_stop(AfterStop::Restart, ctx, out, now);
            }
            Phase::Preparing { stop } => {
                let earlier = stop.replace(stop.unwrap_or(AfterStop::Restart));
                self.cancel_preparation(earlier, out);
            }
            Phase::Starting { stop } => *stop = Some(stop.unwrap_or(AfterStop::Restart)),
            Phase::Delayed { .. } => self.phase = Phase::Waiting,
            Phase::Dead => {
                self.note(history::restart_signaled(reason, now.wall));
                self.state.state = TaskRunState::Pending;
                self.state.failed = false;
                self.state.finished_at = None;
                self.restarts = RestartTracker::default();
                self.templates.forget();
                self.phase = Phase::Waiting;
            }
            Phase::Waiting | Phase::ShutdownDelay { .. } | Phase::Stopping { .. } => {}
        }
        self.persist(out);
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// Where there is no process.
    pub(crate) fn signal(
        &mut self,
        signal: &str,
        out: &mut Outbox,
        now: Now,
    ) -> Result<(), TaskRefusal> {
        if !self.has_process() {
            return Err(TaskRefusal::NotRunning);
        }
        self.note(history::signaling(signal, now.wall));
        out.push(Effect::SignalTask {
            run: self.run(),
            signal: signal.to_owned(),
        });
        Ok(())
    }
}
