//! Jobs: the list, and one with what belongs to it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use protocol_api::jobs::{JobCounts, JobListStub};
use protocol_model::{AllocationListStub, Deployment, EvalStatus, Evaluation, Job, UnixNanos};

use super::columns::{Columns, pairs};
use super::eval::placement_failures;
use super::{deployment, placement, word};
use crate::find::{Length, shown};
use crate::output::Colour;
use crate::session::Clock;

/// Everything that is shown of one job.
#[derive(Debug)]
pub(crate) struct JobParts<'a> {
    pub(crate) job: &'a Job,
    pub(crate) counts: &'a JobCounts,
    pub(crate) deployment: Option<Deployment>,
    pub(crate) allocs: Vec<AllocationListStub>,
    pub(crate) evals: Vec<Evaluation>,
    /// The children of a periodic job.
    pub(crate) launched: Vec<JobListStub>,
    pub(crate) show_evals: bool,
    pub(crate) show_allocs: bool,
}

/// All jobs; the namespace only where there are several.
pub(crate) fn list(jobs: &[JobListStub], clock: &Clock) -> String {
    let Some(first) = jobs.first() else {
        return "No running jobs".to_owned();
    };
    let several = jobs.iter().any(|job| job.namespace != first.namespace);
    let mut heading = vec!["ID", "Type", "Priority", "Status", "Submit Date"];
    if several {
        heading.insert(1, "Namespace");
    }
    let mut table = Columns::new(&heading);
    for job in jobs {
        let mut cells = vec![
            job.id.clone(),
            kind(job),
            job.priority.to_string(),
            status(job.status.as_str(), job.stop),
            clock.date(job.submit_time),
        ];
        if several {
            cells.insert(1, job.namespace.clone());
        }
        table.row(cells);
    }
    table.render()
}

/// A job's type, and whether it is a template of others.
fn kind(job: &JobListStub) -> String {
    let periodic = if job.periodic { "/periodic" } else { "" };
    let parameterized = if job.parameterized_job {
        "/parameterized"
    } else {
        ""
    };
    format!("{}{periodic}{parameterized}", job.job_type)
}

fn status(word: &str, stopped: bool) -> String {
    if stopped {
        format!("{word} (stopped)")
    } else {
        word.to_owned()
    }
}

/// One job.
pub(crate) fn one(parts: &JobParts<'_>, length: Length, colour: Colour, clock: &Clock) -> String {
    let mut sections = vec![head(parts.job, clock)];
    let mut section = |title: &str, body: String| {
        sections.push(format!("{}\n{body}", colour.bold(title)));
    };
    // A template places nothing itself.
    let template = parts.job.is_periodic() && !parts.job.is_parameterized();
    if parts.show_allocs && template {
        section("Children Job Summary", children(parts.counts));
        section("Previously Launched Jobs", launched(&parts.launched));
    } else if parts.show_allocs {
        section("Summary", summary(parts.counts));
    }
    if parts.show_evals && !parts.evals.is_empty() {
        section("Evaluations", evaluations(&parts.evals, length));
    }
    if let Some(failed) = unplaced(&parts.evals) {
        section("Placement Failure", failed);
    }
    if let Some(later) = reschedules(parts, length, clock) {
        section("Future Rescheduling Attempts", later);
    }
    if let Some(deployment) = &parts.deployment {
        section("Latest Deployment", deployment::head(deployment, length));
        if let Some(regions) = deployment::regions(deployment, parts.job, length) {
            section("Multiregion Deployment", regions);
        }
        section("Deployed", deployment::groups(deployment, clock));
    }
    if parts.show_allocs && !template {
        section("Allocations", allocations(&parts.allocs, length, clock));
    }
    sections.join("\n")
}

pub(super) fn head(job: &Job, clock: &Clock) -> String {
    let mut rows = vec![
        ("ID", job.id.clone()),
        ("Name", job.name.clone()),
        ("Submit Date", clock.date(job.submit_time)),
        ("Type", job.job_type.to_string()),
        ("Priority", job.priority.to_string()),
        ("Datacenters", job.datacenters.join(",")),
        ("Namespace", job.namespace.clone()),
        ("Node Pool", job.node_pool.clone()),
        ("Status", status(job.status.as_str(), job.stop)),
        ("Periodic", job.is_periodic().to_string()),
        ("Parameterized", job.is_parameterized().to_string()),
    ];
    if job.is_periodic() && !job.is_parameterized() {
        rows.push(("Next Periodic Launch", next_launch(job, clock)));
    }
    pairs(&rows)
}

/// When a periodic job is launched next, in the time zone of its schedule.
pub(crate) fn next_launch(job: &Job, clock: &Clock) -> String {
    if job.stop {
        return "none (job stopped)".to_owned();
    }
    let Some(periodic) = job.periodic.as_ref().filter(|it| it.is_enabled()) else {
        return "none (periodic is disabled)".to_owned();
    };
    let schedule = match periodic.schedule() {
        Ok(schedule) => schedule,
        Err(error) => return format!("none ({error})"),
    };
    match schedule.next(clock.now) {
        Some(next) => launch_at(job, next, clock),
        None => "none (no such time is to come)".to_owned(),
    }
}

