//! Templates beyond one rendering: the wait for data that is missing, and what follows a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use noded_core::effect::{PrepareTask, Rendering};
use noded_core::event::RunEvent;
use noded_core::{Event, RunKey};
use noded_template::Dependency;
use protocol_model::{TaskEventKind, Template};
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::prepare::Failed;
use super::templates::{TaskTemplate, TemplateWork, TemplatesDone, Text};
use crate::input::Input;
use crate::template;

/// How long missing data is waited for before users hear of it (Nomad's).
const MISSING_AFTER: Duration = Duration::from_secs(3);
/// Dependencies that the event names (Nomad's).
const MISSING_NAMED_MAX: usize = 3;

/// Whether a text that differs from its file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Yes,
    No,
}

impl Executor {
    /// The hook of an attempt: renders, and waits for data that is missing until `cancel`.
    pub(super) async fn template_hook(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<String, String>, Failed> {
        let told = tokio::time::sleep(MISSING_AFTER);
        tokio::pin!(told);
        let mut is_told = false;
        let mut news = self.variables.news(&prepare.run);
        loop {
            news.borrow_and_update();
            let done = self.render_once(prepare, cancel).await?;
            if done.missing.is_empty() {
                return Ok(done.environment);
            }
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return Err(Failed::cancelled()),
                    () = &mut told, if !is_told => {
                        is_told = true;
                        self.say(&prepare.run, missing_text(&done.missing)).await;
                    }
                    // A stop drops the task's variables: the cancel is on its way.
                    changed = news.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => {
                            cancel.cancelled().await;
                            return Err(Failed::cancelled());
                        }
                    },
                }
            }
        }
    }

    /// Renders the templates of an attempt as far as their data is there.
    async fn render_once(
        self: &Arc<Self>,
        prepare: &Arc<PrepareTask>,
        cancel: &CancellationToken,
    ) -> Result<TemplatesDone, Failed> {
        let (own, of_work) = (Arc::clone(prepare), cancel.clone());
        let done = self
            .blocking(move |executor| {
                let task = own.spec.task(&own.run.task);
                let task = task.ok_or_else(|| Failed::hopeless("the job has no such task"))?;
                executor.templates(&TemplateWork {
                    prepare: &own,
                    task,
                    cancel: &of_work,
                })
            })
            .await;
        match cancel.is_cancelled() {
            true => Err(Failed::cancelled()),
            false => done,
        }
    }

    /// Follows the templates of a run from now on. Templates that an earlier noded rendered are
    /// compared with their files.
    pub(super) async fn follow_templates(
        self: &Arc<Self>,
        prepare: PrepareTask,
        cancel: &CancellationToken,
    ) -> Vec<Event> {
        let run = prepare.run.clone();
        let is_unknown = |executor: &Self, run: &RunKey, one: TaskTemplate<'_>| {
            !one.template.is_rendered_once() && !executor.watch.knows(run, one.prepared.offset)
        };
        let (mut offsets, mut events) = self
            .render_again(prepare, Writing::No, is_unknown, cancel)
            .await;
        self.watch.follow(&run);
        offsets.extend(self.variables.follow(&run));
        if !offsets.is_empty() {
            let event = RunEvent::TemplatesChanged { offsets };
            events.push(Event::Run { run, event });
        }
        events
    }

    /// Renders templates whose files changed, and writes the texts that differ.
    pub(super) async fn render_templates(
        self: &Arc<Self>,
        prepare: PrepareTask,
        cancel: &CancellationToken,
    ) -> Vec<Event> {
        let run = prepare.run.clone();
        let is_due =
            |_: &Self, _: &RunKey, one: TaskTemplate<'_>| one.prepared.rendering == Rendering::Anew;
        let (changed, mut events) = self
            .render_again(prepare, Writing::Yes, is_due, cancel)
            .await;
        let event = RunEvent::TemplatesRendered { changed };
        events.push(Event::Run { run, event });
        events
    }

    /// Renders the templates that `selects` selects. Returns those whose text differs from their
    /// file, and problems as events: the file stays as it is then.
    async fn render_again(
        self: &Arc<Self>,
        prepare: PrepareTask,
        writing: Writing,
        selects: impl Fn(&Self, &RunKey, TaskTemplate<'_>) -> bool + Send + 'static,
        cancel: &CancellationToken,
    ) -> (BTreeSet<usize>, Vec<Event>) {
        let cancel = cancel.clone();
        self.blocking(move |own| {
            let (mut differing, mut events) = (BTreeSet::new(), Vec::new());
            let Some(task) = prepare.spec.task(&prepare.run.task) else {
                return (differing, events);
            };
            let work = TemplateWork {
                prepare: &prepare,
                task,
                cancel: &cancel,
            };
            let mut environment = prepare.environment.clone();
            environment.extend(own.identities.variables(&prepare));
            for one in work.templates() {
                let mut text = own.text_before(&work, one);
                if selects(own, &prepare.run, one) {
                    match own.differing_text(&work, one, text.as_deref(), &environment, writing) {
                        Ok(None) => {}
                        Ok(Some(new)) => {
                            differing.insert(one.prepared.offset);
                            text = Some(new);
                        }
                        // An end interrupted it: the next attempt renders.
                        Err(_) if cancel.is_cancelled() => {}
                        Err(failed) => events.extend(own.stays(&prepare.run, one, &failed)),
                    }
                }
                environment.extend(variables_of(one.template, text.as_deref()));
            }
            (differing, events)
        })
        .await
    }

    /// Renders one template; the text, if it differs from the one before. Blocks.
    fn differing_text(
        &self,
        work: &TemplateWork<'_>,
        one: TaskTemplate<'_>,
        before: Option<&str>,
        environment: &BTreeMap<String, String>,
        writing: Writing,
    ) -> Result<Option<String>, Failed> {
        let text = match self.text_of(work, one, environment)? {
            Text::Rendered(text) => text,
            Text::Missing(missing) => return Err(one.hopeless(&missing_text(&missing))),
        };
        if before == Some(text.as_str()) {
            return Ok(None);
        }
        if writing == Writing::Yes {
            self.write(work, one, &text)?;
        }
        Ok(Some(text))
    }

    /// A template could not be rendered again. A file that is away is mentioned by the watch; an
    /// answer that no server has given yet renders the template once it comes.
    fn stays(&self, run: &RunKey, one: TaskTemplate<'_>, failed: &Failed) -> Option<Event> {
        let message = format!(
            "{}; the text that was rendered last stays",
            failed.message()
        );
        tracing::warn!(%run, "{message}");
        let offset = one.prepared.offset;
        let is_awaited =
            self.watch.lacks_a_file(run, offset) || self.variables.lacks_an_answer(run, offset);
        (!is_awaited).then(|| said(run, message))
    }

    /// Tells users of a run's templates.
    async fn say(&self, run: &RunKey, message: String) {
        // A loop that ended no longer wants to know.
        let _ = self.inputs.send(Input::Event(said(run, message))).await;
    }
}

