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

use protocol_api::jobs::{DiffType, FieldDiff, GroupDiff, JobDiff, ObjectDiff, TaskDiff};

use crate::output::Colour;

/// The parts of a difference that are shown alike, of a job, a group, a task or a block.
#[derive(Clone, Copy)]
struct Level<'d> {
    kind: DiffType,
    fields: &'d [FieldDiff],
    objects: &'d [ObjectDiff],
    tasks: &'d [TaskDiff],
}

/// `Type => tasks` as a conversion to a [`Level`].
macro_rules! level_of {
    ($($diff:ident => $tasks:expr),+) => {
        $(impl<'d> From<&'d $diff> for Level<'d> {
            fn from(diff: &'d $diff) -> Self {
                let tasks: fn(&'d $diff) -> &'d [TaskDiff] = $tasks;
                Self {
                    kind: diff.diff_type,
                    fields: &diff.fields,
                    objects: &diff.objects,
                    tasks: tasks(diff),
                }
            }
        })+
    };
}

level_of! {
    JobDiff => |_| &[],
    GroupDiff => |group| &group.tasks,
    TaskDiff => |_| &[],
    ObjectDiff => |_| &[]
}

/// The characters that the mark of a change takes, the space behind it included.
fn mark_width(kind: DiffType) -> usize {
    match kind {
        DiffType::None => 0,
        DiffType::Added | DiffType::Deleted => 2,
        DiffType::Edited => 4,
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
        let mut text = self.head(
            diff.diff_type,
            (0, mark_width(diff.diff_type)),
            "Job",
            &diff.id,
            "",
        );
        text.push_str(&self.body(diff.into(), 0));
        for group in &diff.task_groups {
            if group.diff_type == DiffType::None && group.updates.is_empty() && !self.verbose {
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
            let place = (0, mark_width(group.diff_type));
            text.push_str(&self.head(group.diff_type, place, "Task Group", &group.name, &note));
            text.push_str(&self.body(group.into(), 2));
            let width = self.width(group.into());
            for task in &group.tasks {
                let note = annotated(&task.annotations);
                text.push_str(&self.head(task.diff_type, (2, width), "Task", &task.name, &note));
                text.push_str(&self.body(task.into(), 4));
            }
        }
        text
    }

    /// How wide the marks are of what stands below each other in a body.
    fn width(&self, diff: Level<'_>) -> usize {
        let tasks = diff.tasks.iter().map(|task| task.diff_type);
        let mut inner: Vec<DiffType> = tasks.collect();
        if self.spells_out(diff) {
            inner.extend(diff.fields.iter().map(|field| field.diff_type));
            inner.extend(diff.objects.iter().map(|object| object.diff_type));
        }
        inner.into_iter().map(mark_width).max().unwrap_or(0)
    }

    fn spells_out(&self, diff: Level<'_>) -> bool {
        self.verbose || diff.kind == DiffType::Edited
    }

    fn body(&self, diff: Level<'_>, indent: usize) -> String {
        if !self.spells_out(diff) {
            return String::new();
        }
        self.content(diff, indent, self.width(diff))
    }

    fn content(&self, diff: Level<'_>, indent: usize, width: usize) -> String {
        let mut text = String::new();
        for field in diff.fields {
            if field.diff_type != DiffType::None || self.verbose {
                text.push_str(&self.field(field, indent, width));
            }
        }
        for object in diff.objects {
            if object.diff_type == DiffType::None && !self.verbose {
                continue;
            }
            let (mark, space) = (self.mark(object.diff_type, width), " ".repeat(indent));
            text.push_str(&format!("{space}{mark}{} {{\n", object.name));
            // A block is short: what is new in it is spelled out too.
            text.push_str(&self.content(
                object.into(),
                indent + width.max(2),
                Self::width_of(object.into()),
            ));
            let pad = " ".repeat(width);
            text.push_str(&format!("{space}{pad}}}\n"));
        }
        text
    }

    /// As [`Self::width`], of a block: it is always spelled out.
    fn width_of(diff: Level<'_>) -> usize {
        let fields = diff.fields.iter().map(|field| field.diff_type);
        let objects = diff.objects.iter().map(|object| object.diff_type);
        fields.chain(objects).map(mark_width).max().unwrap_or(0)
    }

    fn head(
        &self,
        kind: DiffType,
        (indent, width): (usize, usize),
        what: &str,
        name: &str,
        note: &str,
    ) -> String {
        let (mark, space) = (self.mark(kind, width), " ".repeat(indent));
        let title = self.colour.bold(&format!("{what}: {name:?}"));
        format!("{space}{mark}{title}{note}\n")
    }

    fn field(&self, field: &FieldDiff, indent: usize, width: usize) -> String {
        let (mark, space) = (self.mark(field.diff_type, width), " ".repeat(indent));
        let FieldDiff { name, old, new, .. } = field;
        let note = annotated(&field.annotations);
        let value = match field.diff_type {
            DiffType::Added => format!("{new:?}"),
            DiffType::Deleted => format!("{old:?}"),
            DiffType::Edited => format!("{old:?} => {new:?}"),
            DiffType::None => format!("{new:?}"),
        };
        format!("{space}{mark}{name}: {value}{note}\n")
    }

    /// The sign of a change, filled up to `width`.
    fn mark(&self, kind: DiffType, width: usize) -> String {
        let sign = match kind {
            DiffType::None => String::new(),
            DiffType::Added => self.colour.green("+"),
            DiffType::Deleted => self.colour.red("-"),
            DiffType::Edited => self.colour.yellow("+/-"),
        };
        let shown = mark_width(kind).saturating_sub(1);
        format!("{sign}{}", " ".repeat(width.saturating_sub(shown)))
    }
}

fn annotated(annotations: &[String]) -> String {
    match annotations {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    }
}