/// A launch time of a periodic job, in the time zone of its schedule.
pub(crate) fn launch_at(job: &Job, at: UnixNanos, clock: &Clock) -> String {
    let schedule = job.periodic.as_ref().and_then(|it| it.schedule().ok());
    let zone = schedule.map_or_else(|| clock.zone.clone(), |it| it.zone().clone());
    let zoned = Clock {
        now: clock.now,
        zone,
    };
    format!("{} ({})", zoned.date(at), clock.ahead(at))
}

fn children(counts: &JobCounts) -> String {
    let mut table = Columns::new(&["Pending", "Running", "Dead"]);
    let children = &counts.children;
    table.row([
        children.pending.to_string(),
        children.running.to_string(),
        children.dead.to_string(),
    ]);
    table.render()
}

/// The jobs that were launched from a periodic one, the oldest first.
fn launched(children: &[JobListStub]) -> String {
    if children.is_empty() {
        return "No instances of periodic job found".to_owned();
    }
    let mut table = Columns::new(&["ID", "Status"]);
    for child in children {
        table.row([child.id.clone(), status(child.status.as_str(), child.stop)]);
    }
    table.render()
}

fn summary(counts: &JobCounts) -> String {
    let mut table = Columns::new(&[
        "Task Group",
        "Queued",
        "Starting",
        "Running",
        "Failed",
        "Complete",
        "Lost",
        "Unknown",
    ]);
    for (name, group) in &counts.summary {
        table.row([
            name.clone(),
            group.queued.to_string(),
            group.starting.to_string(),
            group.running.to_string(),
            group.failed.to_string(),
            group.complete.to_string(),
            group.lost.to_string(),
            group.unknown.to_string(),
        ]);
    }
    table.render()
}

/// Evaluations, as lists of them show them.
pub(crate) fn evaluations(evals: &[Evaluation], length: Length) -> String {
    let mut table = Columns::new(&[
        "ID",
        "Priority",
        "Triggered By",
        "Status",
        "Placement Failures",
    ]);
    for eval in evals {
        table.row([
            shown(&eval.id.to_string(), length),
            eval.priority.to_string(),
            word(&eval.triggered_by),
            word(&eval.status),
            placement_failures(eval),
        ]);
    }
    table.render()
}

/// What the newest evaluation could not place, while something waits for room.
fn unplaced(evals: &[Evaluation]) -> Option<String> {
    let waits = evals.iter().any(|eval| eval.status == EvalStatus::Blocked);
    let newest = evals
        .iter()
        .filter(|eval| !eval.failed_tg_allocs.is_empty())
        .max_by_key(|eval| eval.create_index)?;
    waits.then(|| placement::failures(&newest.failed_tg_allocs))
}

/// When failed allocations are tried again, by group: the first of each.
fn reschedules(parts: &JobParts<'_>, length: Length, clock: &Clock) -> Option<String> {
    let mut first: BTreeMap<&str, (UnixNanos, &Evaluation)> = BTreeMap::new();
    for alloc in &parts.allocs {
        let follow_up = alloc
            .followup_eval_id
            .filter(|_| alloc.next_allocation.is_none());
        let eval = follow_up.and_then(|id| parts.evals.iter().find(|eval| eval.id == id));
        let waits = eval.filter(|eval| eval.status == EvalStatus::Pending);
        let Some((eval, at)) = waits.and_then(|eval| Some((eval, eval.wait_until?))) else {
            continue;
        };
        let known = first.entry(&alloc.task_group).or_insert((at, eval));
        if at < known.0 {
            *known = (at, eval);
        }
    }
    if first.is_empty() {
        return None;
    }
    let mut table = Columns::new(&["Task Group", "Eval ID", "Eval Time"]);
    for (group, (at, eval)) in first {
        table.row([
            group.to_owned(),
            shown(&eval.id.to_string(), length),
            clock.ahead(at),
        ]);
    }
    Some(table.render())
}

/// Allocations, the newest first.
pub(crate) fn allocations(allocs: &[AllocationListStub], length: Length, clock: &Clock) -> String {
    if allocs.is_empty() {
        return "No allocations placed\n".to_owned();
    }
    let mut heading = vec!["ID", "Node ID"];
    if length == Length::Whole {
        heading = vec!["ID", "Eval ID", "Node ID", "Node Name"];
    }
    heading.extend([
        "Task Group",
        "Version",
        "Desired",
        "Status",
        "Created",
        "Modified",
    ]);
    let mut table = Columns::new(&heading);
    let mut newest: Vec<&AllocationListStub> = allocs.iter().collect();
    newest.sort_by_key(|alloc| (Reverse(alloc.create_index), alloc.name.clone()));
    for alloc in newest {
        let mut cells = vec![shown(&alloc.id.to_string(), length)];
        if length == Length::Whole {
            cells.push(alloc.eval_id.to_string());
        }
        cells.push(shown(&alloc.node_id.to_string(), length));
        if length == Length::Whole {
            cells.push(alloc.node_name.clone());
        }
        cells.extend([
            alloc.task_group.clone(),
            alloc.job_version.to_string(),
            word(&alloc.desired_status),
            alloc.client_status.as_str().to_owned(),
            clock.past(alloc.create_time, length),
            clock.past(alloc.modify_time, length),
        ]);
        table.row(cells);
    }
    table.render()
}
