//! A plan: how the job changes, what the scheduler would do, how to go on.

use std::collections::BTreeMap;

use protocol_api::jobs::{DiffType, JobPlan};
use protocol_model::{AllocationListStub, Job};

use super::columns::Columns;
use super::diff::DiffView;
use super::job::launch_at;
use super::placement;
use crate::find::{Length, shown};
use crate::output::Colour;
use crate::session::Clock;

/// Whether allocations would be made or ended; for a template, whether the template would change.
pub(crate) fn changes_something(plan: &JobPlan, job: &Job) -> bool {
    let groups = &plan.annotations.groups;
    if job.is_template() || groups.is_empty() {
        // A launch was tried, which is no change: the job counts.
        let diff = plan.diff.as_ref();
        return diff.is_some_and(|diff| diff.diff_type != DiffType::None);
    }
    groups.values().any(|updates| {
        updates.place
            + updates.migrate
            + updates.stop
            + updates.destructive_update
            + updates.canary
            + updates.reschedule_now
            > 0
    })
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
    pub(crate) fn plan(&self, answer: &JobPlan, job: &Job, clock: &Clock) -> String {
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
        text.push_str(&explanation(answer));
        text.push_str(&self.next_launch(answer, job, clock));
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

    /// When a periodic job would be launched first.
    fn next_launch(&self, answer: &JobPlan, job: &Job, clock: &Clock) -> String {
        let Some(next) = answer.next_periodic_launch else {
            return String::new();
        };
        let next = launch_at(job, next, clock);
        let line = format!("- If submitted now, next periodic launch would be at {next}.");
        format!("{}\n", self.colour.green(&line))
    }

    fn dry_run(&self, answer: &JobPlan) -> String {
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
        let annotations = &answer.annotations;
        let groups = annotations.groups.values();
        let canaries: u64 = groups.clone().map(|group| group.canary).sum();
        if canaries > 0 {
            text.push_str(&format!(
                "- {canaries} canaries are placed beside the older version\n"
            ));
        }
        let in_place: u64 = groups.map(|group| group.in_place_update).sum();
        if in_place > 0 {
            text.push_str(&format!("- {in_place} allocations are updated in place\n"));
        }
        let preempted = annotations.preempted.as_deref().unwrap_or_default();
        if !preempted.is_empty() {
            text.push_str(&format!("\n{}\n\n", self.colour.yellow("Preemptions:")));
            text.push_str(&preemptions(preempted));
        }
        text
    }
}

/// Preempted allocations that are listed one by one; of more, only numbers by job are shown.
const PREEMPTIONS_LISTED_MAX: usize = 10;

fn preemptions(preempted: &[AllocationListStub]) -> String {
    if preempted.len() <= PREEMPTIONS_LISTED_MAX {
        let mut table = Columns::new(&["Alloc ID", "Job ID", "Task Group"]);
        for alloc in preempted {
            let (id, job) = (alloc.id.to_string(), alloc.job_id.clone());
            table.row([shown(&id, Length::Short), job, alloc.task_group.clone()]);
        }
        return table.render();
    }
    let mut by_job: BTreeMap<&str, usize> = BTreeMap::new();
    for alloc in preempted {
        *by_job.entry(&alloc.job_id).or_default() += 1;
    }
    let mut table = Columns::new(&["Job ID", "Preemptions"]);
    for (job, count) in by_job {
        table.row([job.to_owned(), count.to_string()]);
    }
    table.render()
}

/// By group: how many nodes each reason rules out, and the nodes that come nearest.
fn explanation(answer: &JobPlan) -> String {
    let mut text = String::new();
    for (name, group) in &answer.explanation {
        if group.filtered.is_empty() && group.near_misses.is_empty() {
            continue;
        }
        text.push_str(&format!("- Task Group {name:?}:\n"));
        for filtered in &group.filtered {
            let nodes = placement::nodes(filtered.nodes);
            text.push_str(&format!("    {nodes} ruled out: {}\n", filtered.reason));
        }
        for miss in &group.near_misses {
            let missing = miss.missing.join(", ");
            text.push_str(&format!(
                "    near miss: node {}: {missing}\n",
                miss.node_name
            ));
        }
    }
    text
}
