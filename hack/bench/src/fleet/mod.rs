//! What suites with a thousand simulated nodes share: how they begin, how nodes are told what to
//! do, and what is seen of the cluster from outside.

pub(super) mod look;
pub(super) mod nodesim;
pub(super) mod servers;

use anyhow::Context;

use crate::floor::{self, Quantiles};
use crate::row::Row;
use crate::{Bench, Extent};

/// Finds the programs that are to be measured, and measures the disk's floor beside it; answers
/// that, or nothing where only the floor was asked for.
///
/// # Errors
/// If the disk cannot be measured, or a program is missing: which, and what to do.
pub(super) fn begin(
    bench: &Bench,
    suite: &'static str,
    programs: &[&str],
    rows: &mut Vec<Row>,
) -> anyhow::Result<Option<Quantiles>> {
    bench.must_have(programs)?;
    let durable =
        floor::durable_write(&bench.scratch).context("measure the durable-write floor")?;
    let name = "floor: write 4 KiB and fdatasync, p50";
    let p50 = durable.p50.as_secs_f64() * 1e3;
    rows.push(Row::new(suite, name, p50, "ms"));
    Ok((bench.extent == Extent::Everything).then_some(durable))
}
