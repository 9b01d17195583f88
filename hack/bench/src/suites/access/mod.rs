//! Suite `access`: the price of access control, and requests beside callers with bogus tokens.
//!
//! Rights are compiled and asked in this process; everything else is measured at one real server,
//! from outside.
//!
//! ```text
//! rights            state and Acl in this process
//! share             server with access control <-- rounds in turn --> server without
//! change            a write of another policy, then one read
//! flood             a real token <-- beside --> bogus tokens, or requests that need no token
//! tokens            many connections that create tokens
//! ```

mod change;
mod documents;
mod flood;
mod part;
mod rights;
mod scene;
mod share;
mod tokens;

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{ArgMatches, Args as _, FromArgMatches as _};

use self::part::Part;
use self::scene::Scene;
use super::Suite;
use super::parts::chosen;
use crate::Bench;
use crate::fleet;
use crate::row::Row;

/// The name on the command line and in every row.
const NAME: &str = "access";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "price of access control, tokens created, a real token beside bogus ones",
    options: Options::augment_args,
    run,
};
const PROGRAMS: &[&str] = &["controlplane"];

// No documentation: it would be the help of the suite. The goals are for the default sizes.
#[derive(Debug, clap::Args)]
struct Options {
    /// Policies of the token that is measured, 8 to 10000
    #[arg(long, value_name = "POLICIES", default_value_t = 1000)]
    policies: usize,
    /// The time of each loop
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    seconds: u64,
    /// Connections that create tokens
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 64)]
    connections: usize,
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
    let policies = options.policies;
    ensure!(
        (8..=10_000).contains(&policies) && (1..=200).contains(&options.connections),
        "--policies takes 8 to 10000, --connections 1 to 200"
    );
    let Some(durable) = fleet::begin(bench, NAME, PROGRAMS, rows)? else {
        return Ok(());
    };
    let lasts = Duration::from_secs(options.seconds.clamp(1, 60));
    let mut scene = None;
    for part in chosen(&options.only) {
        let scene = match (part, &mut scene) {
            (Part::Rights, _) => {
                rights::measure(policies, rows).context("part Rights")?;
                continue;
            }
            (_, Some(scene)) => scene,
            (_, none) => none.insert(Scene::start(bench, policies)?),
        };
        let measured = match part {
            Part::Rights => Ok(()),
            Part::Share => share::measure(bench, scene, lasts, rows),
            Part::Change => change::measure(scene, lasts, rows),
            Part::Flood => flood::measure(scene, lasts, rows),
            Part::Tokens => tokens::measure(scene, options.connections, durable, lasts, rows),
        };
        measured.with_context(|| format!("part {part:?}"))?;
    }
    Ok(())
}