fn said(run: &RunKey, message: String) -> Event {
    Event::Run {
        run: run.clone(),
        event: RunEvent::Progress {
            kind: TaskEventKind::Template,
            message,
        },
    }
}

/// The variables of a file with `env = true`. A line that is no variable fails the next
/// attempt.
fn variables_of(template: &Template, text: Option<&str>) -> BTreeMap<String, String> {
    let text = text.filter(|_| template.envvars());
    text.and_then(|text| template::environment_of(text).ok())
        .unwrap_or_default()
}

/// The data that is waited for, as Nomad names it.
fn missing_text(missing: &BTreeSet<Dependency>) -> String {
    let named: Vec<String> = missing
        .iter()
        .take(MISSING_NAMED_MAX)
        .map(ToString::to_string)
        .collect();
    let named = named.join(", ");
    match missing.len().saturating_sub(MISSING_NAMED_MAX) {
        0 => format!("Missing: {named}"),
        more => format!("Missing: {named}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use noded_template::VariableId;

    use super::*;

    #[test]
    fn three_missing_dependencies_are_named_at_most() {
        let variable = |path: &str| {
            Dependency::Variable(VariableId {
                path: path.to_owned(),
                namespace: "default".to_owned(),
                region: "global".to_owned(),
            })
        };
        let missing = |paths: &[&str]| missing_text(&paths.iter().map(|it| variable(it)).collect());
        let name = |path: &str| format!("nomad.var.block({path}@default.global)");
        assert_eq!(missing(&["a"]), format!("Missing: {}", name("a")));
        let three = format!("Missing: {}, {}, {}", name("a"), name("b"), name("c"));
        assert_eq!(missing(&["a", "b", "c"]), three);
        assert_eq!(
            missing(&["a", "b", "c", "d", "e"]),
            format!("{three}, and 2 more")
        );
    }
}
