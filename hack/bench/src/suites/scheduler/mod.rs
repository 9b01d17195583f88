//! Suite `scheduler`: jobs that the cluster registers, evaluates and places, without nodes or with
//! simulated ones. Each part has a cluster of its own.

mod periodic;

use clap::ArgMatches;

use super::Suite;
use crate::Bench;
use crate::fleet;
use crate::row::Row;

/// The name on the command line and in every row.
const NAME: &str = "scheduler";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "periodic launches that are due at once",
    options: |command| command,
    run,
};
const PROGRAMS: &[&str] = &["controlplane"];

/// One group of figures.
type Part = fn(&Bench, &mut Vec<Row>) -> anyhow::Result<()>;
const PARTS: &[Part] = &[periodic::measure];

/// Measures the disk's floor and, unless only that was asked for, every part.
///
/// # Errors
/// If something cannot be measured.
fn run(bench: &Bench, _: &ArgMatches, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    if fleet::begin(bench, NAME, PROGRAMS, rows)?.is_none() {
        return Ok(());
    }
    for part in PARTS {
        part(bench, rows)?;
    }
    Ok(())
}
