//! Ten thousand allocations start at once, and the leader's own counters say what that cost the
//! log. Then as many again, several times, while tasks of other jobs end: an end is a longer report
//! than a start, and would be counted with them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use super::NAME;
use super::counters::Counters;
use super::exits::{self, Scattered};
use super::runner::Runner;
use hack_cluster::Cluster;

use crate::fleet::look;
use crate::fleet::nodesim::{CLASS, Nodesim};
use crate::floor::Beside;
use crate::http::Ask as _;
use crate::row::Row;

/// The job of the storm.
pub(super) const JOB: &str = "storm";
/// Storms with ends in them, whose jobs are called after it and their number: enough for a hundred
/// ends of each kind.
const STORMS_WITH_ENDS: usize = 3;
/// The allocations of each.
const ALLOCS: u32 = 10_000;
/// Allocations of it that are looked at one by one.
pub(super) const SAMPLES: usize = 200;
/// How long all of it may take.
const STORM_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From the first registration of a task that is to end until the storm: all of them run by then.
const LEAD: Duration = Duration::from_secs(10);
/// Log bytes for each report, entries and bytes beside the reference's.
const GOAL_BYTES: f64 = 64.0;
const GOAL_BYTES_SHARE: f64 = 1.0 / 10.0;
const GOAL_ENTRIES_SHARE: f64 = 1.0 / 20.0;

/// What a storm came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storm {
    pub(super) took: Duration,
    pub(super) log: Counters,
}

/// Starts everything.
///
/// # Errors
/// If not all of it runs in time.
pub(super) fn measure(servers: &Cluster, nodes: &mut Nodesim) -> anyhow::Result<Storm> {
    eprintln!("-- {ALLOCS} allocations start at once");
    let before = Counters::of(servers)?;
    let took = start_all(servers, nodes, JOB, Instant::now())?;
    let log = Counters::of(servers)?.since(before)?;
    Ok(Storm { took, log })
}

/// Ends of one kind that were seen during storms.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) runner: Runner,
    pub(super) seen_after: Vec<Duration>,
    /// How far into its storm the last was, as a share of all of it, where that is the least.
    pub(super) covered: f64,
}

/// What was seen during storms.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) ends: Vec<Ends>,
    /// The machine's own: how late a thread is woken, how long a durable write takes.
    pub(super) woken: Vec<Duration>,
    pub(super) durable: Vec<Duration>,
}

/// Starts everything several times more, and ends tasks of other jobs meanwhile, of each of these
/// kinds, over all of a storm that takes as long as `expected`.
///
/// # Errors
/// If not all of it runs in time, or some task does not end.
pub(super) fn with_ends(
    servers: &Cluster,
    nodes: &mut Nodesim,
    runners: &[Runner],
    expected: Duration,
    scratch: &Path,
) -> anyhow::Result<Seen> {
    let none = |runner: &Runner| Ends {
        runner: runner.clone(),
        seen_after: Vec::new(),
        covered: 1.0,
    };
    let mut seen = Seen {
        ends: runners.iter().map(none).collect(),
        woken: Vec::new(),
        durable: Vec::new(),
    };
    let gap = exits::gap(expected);
    for storm in 0..STORMS_WITH_ENDS {
        one_with_ends(servers, nodes, (storm, gap), scratch, &mut seen)?;
    }
    Ok(seen)
}

/// One of these storms; what runs of it is stopped in the end, so that the next one is no larger.
fn one_with_ends(
    servers: &Cluster,
    nodes: &mut Nodesim,
    (storm, gap): (usize, Duration),
    scratch: &Path,
    all: &mut Seen,
) -> anyhow::Result<()> {
    let count = exits::SCATTERED;
    eprintln!("-- storm {storm}: {count} tasks of each kind begin");
    let begins = Instant::now() + LEAD;
    let start = |ends: &Ends| Scattered::start(servers, &ends.runner, storm, begins, gap);
    let scattered: Vec<Scattered> = all.ends.iter().map(start).collect::<Result<_, _>>()?;
    ensure!(Instant::now() < begins, "they take longer than {LEAD:?}");
    let job = format!("{JOB}-{storm}");
    let (seen, from, until, took) = std::thread::scope(|scope| {
        let follow = |kind| scope.spawn(move || Scattered::follow(kind, servers));
        let ending: Vec<_> = scattered.iter().map(follow).collect();
        std::thread::sleep(begins.saturating_duration_since(Instant::now()));
        eprintln!("-- {ALLOCS} allocations start at once, and {gap:?} apart these tasks end");
        let beside = Beside::start(scratch)?;
        let (begun, from) = (Instant::now(), exits::now()?);
        let took = start_all(servers, nodes, &job, begun);
        let until = exits::now()?;
        let [woken, durable] = beside.stop()?;
        all.woken.extend(woken);
        all.durable.extend(durable);
        let mut seen = Vec::new();
        for kind in ending {
            seen.push(kind.join().map_err(|_| anyhow::anyhow!("a panic"))??);
        }
        anyhow::Ok((seen, from, until, took?))
    })?;
    for (ends, seen) in all.ends.iter_mut().zip(seen) {
        let within = exits::between(&seen, from, until);
        let (count, name) = (within.len(), ends.runner.name());
        eprintln!(
            "   {count} times {name} end in {:.2} s; seen last: {}",
            took.as_secs_f64(),
            exits::slowest(&within)
        );
        let last = within.iter().map(|(at, _)| *at).fold(0.0, f64::max);
        ends.covered = ends.covered.min(last / took.as_secs_f64());
        ends.seen_after
            .extend(within.into_iter().map(|(_, seen_after)| seen_after));
    }
    stop_all(servers, &job)
}

