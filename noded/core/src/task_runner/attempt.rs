//! One attempt to run a task: prepare, start, watch, stop, and what its end means.

use std::time::Duration;

use protocol_model::{Task, TaskRunState};

use super::restart_policy::{AttemptEnd, OnSuccess, Verdict};
use super::{AfterStop, KillCause, Phase, RunContext, ShutdownDelay, TaskRunner, history};
use crate::effect::{Effect, Hook, PrepareTask, StartTask};
use crate::env::TaskWorld;
use crate::event::{Exit, ExitStatus, Recovery, RunEvent};
use crate::journal::JournalRecord;
use crate::key::RunEpoch;
use crate::outbox::Outbox;
use crate::pseudo_random::{halves, mix};
use crate::time::Now;

/// The signal of drivers that run programs directly, where a job names none (Nomad's default).
const KILL_SIGNAL_DEFAULT: &str = "SIGINT";

impl TaskRunner {
    /// Begins an attempt. The caller has checked that the task's stage permits it.
    pub(crate) fn start(&mut self, ctx: RunContext<'_>, out: &mut Outbox, now: Now) {
        debug_assert!(
            self.may_start(),
            "{} starts while {:?}",
            self.name,
            self.phase
        );
        let Some(task) = self.task_of(ctx) else {
            self.setup_fails("the job has no such task any more", ctx, out, now);
            return;
        };
        if !ctx.settings.drivers.contains_key(&task.driver) {
            let message = format!("driver {:?} is not available on this node", task.driver);
            self.setup_fails(&message, ctx, out, now);
            return;
        }
        self.epoch = self.epoch.next();
        if self.prepared.is_empty() {
            self.note(history::setup(now.wall));
        }
        self.phase = Phase::Preparing { stop: None };
        out.journal(JournalRecord::Intent { run: self.run() });
        let world = TaskWorld::new(ctx, task);
        out.push(Effect::PrepareTask(Box::new(PrepareTask {
            run: self.run(),
            spec: ctx.spec.clone(),
            hooks: self.hooks(task, ctx),
            environment: world.environment().clone(),
            templates: world.templates(),
            dispatch_payload_file: world.dispatch_payload_file(),
        })));
    }

    /// Something happened to a run of this task.
    pub(crate) fn on_run_event(
        &mut self,
        epoch: RunEpoch,
        event: RunEvent,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        if epoch != self.epoch || self.strays.contains(&epoch) {
            self.on_stray(epoch, &event, out);
            return;
        }
        match (event, self.phase) {
            (RunEvent::Message { kind, message }, _) => {
                self.note(history::event(kind, &message, now.wall));
            }
            (RunEvent::Prepared { environment }, Phase::Preparing { stop }) => {
                self.on_prepared(environment, stop, ctx, out, now);
            }
            (
                RunEvent::PrepareFailed {
                    hook,
                    message,
                    recovery,
                },
                Phase::Preparing { stop },
            ) => {
                let text = format!("{}: {message}", hook.name());
                self.note(history::setup_failure(&text, now.wall));
                self.finish_attempt(end_of(recovery), stop, ctx, out, now);
            }
            (RunEvent::Started { pid, at }, Phase::Starting { stop }) => {
                self.on_started(pid, at, stop, ctx, out, now);
            }
            (RunEvent::StartFailed { message, recovery }, Phase::Starting { stop }) => {
                self.note(history::driver_failure(&message, now.wall));
                self.finish_attempt(end_of(recovery), stop, ctx, out, now);
            }
            (RunEvent::Exited(exit), Phase::Starting { stop }) => {
                self.on_exited(&exit, stop, ctx, out, now);
            }
            (RunEvent::Exited(exit), Phase::Running) => {
                self.on_exited(&exit, None, ctx, out, now);
            }
            (RunEvent::Exited(exit), Phase::ShutdownDelay { cause, .. }) => {
                self.on_exited(&exit, Some(AfterStop::Die(cause)), ctx, out, now);
            }
            (RunEvent::Exited(exit), Phase::Stopping { after }) => {
                self.on_exited(&exit, Some(after), ctx, out, now);
            }
            // A repeat of an end that is recorded already: keeper was not told yet.
            (
                RunEvent::Exited(_) | RunEvent::StartFailed { .. },
                Phase::Waiting | Phase::Delayed { .. } | Phase::Dead,
            ) if epoch != RunEpoch::default() => {
                out.push(Effect::ReleaseRun { run: self.run() });
            }
            // Late or repeated answers of a phase that is over.
            (
                RunEvent::Prepared { .. }
                | RunEvent::PrepareFailed { .. }
                | RunEvent::Started { .. }
                | RunEvent::StartFailed { .. }
                | RunEvent::Exited(_),
                _,
            ) => {}
        }
    }

    fn on_prepared(
        &mut self,
        template_environment: std::collections::BTreeMap<String, String>,
        stop: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.prepared
            .extend([Hook::TaskDirectory, Hook::DispatchPayload]);
        let Some(task) = self.task_of(ctx).filter(|_| stop.is_none()) else {
            self.finish_attempt(AttemptEnd::Failure, stop, ctx, out, now);
            return;
        };
        let mut world = TaskWorld::new(ctx, task);
        world.add(template_environment);
        self.phase = Phase::Starting { stop: None };
        out.push(Effect::StartTask(Box::new(StartTask {
            run: self.run(),
            spec: ctx.spec.clone(),
            driver: task.driver.clone(),
            config: world.resolve_config(&task.config),
            user: world.resolve(&task.user),
            environment: world.environment().clone(),
        })));
    }

