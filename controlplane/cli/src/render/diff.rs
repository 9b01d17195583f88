//! The difference of two versions of a job.
//!
//! ```text
//!   +/- Job: "web"
//!   +/- Task Group: "web" (2 create, 1 in-place update)
//!     +/- Count: "1" => "3" (forces create)
//!         Task: "server"
//! ```
//!
//! What is new or gone is named and not spelled out, unless everything is wanted: users know what
//! is in it. What was edited they want to see.

use std::collections::BTreeMap;

use protocol_model::nullable;
use serde::Deserialize;

use crate::output::Colour;

/// A job's, a group's, a task's or a block's difference: they are shown alike.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct JobDiff {
    #[serde(rename = "Type")]
    kind: Kind,
    #[serde(rename = "ID")]
    id: String,
    name: String,
    #[serde(with = "nullable")]
    fields: Vec<Field>,
    #[serde(with = "nullable")]
    objects: Vec<Self>,
    #[serde(with = "nullable")]
    task_groups: Vec<Self>,
    #[serde(with = "nullable")]
    tasks: Vec<Self>,
    #[serde(with = "nullable")]
    updates: BTreeMap<String, u64>,
    #[serde(with = "nullable")]
    annotations: Vec<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Field {
    #[serde(rename = "Type")]
    kind: Kind,
    name: String,
    old: String,
    new: String,
    #[serde(with = "nullable")]
    annotations: Vec<String>,
}

#[derive(Deserialize, Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    None,
    Added,
    Deleted,
    Edited,
}

impl JobDiff {
    /// Whether anything is different.
    pub(crate) fn changes_something(&self) -> bool {
        self.kind != Kind::None
    }
}

impl Kind {
    /// How many characters its mark takes, the space behind it included.
    fn width(self) -> usize {
        match self {
            Self::None => 0,
            Self::Added | Self::Deleted => 2,
            Self::Edited => 4,
        }
    }
}

/// How differences are shown.
#[derive(Debug)]
pub(crate) struct DiffView {
    pub(crate) colour: Colour,
    /// What is new or gone is spelled out, and what stays as it is is shown.
    pub(crate) verbose: bool,
}

impl DiffView {
    /// The difference, ended by a newline.
    pub(crate) fn job(&self, diff: &JobDiff) -> String {
        let mut text = self.head(diff.kind, (0, diff.kind.width()), "Job", &diff.id, "");
        text.push_str(&self.body(diff, 0));
        for group in &diff.task_groups {
            if group.kind == Kind::None && group.updates.is_empty() && !self.verbose {
                continue;
            }
            let updates: Vec<String> = group
                .updates
                .iter()
                .map(|(what, count)| format!("{count} {what}"))
                .collect();
            let note = match updates.is_empty() {
                true => String::new(),
                false => format!(" ({})", updates.join(", ")),
            };
            let place = (0, group.kind.width());
            text.push_str(&self.head(group.kind, place, "Task Group", &group.name, &note));
            text.push_str(&self.body(group, 2));
            let width = self.width(group);
            for task in &group.tasks {
                let note = annotated(&task.annotations);
                text.push_str(&self.head(task.kind, (2, width), "Task", &task.name, &note));
                text.push_str(&self.body(task, 4));
            }
        }
        text
    }

    /// How wide the marks are of what stands below each other in a body.
    fn width(&self, diff: &JobDiff) -> usize {
        let tasks = diff.tasks.iter().map(|task| task.kind);
        let mut inner: Vec<Kind> = tasks.collect();
        if self.spells_out(diff) {
            inner.extend(diff.fields.iter().map(|field| field.kind));
            inner.extend(diff.objects.iter().map(|object| object.kind));
        }
        inner.into_iter().map(Kind::width).max().unwrap_or(0)
    }

    fn spells_out(&self, diff: &JobDiff) -> bool {
        self.verbose || diff.kind == Kind::Edited
    }

    fn body(&self, diff: &JobDiff, indent: usize) -> String {
        if !self.spells_out(diff) {
            return String::new();
        }
        self.content(diff, indent, self.width(diff))
    }

    fn content(&self, diff: &JobDiff, indent: usize, width: usize) -> String {
        let mut text = String::new();
        for field in &diff.fields {
            if field.kind != Kind::None || self.verbose {
                text.push_str(&self.field(field, indent, width));
            }
        }
        for object in &diff.objects {
            if object.kind == Kind::None && !self.verbose {
                continue;
            }
            let (mark, space) = (self.mark(object.kind, width), " ".repeat(indent));
            text.push_str(&format!("{space}{mark}{} {{\n", object.name));
            // A block is short: what is new in it is spelled out too.
            text.push_str(&self.content(object, indent + width.max(2), self.width_of(object)));
            let pad = " ".repeat(width);
            text.push_str(&format!("{space}{pad}}}\n"));
        }
        text
    }

    /// As [`Self::width`], of a block: it is always spelled out.
    fn width_of(&self, diff: &JobDiff) -> usize {
        let fields = diff.fields.iter().map(|field| field.kind);
        let objects = diff.objects.iter().map(|object| object.kind);
        fields.chain(objects).map(Kind::width).max().unwrap_or(0)
    }

    fn head(
        &self,
        kind: Kind,
        (indent, width): (usize, usize),
        what: &str,
        name: &str,
        note: &str,
    ) -> String {
        let (mark, space) = (self.mark(kind, width), " ".repeat(indent));
        let title = self.colour.bold(&format!("{what}: {name:?}"));
        format!("{space}{mark}{title}{note}\n")
    }

    fn field(&self, field: &Field, indent: usize, width: usize) -> String {
        let (mark, space) = (self.mark(field.kind, width), " ".repeat(indent));
        let Field { name, old, new, .. } = field;
        let note = annotated(&field.annotations);
        let value = match field.kind {
            Kind::Added => format!("{new:?}"),
            Kind::Deleted => format!("{old:?}"),
            Kind::Edited => format!("{old:?} => {new:?}"),
            Kind::None => format!("{new:?}"),
        };
        format!("{space}{mark}{name}: {value}{note}\n")
    }

    /// The sign of a change, filled up to `width`.
    fn mark(&self, kind: Kind, width: usize) -> String {
        let sign = match kind {
            Kind::None => String::new(),
            Kind::Added => self.colour.green("+"),
            Kind::Deleted => self.colour.red("-"),
            Kind::Edited => self.colour.yellow("+/-"),
        };
        let shown = kind.width().saturating_sub(1);
        format!("{sign}{}", " ".repeat(width.saturating_sub(shown)))
    }
}

fn annotated(annotations: &[String]) -> String {
    match annotations {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    }
}
