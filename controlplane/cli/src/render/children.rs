//! Templates and the jobs that were launched from them.

use protocol_api::jobs::{ChildCounts, JobListStub};
use protocol_model::Job;

use super::columns::{Columns, pairs};
use super::job::head;
use crate::output::Colour;
use crate::session::Clock;

/// A parameterized job with its children.
pub(crate) fn parameterized(
    job: &Job,
    counts: ChildCounts,
    children: &[JobListStub],
    colour: Colour,
    clock: &Clock,
) -> String {
    let mut sections = vec![head(job, clock)];
    let mut section = |title: &str, body: String| {
        sections.push(format!("{}\n{body}", colour.bold(title)));
    };
    let takes = job.parameterized_job.clone().unwrap_or_default();
    let rules = pairs(&[
        ("Payload", takes.payload),
        ("Required Metadata", takes.meta_required.join(", ")),
        ("Optional Metadata", takes.meta_optional.join(", ")),
    ]);
    section("Parameterized Job", rules);
    section("Parameterized Job Summary", summary(counts));
    match launched(job, children) {
        Some(table) => section("Dispatched Jobs", table),
        None => {
            let none = "No dispatched instances of parameterized job found\n";
            sections.push(none.to_owned());
        }
    }
    sections.join("\n")
}

/// How many children are in which status.
pub(crate) fn summary(counts: ChildCounts) -> String {
    let mut table = Columns::new(&["Pending", "Running", "Dead"]);
    table.row([counts.pending, counts.running, counts.dead].map(|it| it.to_string()));
    table.render()
}

/// The children of `template` among `jobs`; `None` where there is none.
pub(crate) fn launched(template: &Job, jobs: &[JobListStub]) -> Option<String> {
    let mut table = Columns::new(&["ID", "Status"]);
    let mut any = false;
    for job in jobs.iter().filter(|job| job.parent_id == template.id) {
        any = true;
        table.row([job.id.clone(), job.status.as_str().to_owned()]);
    }
    any.then(|| table.render())
}
