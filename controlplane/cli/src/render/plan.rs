//! A plan: the difference of two job versions, what the scheduler would do, how to go on.
//!
//! ```text
//!   +/- Job: "web"
//!   +/- Task Group: "web" (2 create, 1 in-place update)
//!     +/- Count: "1" => "3" (forces create)
//!         Task: "server"
//! ```

use std::collections::BTreeMap;

use protocol_model::{AllocMetric, nullable};
use serde::Deserialize;

use super::placement;
use crate::output::Colour;

/// What the server answers.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct PlanAnswer {
    #[serde(default)]
    annotations: Option<Annotations>,
    #[serde(rename = "FailedTGAllocs", default, with = "nullable")]
    failed: BTreeMap<String, AllocMetric>,
    #[serde(default)]
    job_modify_index: u64,
    #[serde(default)]
    diff: Option<Difference>,
    #[serde(default)]
    pub(crate) warnings: String,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "DesiredTGUpdates", with = "nullable")]
    groups: BTreeMap<String, Updates>,
    #[serde(rename = "PreemptedAllocs", with = "nullable")]
    preempted: Vec<serde_json::Value>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Updates {
    place: u64,
    migrate: u64,
    stop: u64,
    in_place_update: u64,
    destructive_update: u64,
    canary: u64,
    reschedule_now: u64,
}

/// A job's, a group's, a task's or a block's difference: they are shown alike.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Difference {
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

impl PlanAnswer {
    /// Whether allocations would be made or ended.
    pub(crate) fn changes_something(&self) -> bool {
        let Some(annotations) = &self.annotations else {
            return self
                .diff
                .as_ref()
                .is_some_and(|diff| diff.kind != Kind::None);
        };
        annotations.groups.values().any(|updates| {
            updates.place
                + updates.migrate
                + updates.stop
                + updates.destructive_update
                + updates.canary
                + updates.reschedule_now
                > 0
        })
    }
}

/// How a plan is shown.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) colour: Colour,
    pub(crate) verbose: bool,
    /// The job file, as the user wrote its path.
    pub(crate) file: String,
}

impl View {
    /// The whole plan.
    pub(crate) fn plan(&self, answer: &PlanAnswer) -> String {
        let mut text = String::new();
        if let Some(diff) = &answer.diff {
            text.push_str(&self.job(diff));
            text.push('\n');
        }
        text.push_str(&format!("{}\n", self.colour.bold("Scheduler dry-run:")));
        text.push_str(&self.dry_run(answer));
        text.push('\n');
        let index = answer.job_modify_index;
        text.push_str(&self.colour.bold(&format!("Job Modify Index: {index}")));
        text.push_str(&format!(
            "\nTo submit the job with version verification run:\n\n\
             drover job run -check-index {index} {}\n\n\
             When running the job with the check-index flag, the job will only be run if the\n\
             job modify index given matches the server-side version\n",
            self.file
        ));
        text
    }

    fn dry_run(&self, answer: &PlanAnswer) -> String {
        let mut text = String::new();
        if answer.failed.is_empty() {
            let line = "- All tasks successfully allocated";
            text.push_str(&format!("{}\n", self.colour.green(line)));
        } else {
            let line = "- WARNING: Failed to place all allocations";
            text.push_str(&format!("{}\n", self.colour.yellow(line)));
            for line in placement::failures(&answer.failed).lines() {
                text.push_str(&format!("  {line}\n"));
            }
        }
        let in_place = answer.annotations.as_ref().map_or(0, |annotations| {
            annotations
                .groups
                .values()
                .map(|group| group.in_place_update)
                .sum::<u64>()
        });
        if in_place > 0 {
            text.push_str(&format!("- {in_place} allocations are updated in place\n"));
        }
        let preempted = answer
            .annotations
            .as_ref()
            .map_or(0, |annotations| annotations.preempted.len());
        if preempted > 0 {
            text.push_str(&format!("- {preempted} allocations would be preempted\n"));
        }
        text
    }

    fn job(&self, diff: &Difference) -> String {
        let mut text = self.head(diff.kind, 0, "Job", &diff.id, "");
        text.push_str(&self.body(diff, 2));
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
            text.push_str(&self.head(group.kind, 0, "Task Group", &group.name, &note));
            text.push_str(&self.body(group, 2));
            for task in &group.tasks {
                let note = annotated(&task.annotations);
                text.push_str(&self.head(task.kind, 2, "Task", &task.name, &note));
                if task.kind == Kind::Edited || self.verbose {
                    text.push_str(&self.body(task, 4));
                }
            }
            text.push('\n');
        }
        text
    }

    fn body(&self, diff: &Difference, indent: usize) -> String {
        let mut text = String::new();
        // Of what is new or gone, users know the content; of what was edited, they want to see it.
        for field in &diff.fields {
            if field.kind != Kind::None || self.verbose {
                text.push_str(&self.field(field, indent));
            }
        }
        for object in &diff.objects {
            if object.kind == Kind::None && !self.verbose {
                continue;
            }
            let (mark, space) = (self.mark(object.kind), " ".repeat(indent));
            text.push_str(&format!("{space}{mark}{} {{\n", object.name));
            text.push_str(&self.body(object, indent + 4));
            text.push_str(&format!("{space}    }}\n"));
        }
        text
    }

    fn head(&self, kind: Kind, indent: usize, what: &str, name: &str, note: &str) -> String {
        let (mark, space) = (self.mark(kind), " ".repeat(indent));
        let title = self.colour.bold(&format!("{what}: {name:?}"));
        format!("{space}{mark}{title}{note}\n")
    }

    fn field(&self, field: &Field, indent: usize) -> String {
        let (mark, space) = (self.mark(field.kind), " ".repeat(indent));
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

    /// Four characters wide, whatever it says.
    fn mark(&self, kind: Kind) -> String {
        match kind {
            Kind::None => "    ".to_owned(),
            Kind::Added => format!("{}   ", self.colour.green("+")),
            Kind::Deleted => format!("{}   ", self.colour.red("-")),
            Kind::Edited => format!("{} ", self.colour.yellow("+/-")),
        }
    }
}

fn annotated(annotations: &[String]) -> String {
    match annotations {
        [] => String::new(),
        some => format!(" ({})", some.join(", ")),
    }
}
