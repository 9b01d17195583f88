//! Ten thousand allocations start at once, and the leader's own counters say what that cost the
//! log.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use super::super::fleet::look;
use super::super::fleet::nodesim::{CLASS, Nodesim};
use super::super::floor::Quantiles;
use super::super::row::Row;
use super::NAME;
use super::counters::Counters;
use super::exits::{self, Scattered};
use crate::cluster::servers::Servers;

/// The job of the storm.
pub(super) const JOB: &str = "storm";
/// Its allocations.
const ALLOCS: u32 = 10_000;
/// Allocations of it that are looked at one by one.
pub(super) const SAMPLES: usize = 200;
/// How long all of it may take.
const STORM_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Log bytes for each report, entries and bytes beside the reference's.
const GOAL_BYTES: f64 = 64.0;
const GOAL_BYTES_SHARE: f64 = 1.0 / 10.0;
const GOAL_ENTRIES_SHARE: f64 = 1.0 / 20.0;

/// What a storm came to.
#[derive(Debug)]
pub(super) struct Storm {
    pub(super) exits: Quantiles,
    took: Duration,
    log: Counters,
}

/// Starts everything, and ends tasks of other jobs meanwhile.
///
/// # Errors
/// If not all of it runs in time.
pub(super) fn measure(servers: &Servers, nodes: &mut Nodesim) -> anyhow::Result<Storm> {
    eprintln!("-- {ALLOCS} allocations start at once");
    let before = Counters::of(servers)?;
    let scattered = Scattered::start(servers, "stormy")?;
    let (begun, from) = (Instant::now(), exits::now()?);
    let (ends, until, took) = std::thread::scope(|scope| {
        let ending = scope.spawn(|| scattered.follow(servers));
        let took = start_all(servers, nodes, begun);
        let until = exits::now();
        let ends = ending.join().map_err(|_| anyhow::anyhow!("a panic"))?;
        anyhow::Ok((ends?, until?, took?))
    })?;
    let ends = exits::between(&ends, from, until);
    let after = Counters::of(servers)?;
    eprintln!(
        "   {} tasks ended meanwhile; seen last: {}",
        ends.len(),
        exits::slowest(&ends)
    );
    let exits = ends.into_iter().map(|(_, seen_after)| seen_after).collect();
    Ok(Storm {
        exits: Quantiles::of(exits).context("no samples")?,
        took,
        log: after.since(before)?,
    })
}

/// What the same storm costs a log where every batch is an entry of its own.
///
/// # Errors
/// If not all of it runs in time.
pub(super) fn not_merged(servers: &Servers, nodes: &mut Nodesim) -> anyhow::Result<Counters> {
    eprintln!("-- {ALLOCS} allocations start at once, nothing is merged");
    let before = Counters::of(servers)?;
    start_all(servers, nodes, Instant::now())?;
    Counters::of(servers)?.since(before)
}

fn start_all(servers: &Servers, nodes: &mut Nodesim, begun: Instant) -> anyhow::Result<Duration> {
    // Batch, so that nobody waits for the health of what started.
    let job = look::job("batch", JOB, ALLOCS as usize, &json!({}));
    let job = look::on_class(job, CLASS);
    servers.http()?.ask("PUT", "/v1/jobs", Some(&job))?.json()?;
    loop {
        let mut http = servers.http()?;
        let summary = http.get(&format!("/v1/job/{JOB}/summary"))?;
        let running = &summary["Summary"]["group"]["Running"];
        if running.as_u64() == Some(u64::from(ALLOCS)) {
            return Ok(begun.elapsed());
        }
        ensure!(
            begun.elapsed() < STORM_MAX,
            "{running} of {ALLOCS} allocations run after {STORM_MAX:?}: {}",
            nodes.tell("stats")?
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
        let below = |row: Row, goal: f64| Row {
            goal: Some(goal),
            met: Some(row.value <= goal),
            ..row
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
            below(
                row("log bytes for each report", update_bytes / reports, "B"),
                GOAL_BYTES,
            ),
            below(
                beside(
                    row("log bytes of reports", update_bytes, "B"),
                    reference_bytes,
                ),
                reference_bytes * GOAL_BYTES_SHARE,
            ),
            below(
                beside(
                    row("log entries of reports", update_entries, ""),
                    update_reports,
                ),
                update_reports * GOAL_ENTRIES_SHARE,
            ),
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
