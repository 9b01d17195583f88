//! What suites with a thousand simulated nodes share: how they begin, how nodes are told what to
//! do, and what is seen of the cluster from outside.

pub(super) mod look;
pub(super) mod nodesim;
pub(super) mod servers;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::floor::{self, Quantiles};
use crate::row::Row;
use crate::{Bench, Extent};

/// The programs that are measured, as the release build leaves them.
const BINARIES: &[&str] = &["controlplane", "drover", "nodesim"];

/// A suite that has begun.
pub(super) struct Begun {
    /// The disk's floor.
    pub(super) durable: Quantiles,
    /// The folder of what is measured; `None` where only the floor was asked for.
    pub(super) binaries: Option<PathBuf>,
}

/// Finds what is to be measured, with `more` programs than every suite here needs, and measures the
/// disk's floor beside it.
///
/// # Errors
/// If the disk cannot be measured, or a program is missing: which, and what to do.
pub(super) fn begin(
    bench: &Bench,
    suite: &'static str,
    more: &[&str],
    rows: &mut Vec<Row>,
) -> anyhow::Result<Begun> {
    let binaries = match bench.extent {
        Extent::FloorOnly => None,
        Extent::Everything => Some(bench.programs.ours.clone()),
    };
    if let Some(binaries) = &binaries {
        must_exist(binaries, more)?;
    }
    let durable =
        floor::durable_write(&bench.scratch).context("measure the durable-write floor")?;
    let name = "floor: write 4 KiB and fdatasync, p50";
    let p50 = durable.p50.as_secs_f64() * 1e3;
    rows.push(Row::new(suite, name, p50, "ms"));
    Ok(Begun { durable, binaries })
}

/// Whether everything that a suite with simulated nodes runs is in `binaries`.
///
/// # Errors
/// If something is missing: what, and what to do.
fn must_exist(binaries: &Path, more: &[&str]) -> anyhow::Result<()> {
    let missing: Vec<&str> = BINARIES
        .iter()
        .chain(more)
        .copied()
        .filter(|name| !binaries.join(name).is_file())
        .collect();
    ensure!(
        missing.is_empty(),
        "the figures need {} in {}; build them with `cargo build --release --bins`, \
         name another folder with --binaries, or ask for the machine's own figures with \
         --floor-only",
        missing.join(", "),
        binaries.display()
    );
    Ok(())
}
