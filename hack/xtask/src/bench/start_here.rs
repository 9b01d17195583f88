//! Suite `start-here`: from a submitted job to running tasks, with the machine's own floor beside it.

use std::time::Duration;

use anyhow::Context;

use super::floor::{self, Quantiles};
use super::row::Row;
use super::{Bench, Extent};

/// The name on the command line and in every row.
pub(super) const NAME: &str = "start-here";

/// The programs that are measured, as the release build leaves them.
const BINARIES: &[&str] = &["controlplane", "noded", "noded-keeper", "drover"];

/// Measures the floors and, unless only those were asked for, the cluster.
///
/// # Errors
/// If a floor cannot be measured, or the cluster's figures were asked for and cannot be measured.
pub(super) fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spawn = floor::spawn(&bench.scratch).context("measure the spawn floor")?;
    let durable =
        floor::durable_write(&bench.scratch).context("measure the durable-write floor")?;
    let mut rows = Vec::new();
    rows.extend(floor_rows(
        "floor: posix_spawn of a static program, to its end",
        spawn,
    ));
    rows.extend(floor_rows("floor: write 4 KiB and fdatasync", durable));
    if bench.extent == Extent::Everything {
        rows.extend(cluster_rows(bench)?);
    }
    Ok(rows)
}

fn floor_rows(figure: &str, quantiles: Quantiles) -> [Row; 2] {
    let Quantiles { p50, p99 } = quantiles;
    [(p50, "p50"), (p99, "p99")]
        .map(|(value, name)| Row::new(NAME, format!("{figure}, {name}"), microseconds(value), "us"))
}

/// Submit to running, registrations per second, memory: figures of real servers and nodes.
fn cluster_rows(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let folder = bench.root.join("target").join("release");
    let missing: Vec<&str> = BINARIES
        .iter()
        .copied()
        .filter(|name| !folder.join(name).is_file())
        .collect();
    anyhow::ensure!(
        missing.is_empty(),
        "the figures of the cluster need {}; build them with `cargo build --release`, or ask for the \
         machine's own figures with --floor-only",
        missing.join(", ")
    );
    anyhow::bail!(
        "this suite cannot drive a cluster yet, and prints no figure that it did not measure; \
         --floor-only prints the machine's own"
    )
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
