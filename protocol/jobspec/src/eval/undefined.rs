//! Names that stay in the text and may be variables of a task: whether they are is known once the
//! task around them is read, `env` and templates included.

use crate::diagnostic::{Diagnostics, Source, Span};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Undefined names with their places, and the tasks that may define them.
#[derive(Debug, Default)]
pub(crate) struct Undefined {
    /// By start and end, so that a loop counts once: the whole name and its root.
    names: BTreeMap<(usize, usize), (String, String)>,
    tasks: Vec<Variables>,
}

/// What one task's `env` and templates define.
#[derive(Debug)]
struct Variables {
    task: Span,
    names: BTreeSet<String>,
    /// A template renders others.
    has_others: bool,
}

impl Undefined {
    pub(super) fn add(&mut self, span: &Span, name: &str, root: &str) {
        let names = (name.to_owned(), root.to_owned());
        self.names.insert((span.start, span.end), names);
    }

    /// Remembers what a task defines; `json` is the task as the API has it.
    pub(crate) fn add_task(&mut self, span: Span, json: &serde_json::Map<String, Json>) {
        let env = json.get("Env").and_then(Json::as_object);
        let templates = json.get("Templates").and_then(Json::as_array);
        let renders = |template: &Json| template["Envvars"] == Json::Bool(true);
        self.tasks.push(Variables {
            task: span,
            names: env
                .into_iter()
                .flat_map(|env| env.keys().cloned())
                .collect(),
            has_others: templates.is_some_and(|all| all.iter().any(renders)),
        });
    }

    /// Warns of the names that no task around them defines; outside of all tasks (in `locals`, say)
    /// any task may.
    pub(crate) fn report(&self, source: &Source, warnings: &mut Diagnostics) {
        for ((start, end), (name, root)) in &self.names {
            let encloses = |it: &&Variables| it.task.start <= *start && *end <= it.task.end;
            let is_inside = self.tasks.iter().any(|it| encloses(&it));
            let mut tasks = self.tasks.iter().filter(|it| !is_inside || encloses(it));
            if tasks.any(|it| it.has_others || it.names.contains(name)) {
                continue;
            }
            let message =
                format!("nothing defines `{root}`: it stays in the text as `${{{name}}}`");
            let hint = "a variable of this file is written `var.NAME`".to_owned();
            warnings.report(source, &(*start..*end), message, Some(hint));
        }
    }
}
