//! Templates of a task that follow their sources: a change is waited for, rendered, acted upon.
//!
//! ```text
//!   started --> FollowTemplates
//!   TemplatesChanged --> Follower (wait, splay) --> RenderTemplates
//!   TemplatesRendered { changed } --> merge --> restart | scripts and signals | nothing
//!   ScriptEnded --> event; a failure kills the task where fail_on_error says so
//! ```
//!
//! Only a text that differs from its file counts. Nothing of this is journaled: another daemon
//! compares the files again.

mod follower;
mod merge;

use std::collections::BTreeSet;

use protocol_model::{ChangeScript, Task};

use super::{KillCause, Phase, RunContext, ShutdownDelay, TaskRunner, history};
use crate::effect::{ChangeScriptRun, Effect, PrepareTask, Rendering, TaskHook};
use crate::env::TaskWorld;
use crate::event::{RunEvent, ScriptEnd};
use crate::outbox::Outbox;
use crate::time::Now;
pub(super) use follower::Follower;
use merge::{Action, merge};

/// Nomad's words for a restart because of a template.
const RESTART_REASON: &str = "Template with change_mode restart re-rendered";

impl TaskRunner {
    /// How the next attempt treats a template's file: as Nomad, it stays as it is at a restart,
    /// unless the job says otherwise or a change is waited out.
    pub(super) fn rendering_at_start(&self, offset: usize, ctx: RunContext<'_>) -> Rendering {
        let again = self.restart_policy(ctx).render_templates == Some(true);
        if again || self.templates.is_stale(offset) {
            Rendering::Anew
        } else {
            Rendering::Kept
        }
    }

    /// The run is alive: its templates are followed from now on.
    pub(super) fn follow_templates(&mut self, ctx: RunContext<'_>, out: &mut Outbox) {
        let Some(task) = self.task_of(ctx) else {
            return;
        };
        self.templates.on_prepared();
        if task.templates.iter().all(|it| it.is_rendered_once()) {
            return;
        }
        let work = self.template_work(task, |_| Rendering::Kept, ctx);
        out.push(Effect::FollowTemplates(work));
    }

    /// Takes an event of templates in; returns every other one.
    pub(super) fn take_template_event(
        &mut self,
        event: RunEvent,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) -> Option<RunEvent> {
        match event {
            RunEvent::TemplatesChanged { offsets } => {
                self.on_templates_changed(&offsets, ctx, now);
            }
            RunEvent::TemplatesRendered { changed } => {
                self.on_templates_rendered(&changed, ctx, out, now);
            }
            RunEvent::ScriptEnded { offset, end } => {
                self.on_script_ended(offset, &end, ctx, out, now);
            }
            other => return Some(other),
        }
        None
    }

    fn on_templates_changed(&mut self, offsets: &BTreeSet<usize>, ctx: RunContext<'_>, now: Now) {
        if let Some(task) = self.task_of(ctx) {
            self.templates.on_changed(offsets, task, now.moment);
        }
    }

    /// Changes wait for a process that can be told of them.
    pub(super) fn on_templates_timeout(&mut self, ctx: RunContext<'_>, out: &mut Outbox, now: Now) {
        let seed = self.jitter_seed(ctx);
        let Some(task) = self.task_of(ctx).filter(|_| self.phase == Phase::Running) else {
            return;
        };
        self.templates.on_timeout(task, seed, now.moment);
        self.render_due(task, ctx, out);
    }

    /// The files are written: acts on the change, if the task still runs.
    fn on_templates_rendered(
        &mut self,
        changed: &BTreeSet<usize>,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let asked = self.templates.on_rendered();
        let Some(task) = self.task_of(ctx) else {
            return;
        };
        if !asked || self.phase != Phase::Running {
            return;
        }
        match merge(&task.templates, changed) {
            Action::Nothing => {}
            Action::Restart => {
                // It runs, so nothing refuses this.
                let _ = self.restart(RESTART_REASON, ctx, out, now);
                return;
            }
            Action::Tell { scripts, signals } => {
                for offset in scripts {
                    self.run_script(offset, task, ctx, out);
                }
                for signal in signals {
                    self.note(history::template_signal(&signal, now.wall));
                    let run = self.run();
                    out.push(Effect::SignalTask { run, signal });
                }
                self.persist(out);
            }
        }
        self.render_due(task, ctx, out);
    }

    fn on_script_ended(
        &mut self,
        offset: usize,
        end: &ScriptEnd,
        ctx: RunContext<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let Some(task) = self.task_of(ctx) else {
            return;
        };
        let Some(script) = script_of(task, offset) else {
            return;
        };
        let (command, args) = resolved(script, &TaskWorld::new(ctx, task));
        self.note(history::change_script(&command, &args, end, now.wall));
        self.persist(out);
        let failed = *end != ScriptEnd::Exited { code: 0 };
        if failed && script.fail_on_error == Some(true) {
            let cause = KillCause::ChangeScriptFailed;
            self.kill(cause, ShutdownDelay::Wait, ctx, out, now);
            self.persist(out);
        }
        if self.templates.end_script(offset) && self.phase == Phase::Running {
            self.run_script(offset, task, ctx, out);
        }
    }

    fn render_due(&mut self, task: &Task, ctx: RunContext<'_>, out: &mut Outbox) {
        let Some(due) = self.templates.begin_rendering() else {
            return;
        };
        let rendering = |offset: usize| {
            if due.contains(&offset) {
                Rendering::Anew
            } else {
                Rendering::Kept
            }
        };
        let work = self.template_work(task, rendering, ctx);
        out.push(Effect::RenderTemplates(work));
    }

    /// Runs a template's script, or, where it still runs, once more after its end: changes
    /// meanwhile are one.
    fn run_script(&mut self, offset: usize, task: &Task, ctx: RunContext<'_>, out: &mut Outbox) {
        let Some(script) = script_of(task, offset) else {
            return;
        };
        if !self.templates.begin_script(offset) {
            return;
        }
        let (command, args) = resolved(script, &TaskWorld::new(ctx, task));
        out.push(Effect::RunChangeScript(Box::new(ChangeScriptRun {
            run: self.run(),
            offset,
            command,
            args,
            timeout: script.timeout(),
        })));
    }

    /// The hook `Templates` alone, for a run that is alive.
    fn template_work(
        &self,
        task: &Task,
        rendering: impl Fn(usize) -> Rendering,
        ctx: RunContext<'_>,
    ) -> Box<PrepareTask> {
        let world = TaskWorld::new(ctx, task);
        Box::new(PrepareTask {
            run: self.run(),
            spec: ctx.spec.clone(),
            user: world.resolve(&task.user),
            hooks: vec![TaskHook::Templates],
            templates: world.templates(rendering),
            artifacts: Vec::new(),
            identities: world.identities(),
            dispatch_payload_file: None,
            environment: world.into_template_environment(),
        })
    }
}

fn script_of(task: &Task, offset: usize) -> Option<&ChangeScript> {
    task.templates.get(offset)?.change_script.as_ref()
}

/// The script's command and arguments as the task gets them.
fn resolved(script: &ChangeScript, world: &TaskWorld<'_>) -> (String, Vec<String>) {
    let command = script.command.as_deref().unwrap_or_default();
    let args = script.args.iter().map(|text| world.resolve(text));
    (world.resolve(command), args.collect())
}

#[cfg(test)]
mod tests;
