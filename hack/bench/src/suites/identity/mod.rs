//! Suite `identity`: root keys and what they seal and sign.
//!
//! ```text
//! rekey             rotate -full of many variables at one server; its entries in this process
//! ```

mod part;
mod rekey;

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
    about: "variables that move to another root key",
    options: Options::augment_args,
    run,
};
const PROGRAMS: &[&str] = &["controlplane"];

// No documentation: it would be the help of the suite. The goals are for the default sizes.
#[derive(Debug, clap::Args)]
struct Options {
    /// Variables, 200 to 1000000
    #[arg(long, value_name = "VARIABLES", default_value_t = 100_000)]
    variables: u32,
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
    let variables = options.variables;
    ensure!(
        (200..=1_000_000).contains(&variables),
        "--variables takes 200 to 1000000"
    );
    if fleet::begin(bench, NAME, PROGRAMS, rows)?.is_none() {
        return Ok(());
    }
    for part in chosen(&options.only) {
        let measured = match part {
            Part::Rekey => rekey::measure(bench, variables, rows),
        };
        measured.with_context(|| format!("part {part:?}"))?;
    }
    Ok(())
}
