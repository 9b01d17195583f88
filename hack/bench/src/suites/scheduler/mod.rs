//! Suite `scheduler`: jobs that the cluster registers, dispatches, launches and places, and
//! evaluations that it deletes. No part needs a node: each has servers of its own, or a state in
//! this process.

mod dispatch;
mod evaluations;
mod part;
mod periodic;
mod preemption;

use anyhow::Context;
use clap::{ArgMatches, Args as _, FromArgMatches as _};

use self::part::Part;
use super::Suite;
use super::parts::chosen;
use crate::Bench;
use crate::fleet;
use crate::row::Row;

/// The name on the command line and in every row.
const NAME: &str = "scheduler";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "periodic launches due at once, dispatches, preemption, deletion of evaluations",
    options: Options::augment_args,
    run,
};
const PROGRAMS: &[&str] = &["controlplane"];

// No documentation: it would be the help of the suite. The goals are for the default sizes.
#[derive(Debug, clap::Args)]
struct Options {
    /// Periodic jobs that are due at once
    #[arg(long, value_name = "JOBS", default_value_t = 10_000)]
    periodic_jobs: usize,
    /// Dispatches, and as many plain registrations in turn with them
    #[arg(long, value_name = "CALLS", default_value_t = 4000)]
    dispatches: usize,
    /// Full nodes on which a more important job is placed
    #[arg(long, value_name = "NODES", default_value_t = 5000)]
    full_nodes: u32,
    /// Evaluations that are deleted by a filter
    #[arg(long, value_name = "EVALS", default_value_t = 1_000_000)]
    evaluations: u32,
    /// Measure only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
}

/// Measures the disk's floor and, unless only that was asked for, every part.
///
/// # Errors
/// If something cannot be measured.
fn run(bench: &Bench, matches: &ArgMatches, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let options = Options::from_arg_matches(matches)?;
    if fleet::begin(bench, NAME, PROGRAMS, rows)?.is_none() {
        return Ok(());
    }
    for part in chosen(&options.only) {
        let measured = match part {
            Part::Periodic => periodic::measure(bench, options.periodic_jobs, rows),
            Part::Dispatch => dispatch::measure(bench, options.dispatches, rows),
            Part::Preemption => preemption::measure(options.full_nodes, rows),
            Part::Evaluations => evaluations::measure(bench, options.evaluations, rows),
        };
        measured.with_context(|| format!("part {part:?}"))?;
    }
    Ok(())
}
