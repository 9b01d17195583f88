//! Suite `updates`: three servers, a thousand simulated nodes, and what ten thousand allocations
//! that start at once cost the log, beside the same reports in the reference's shape; and how long
//! the end of a task takes until it is seen, while nothing else happens and during such storms.
//!
//! Ends are those of a real node's processes, by which the promise is judged, and beside them those
//! of simulated nodes, which tell what keeper and the node's journal have to do with it.

mod counters;
mod exits;
mod reference;
mod runner;
mod storm;

use std::time::Duration;

use anyhow::Context;
use clap::ArgMatches;
use hack_cluster::{Cluster, Node, Settings};

use self::counters::Counters;
use self::runner::Runner;
use self::storm::Ends;
use super::Suite;
use crate::Bench;
use crate::fleet::nodesim::{Fleet, Nodesim};
use crate::fleet::{self, look};
use crate::floor::Quantiles;
use crate::http::wait;
use crate::row::Row;

/// The name on the command line and in every row.
const NAME: &str = "updates";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "ten thousand starts at once: what they cost the log; a task's end to its sight",
    options: |command| command,
    run,
};
const NODES: usize = 1000;
/// Nodes beside them whose tasks' ends are timed. They have a process of their own, as real nodes
/// have processors of their own: what is timed would else wait for a thousand others to start what
/// is theirs.
const TIMED: Fleet = Fleet {
    nodes: 8,
    class: "timed",
    seed: 8,
    nice: 0,
};
const SERVERS: usize = 3;
const PROGRAMS: &[&str] = &[
    "controlplane",
    "nodesim",
    "noded",
    "noded-jail",
    "noded-keeper",
];
/// Ends of tasks of each kind that are timed while nothing else happens.
const QUIET_EXITS: usize = 200;
/// From an end to its sight, at the 99th percentile.
const GOAL_MS: f64 = 50.0;
/// Of fewer ends the 99th percentile is the slowest: storms must be long enough for more.
const STORM_EXITS_MIN: f64 = 100.0;
/// A storm's last part may have no ends in it: the gap between two, and the time until a storm is
/// seen to be over.
const COVERED_MIN_PERCENT: f64 = 90.0;
const QUIET: &str = "while nothing else happens";
const STORMY: &str = "during storms";

/// Measures the disk's floor and, unless only that was asked for, everything else.
///
/// # Errors
/// If something cannot be measured.
fn run(bench: &Bench, _: &ArgMatches, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let Some(durable) = fleet::begin(bench, NAME, PROGRAMS, rows)? else {
        return Ok(());
    };
    eprintln!(
        "-- {SERVERS} servers, {NODES} nodes, {} and a real one beside them",
        TIMED.nodes
    );
    let settings = Settings {
        node_lines: format!("node_class = \"{}\"\n", runner::REAL_CLASS),
        ..bench.settings(SERVERS)
    };
    let servers = wait(Cluster::start(settings))?;
    let (mut nodes, _) = Nodesim::start(&servers, Fleet::only(NODES))?;
    let (timed, _) = Nodesim::start(&servers, TIMED)?;
    let (real, mut runners) = start_real(&servers, rows)?;
    runners.push(Runner::Imitated);
    let all = NODES + TIMED.nodes + usize::from(real.is_some());
    look::all_ready(&servers, all).context("wait for all nodes")?;
    for runner in &runners {
        let whose = runner.name();
        eprintln!("-- {QUIET_EXITS} times {whose} end, one after the other");
        let quiet = exits::of_count(&servers, runner, QUIET_EXITS)?;
        rows.extend(exit_rows(QUIET, runner, &quiet, &durable));
    }
    let storm = storm::measure(&servers, &mut nodes)?;
    let reference = reference::measure(&servers, storm::SAMPLES)?;
    let seen = storm::with_ends(&servers, &mut nodes, &runners, storm.took, &bench.scratch)?;
    rows.extend(floor_rows("a thread is woken late by", seen.woken)?);
    rows.extend(floor_rows("write 4 KiB and fdatasync", seen.durable)?);
    for ends in seen.ends {
        rows.extend(count_rows(&ends)?);
        let seen = Quantiles::of(ends.seen_after).context("no task ended during a storm")?;
        rows.extend(exit_rows(STORMY, &ends.runner, &seen, &durable));
    }
    drop((real, nodes, timed));
    drop(servers);
    let not_merged = not_merged(bench)?;
    rows.extend(storm.rows(reference, not_merged));
    Ok(())
}

/// A real node, and what its tasks are known by. A host that cannot have one measures the rest.
fn start_real(
    servers: &Cluster,
    rows: &mut Vec<Row>,
) -> anyhow::Result<(Option<Node>, Vec<Runner>)> {
    let folder = servers.folder().join("ends");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let runner = Runner::Real(folder);
    match wait(Node::start(servers)) {
        Ok(node) => Ok((Some(node), vec![runner])),
        Err(error) => {
            let why = format!("no real node can run here: {error:#}");
            let missing = |when| Row::not_measured(NAME, figure(&runner, when, "p99"), &why);
            rows.extend([QUIET, STORMY].map(missing));
            Ok((None, Vec::new()))
        }
    }
}

/// The storm on servers of its own, which merge nothing.
fn not_merged(bench: &Bench) -> anyhow::Result<Counters> {
    let settings = bench.settings(SERVERS).with("merge_updates = false");
    let servers = wait(Cluster::start(settings))?;
    let (mut nodes, _) = Nodesim::start(&servers, Fleet::only(NODES))?;
    look::all_ready(&servers, NODES)?;
    storm::not_merged(&servers, &mut nodes)
}

fn figure(runner: &Runner, when: &str, what: &str) -> String {
    format!("{} end to its sight, {when}, {what}", runner.name())
}

fn exit_rows(when: &str, runner: &Runner, exits: &Quantiles, durable: &Quantiles) -> [Row; 3] {
    let Quantiles { p50, p99, max } = *exits;
    let row = |what: &str, value| Row {
        floor_value: Some(millis(durable.p50)),
        ..Row::new(NAME, figure(runner, when, what), millis(value), "ms")
    };
    let p99 = row("p99", p99);
    let p99 = match runner {
        Runner::Real(_) => p99.at_most(GOAL_MS),
        Runner::Imitated => p99,
    };
    [row("p50", p50), p99, row("slowest", max)]
}

/// What the machine itself took while storms went on: the way of an end has some ten threads that
/// wake each other, and two durable writes one after the other.
fn floor_rows(what: &str, samples: Vec<Duration>) -> anyhow::Result<[Row; 3]> {
    let Quantiles { p50, p99, max } = Quantiles::of(samples).context("no storm")?;
    let row = |which: &str, value| {
        let figure = format!("floor: {what}, {STORMY}, {which}");
        Row::new(NAME, figure, millis(value), "ms")
    };
    Ok([row("p50", p50), row("p99", p99), row("slowest", max)])
}

/// Of how many ends, and of how much of each storm, the others are.
fn count_rows(ends: &Ends) -> anyhow::Result<[Row; 2]> {
    let row =
        |what: &str, value, unit| Row::new(NAME, figure(&ends.runner, STORMY, what), value, unit);
    let count = f64::from(u32::try_from(ends.seen_after.len())?);
    let covered = ends.covered * 100.0;
    Ok([
        row("ends timed", count, "").at_least(STORM_EXITS_MIN),
        row("share of a storm until its last", covered, "%").at_least(COVERED_MIN_PERCENT),
    ])
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
