//! A plan: how the job changes, what the scheduler would do, how to go on.

use std::collections::BTreeMap;

use protocol_model::{AllocMetric, nullable};
use serde::Deserialize;

use super::diff::{DiffView, JobDiff};
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
    diff: Option<JobDiff>,
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

impl PlanAnswer {
    /// Whether allocations would be made or ended.
    pub(crate) fn changes_something(&self) -> bool {
        // What runs only at its time, or when it is dispatched, has none: there the job counts.
        let annotations = self.annotations.as_ref();
        let Some(annotations) = annotations.filter(|it| !it.groups.is_empty()) else {
            return self.diff.as_ref().is_some_and(JobDiff::changes_something);
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
            let view = DiffView {
                colour: self.colour,
                verbose: self.verbose,
            };
            text.push_str(&view.job(diff));
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
}
