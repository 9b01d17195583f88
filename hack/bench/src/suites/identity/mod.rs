//! Suite `identity`: variables, tokens of tasks, and the sockets through which tasks ask the API.
//!
//! Signatures are made and checked in this process; everything else is measured at real servers and
//! a real node, from outside, with mutual TLS between them.
//!
//! ```text
//! tokens            keyring and claims in this process
//! entries           values that move to the next root key, in this process
//! variables, three  writes --> reads at a rate --> rotate -full, beside writes
//! api               connections --> sockets of tasks --> noded --> server      floor: bare echo
//! starts            a job with an identity file <-- in turn --> one without
//! memory            idle tasks with sockets <-- beside --> without
//! ```

mod api;
mod memory;
mod part;
mod rekey;
mod scene;
mod starts;
mod tokens;
mod variables;

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{ArgMatches, Args as _, FromArgMatches as _};

use self::part::Part;
use super::Suite;
use super::parts::chosen;
use crate::Bench;
use crate::fleet;
use crate::row::Row;

/// The name on the command line and in every row.
const NAME: &str = "identity";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "variables, keys sealed anew, tokens of tasks, requests through their sockets (root)",
    options: Options::augment_args,
    run,
};
const PROGRAMS: &[&str] = &["controlplane", "noded", "noded-keeper", "noded-jail"];

// No documentation: it would be the help of the suite. The goals are for the default sizes.
#[derive(Debug, clap::Args)]
struct Options {
    /// Variables that are written, read and sealed anew, 1000 to 1000000
    #[arg(long, value_name = "VARIABLES", default_value_t = 100_000)]
    variables: usize,
    /// Tasks whose sockets are used, 1 to 500
    #[arg(long, value_name = "TASKS", default_value_t = 64)]
    tasks: usize,
    /// Starts of each kind, 10 to 1000
    #[arg(long, value_name = "STARTS", default_value_t = 100)]
    starts: usize,
    /// Idle tasks of which the daemons' memory is measured, 10 to 4000
    #[arg(long, value_name = "TASKS", default_value_t = 4_000)]
    idle_tasks: usize,
    /// The time of each loop
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
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
    let sizes = [
        ("--variables", options.variables, 1_000, 1_000_000),
        ("--tasks", options.tasks, 1, 500),
        ("--starts", options.starts, 10, 1_000),
        ("--idle-tasks", options.idle_tasks, 10, 4_000),
    ];
    for (name, size, least, most) in sizes {
        ensure!(
            (least..=most).contains(&size),
            "{name} takes {least} to {most}, not {size}"
        );
    }
    let Some(durable) = fleet::begin(bench, NAME, PROGRAMS, rows)? else {
        return Ok(());
    };
    let lasts = Duration::from_secs(options.seconds.clamp(1, 60));
    for part in chosen(&options.only) {
        let variables =
            |servers| variables::Run::new(bench, servers, options.variables, durable, lasts);
        let measured = match part {
            Part::Tokens => tokens::measure(rows),
            Part::Entries => rekey::measure(options.variables, rows),
            Part::Variables => variables(1).measure(rows),
            Part::Three => variables(3).measure(rows),
            Part::Api => api::measure(bench, options.tasks, lasts, rows),
            Part::Starts => starts::measure(bench, options.starts, rows),
            Part::Memory => memory::measure(bench, options.idle_tasks, rows),
        };
        measured.with_context(|| format!("part {part:?}"))?;
    }
    Ok(())
}