/// What the same storm costs a log where every batch is an entry of its own.
///
/// # Errors
/// If not all of it runs in time.
pub(super) fn not_merged(servers: &Cluster, nodes: &mut Nodesim) -> anyhow::Result<Counters> {
    eprintln!("-- nothing is merged");
    Ok(measure(servers, nodes)?.log)
}

fn start_all(
    servers: &Cluster,
    nodes: &mut Nodesim,
    id: &str,
    begun: Instant,
) -> anyhow::Result<Duration> {
    // Batch, so that nobody waits for the health of what started.
    let job = look::job("batch", id, ALLOCS as usize, &json!({}));
    let job = look::on_class(job, CLASS);
    servers.http()?.put("/v1/jobs", &job)?;
    let all = until_running(servers, id, ALLOCS, begun);
    all.with_context(|| match nodes.tell("stats") {
        Ok(stats) => stats.to_string(),
        Err(error) => format!("the simulated nodes tell nothing: {error:#}"),
    })?;
    Ok(begun.elapsed())
}

/// Stops all of a job, and waits until that is over.
fn stop_all(servers: &Cluster, id: &str) -> anyhow::Result<()> {
    let path = format!("/v1/job/{id}");
    servers.http()?.delete(&path)?;
    until_running(servers, id, 0, Instant::now())
}

/// Waits until so many allocations of a job run.
fn until_running(servers: &Cluster, id: &str, count: u32, begun: Instant) -> anyhow::Result<()> {
    loop {
        let http = servers.http()?;
        let summary = http.get(&format!("/v1/job/{id}/summary"))?;
        let running = &summary["Summary"]["group"]["Running"];
        if running.as_u64() == Some(u64::from(count)) {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < STORM_MAX,
            "{running} of {count} allocations run after {STORM_MAX:?}"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Storm {
    /// What it cost, beside reports of `reference_bytes` and an entry each, and beside the storm in
    /// which nothing was merged.
    pub(super) fn rows(&self, reference_bytes: f64, not_merged: Counters) -> Vec<Row> {
        let Counters {
            leader: _,
            bytes,
            update_entries,
            update_bytes,
            update_reports,
        } = self.log;
        let reports = update_reports.max(1.0);
        let row = |what: &str, value, unit| {
            let figure = format!("storm of {ALLOCS} starts, {what}");
            Row::new(NAME, figure, value, unit)
        };
        let beside = |row: Row, value| Row {
            rival: Some("reference shape"),
            rival_value: Some(value),
            ..row
        };
        let without = |row: Row, value| Row {
            rival: Some("not merged"),
            rival_value: Some(value),
            ..row
        };
        let reference_bytes = reference_bytes * reports;
        vec![
            row("submit to all running", self.took.as_secs_f64(), "s"),
            row("reports in the log", update_reports, ""),
            row("log bytes for each report", update_bytes / reports, "B").at_most(GOAL_BYTES),
            beside(
                row("log bytes of reports", update_bytes, "B"),
                reference_bytes,
            )
            .at_most(reference_bytes * GOAL_BYTES_SHARE),
            beside(
                row("log entries of reports", update_entries, ""),
                update_reports,
            )
            .at_most(update_reports * GOAL_ENTRIES_SHARE),
            without(
                row("log bytes of reports, merged", update_bytes, "B"),
                not_merged.update_bytes,
            ),
            without(
                row("log entries of reports, merged", update_entries, ""),
                not_merged.update_entries,
            ),
            row(
                "share of all bytes of the log",
                update_bytes / bytes.max(1.0) * 100.0,
                "%",
            ),
        ]
    }
}