    pub(super) fn on_started(
        &mut self,
        pid: u32,
        at: protocol_model::UnixNanos,
        stop: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.note(history::started(pid, at));
        self.state.state = TaskRunState::Running;
        self.state.started_at.get_or_insert(at);
        self.phase = Phase::Running;
        match stop {
            Some(AfterStop::Die(cause)) => {
                self.begin_kill(cause, ShutdownDelay::Skip, ctx, out, now);
            }
            Some(AfterStop::Restart) => self.begin_stop(AfterStop::Restart, ctx, out, now),
            None => {}
        }
        self.persist(out);
    }

    pub(super) fn on_exited(
        &mut self,
        exit: &Exit,
        stop: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.note(history::terminated(exit));
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
            Some(AfterStop::Die(cause)) => self.set_dead_killed(cause, now),
            Some(AfterStop::Restart) => {
                self.run_again(Duration::ZERO, "Restart was asked for", now);
            }
            None => self.apply_policy(end, ctx, now),
        }
        self.persist(out);
        out.push(Effect::ReleaseRun { run: self.run() });
    }

    fn apply_policy(&mut self, end: AttemptEnd, ctx: RunContext<'_>, now: Now) {
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

    /// The process runs and is to end: waits for `shutdown_delay` first, where the job has one.
    pub(super) fn begin_kill(
        &mut self,
        cause: KillCause,
        delay: ShutdownDelay,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let wait = self
            .task_of(ctx)
            .map_or(Duration::ZERO, |task| task.shutdown_delay);
        if delay == ShutdownDelay::Skip || wait.is_zero() {
            self.begin_stop(AfterStop::Die(cause), ctx, out, now);
            return;
        }
        self.note(history::shutdown_delay(wait, now.wall));
        self.phase = Phase::ShutdownDelay {
            until: now.moment.after(wait),
            cause,
        };
    }

    /// Asks keeper to end the process, with a deadline that keeper keeps by itself.
    pub(super) fn begin_stop(
        &mut self,
        after: AfterStop,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let task = self.task_of(ctx);
        let signal = task
            .map(|task| task.kill_signal.as_str())
            .filter(|signal| !signal.is_empty())
            .unwrap_or(KILL_SIGNAL_DEFAULT);
        let kill_after = task
            .map_or(Duration::ZERO, Task::kill_timeout)
            .min(ctx.settings.kill_timeout_max);
        self.note(history::killing(signal, kill_after, now.wall));
        self.phase = Phase::Stopping { after };
        // The end that follows must not look like a failure to the next daemon.
        self.persist(out);
        out.push(Effect::StopTask {
            run: self.run(),
            signal: signal.to_owned(),
            kill_after,
        });
    }

    /// A task without a process dies at once.
    pub(super) fn die_killed(&mut self, cause: KillCause, out: &mut Outbox, now: Now) {
        self.set_dead_killed(cause, now);
        self.persist(out);
    }

    fn set_dead_killed(&mut self, cause: KillCause, now: Now) {
        self.note(history::killed(now.wall));
        if cause.fails_task() {
            self.set_dead_failed(now);
            return;
        }
        self.phase = Phase::Dead;
        self.state.state = TaskRunState::Dead;
        self.state.finished_at = Some(now.wall);
    }

    fn set_dead_failed(&mut self, now: Now) {
        self.phase = Phase::Dead;
        self.state.state = TaskRunState::Dead;
        self.state.failed = true;
        self.state.finished_at = Some(now.wall);
    }

    /// The attempt fails before anything was asked for it.
    fn setup_fails(&mut self, message: &str, ctx: RunContext<'_>, out: &mut Outbox, now: Now) {
        self.note(history::setup_failure(message, now.wall));
        self.apply_policy(AttemptEnd::Hopeless, ctx, now);
        self.persist(out);
    }

    fn hooks(&self, task: &Task, ctx: RunContext<'_>) -> Vec<Hook> {
        let mut hooks = vec![Hook::Validate];
        if !self.prepared.contains(&Hook::TaskDirectory) {
            hooks.push(Hook::TaskDirectory);
        }
        hooks.push(Hook::Logs);
        let has_payload = task.dispatch_payload.is_some() && ctx.spec.job().payload.is_some();
        if has_payload && !self.prepared.contains(&Hook::DispatchPayload) {
            hooks.push(Hook::DispatchPayload);
        }
        if !task.templates.is_empty() {
            hooks.push(Hook::Templates);
        }
        hooks
    }

    /// Tasks of a node that fail together do not restart together.
    fn jitter_seed(&self, ctx: RunContext<'_>) -> u64 {
        let (low, high) = halves(self.alloc.as_bytes());
        let name = self
            .name
            .bytes()
            .fold(high, |seed, byte| mix(seed, u64::from(byte)));
        mix(halves(&ctx.settings.seed).0 ^ low, name)
    }
}

fn end_of(recovery: Recovery) -> AttemptEnd {
    match recovery {
        Recovery::Possible => AttemptEnd::Failure,
        Recovery::Hopeless => AttemptEnd::Hopeless,
    }
}
