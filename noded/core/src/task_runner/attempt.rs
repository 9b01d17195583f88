//! One attempt to run a task: prepare, start, watch.

use protocol_model::{Task, TaskRunState};

use super::ended::end_of;
use super::restart_policy::AttemptEnd;
use super::{AfterStop, Phase, RunContext, ShutdownDelay, TaskRunner, history};
use crate::effect::{Durability, Effect, PrepareTask, StartTask, TaskHook};
use crate::env::TaskWorld;
use crate::event::{Recovery, RunEvent};
use crate::identities::shown_identities;
use crate::journal::JournalRecord;
use crate::key::RunEpoch;
use crate::outbox::Outbox;
use crate::time::Now;

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
        // Does not wait for the intent: a run that the journal does not know of is begun again
        // under the same number, and what was prepared is all in the allocation's directories,
        // which the journal does know. The start waits.
        let prepare = Effect::PrepareTask(Box::new(PrepareTask {
            run: self.run(),
            spec: ctx.spec.clone(),
            user: world.resolve(&task.user),
            hooks: self.hooks(task, ctx),
            templates: world.templates(|offset| self.rendering_at_start(offset, ctx)),
            artifacts: world.artifacts(&self.fetched),
            identities: world.identities(),
            dispatch_payload_file: world.dispatch_payload_file(),
            environment: world.into_template_environment(),
        }));
        out.push_after(Durability::Nothing, prepare);
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
        let event = self
            .take_template_event(event, ctx, out, now)
            .and_then(|event| self.take_identity_event(event, ctx, out, now))
            .and_then(|event| self.take_word(event, out, now));
        let Some(event) = event else {
            return;
        };
        match (event, self.phase) {
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
                self.note_hook_failure(hook, &message, recovery, now);
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
                | RunEvent::Exited(_)
                | RunEvent::TemplatesChanged { .. }
                | RunEvent::TemplatesRendered { .. }
                | RunEvent::ScriptEnded { .. }
                | RunEvent::IdentitiesRenewed { .. }
                | RunEvent::Message { .. }
                | RunEvent::Progress { .. }
                | RunEvent::Fetched { .. },
                _,
            ) => {}
        }
    }

    fn note_hook_failure(&mut self, hook: TaskHook, message: &str, recovery: Recovery, now: Now) {
        if recovery != Recovery::Cancelled {
            self.note(history::hook_failure(hook, message, now.wall));
        }
    }

    /// Takes in what is true in every phase; hands back the rest.
    fn take_word(&mut self, event: RunEvent, out: &mut Outbox, now: Now) -> Option<RunEvent> {
        match event {
            RunEvent::Message { kind, message } => {
                self.note(history::event(kind, &message, now.wall));
                // The sender does not repeat it: a restarted daemon must still have it.
                self.persist(out);
            }
            RunEvent::Progress { kind, message } => {
                self.note_progress(history::progress(kind, &message, now.wall));
            }
            RunEvent::Fetched { artifact } => {
                if self.fetched.insert(artifact) {
                    self.persist(out);
                }
            }
            other => return Some(other),
        }
        None
    }

    fn on_prepared(
        &mut self,
        template_environment: std::collections::BTreeMap<String, String>,
        stop: Option<AfterStop>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        self.templates.on_prepared();
        self.prepared
            .extend([TaskHook::TaskDirectory, TaskHook::DispatchPayload]);
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
            network: world.network(ctx),
            volume_mounts: world.volume_mounts(),
            identities: world.identities(),
            environment: world.into_environment(),
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
        // Of the newest run, as Nomad's clients expect it.
        self.state.started_at = Some(at);
        self.phase = Phase::Running;
        match stop {
            Some(AfterStop::Die(cause)) => {
                self.begin_kill(cause, ShutdownDelay::Skip, ctx, out, now);
            }
            Some(AfterStop::Restart) => self.begin_stop(AfterStop::Restart, ctx, out, now),
            None => {
                self.follow_identities(ctx, out);
                self.follow_templates(ctx, out);
            }
        }
        self.persist(out);
    }

    /// The attempt fails before anything was asked for it.
    fn setup_fails(&mut self, message: &str, ctx: RunContext<'_>, out: &mut Outbox, now: Now) {
        self.note(history::setup_failure(message, now.wall));
        self.apply_policy(AttemptEnd::Hopeless, ctx, now);
        self.persist(out);
    }

    fn hooks(&self, task: &Task, ctx: RunContext<'_>) -> Vec<TaskHook> {
        let mut hooks = vec![TaskHook::Validate];
        if !self.prepared.contains(&TaskHook::TaskDirectory) {
            hooks.push(TaskHook::TaskDirectory);
        }
        hooks.push(TaskHook::Logs);
        let has_payload = task.dispatch_payload.is_some() && ctx.spec.job().payload.is_some();
        if has_payload && !self.prepared.contains(&TaskHook::DispatchPayload) {
            hooks.push(TaskHook::DispatchPayload);
        }
        if ctx.settings.has_task_api(&task.driver) {
            hooks.push(TaskHook::Api);
        }
        if shown_identities(task).next().is_some() {
            hooks.push(TaskHook::Identity);
        }
        if self.fetched.len() < task.artifacts.len() {
            hooks.push(TaskHook::Artifacts);
        }
        if !task.templates.is_empty() {
            hooks.push(TaskHook::Templates);
        }
        hooks
    }
}
