//! Suite `updates`: three servers, a thousand simulated nodes, and what ten thousand allocations
//! that start at once cost the log, beside the same reports in the reference's shape; and how long
//! the end of a task takes until it is seen, while nothing else happens and during the storm.

mod counters;
mod exits;
mod reference;
mod storm;

use std::path::Path;

use self::counters::Counters;
use super::Bench;
use super::fleet::nodesim::{Fleet, Nodesim};
use super::fleet::{self, Begun, look};
use super::floor::Quantiles;
use super::row::Row;
use crate::cluster::servers::Servers;

/// The name on the command line and in every row.
pub(super) const NAME: &str = "updates";
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
/// Ends of tasks that are timed while nothing else happens.
const QUIET_EXITS: usize = 200;
/// From an end to its sight, at the 99th percentile.
const GOAL_MS: f64 = 50.0;

/// Measures the disk's floor and, unless only that was asked for, everything else.
///
/// # Errors
/// If something cannot be measured.
pub(super) fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let Begun {
        mut rows,
        durable,
        binaries,
    } = fleet::begin(bench, NAME)?;
    let Some(binaries) = binaries else {
        return Ok(rows);
    };
    eprintln!(
        "-- {SERVERS} servers, {NODES} nodes, and {} beside them",
        TIMED.nodes
    );
    let mut servers = Servers::start(&binaries, &bench.scratch.join("servers"), SERVERS)?;
    let nodesim = binaries.join("nodesim");
    let (mut nodes, _) = Nodesim::start(&nodesim, &servers, Fleet::only(NODES))?;
    let (timed, _) = Nodesim::start(&nodesim, &servers, TIMED)?;
    look::all_ready(&servers, NODES + TIMED.nodes)?;
    eprintln!("-- {QUIET_EXITS} tasks end, one after the other");
    let quiet = exits::of_count(&servers, "quiet", QUIET_EXITS)?;
    rows.extend(exit_rows("while nothing else happens", &quiet, &durable));
    let storm = storm::measure(&servers, &mut nodes)?;
    rows.extend(exit_rows("during the storm", &storm.exits, &durable));
    let reference = reference::measure(&servers, storm::SAMPLES)?;
    drop((nodes, timed));
    servers.stop()?;
    let not_merged = not_merged(&binaries, &bench.scratch.join("not-merged"))?;
    rows.extend(storm.rows(reference, not_merged));
    Ok(rows)
}

/// The storm on servers of its own, which merge nothing.
fn not_merged(binaries: &Path, folder: &Path) -> anyhow::Result<Counters> {
    let mut servers = Servers::start_with(binaries, folder, SERVERS, "merge_updates = false")?;
    let nodesim = binaries.join("nodesim");
    let (mut nodes, _) = Nodesim::start(&nodesim, &servers, Fleet::only(NODES))?;
    look::all_ready(&servers, NODES)?;
    let cost = storm::not_merged(&servers, &mut nodes)?;
    drop(nodes);
    servers.stop()?;
    Ok(cost)
}

fn exit_rows(when: &str, exits: &Quantiles, durable: &Quantiles) -> [Row; 2] {
    let row = |quantile: &str, value| Row {
        floor_value: Some(millis(durable.p50)),
        ..Row::new(
            NAME,
            format!("a task's end to its sight, {when}, {quantile}"),
            millis(value),
            "ms",
        )
    };
    let p99 = millis(exits.p99);
    [
        row("p50", exits.p50),
        Row {
            goal: Some(GOAL_MS),
            met: Some(p99 <= GOAL_MS),
            ..row("p99", exits.p99)
        },
    ]
}

fn millis(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
