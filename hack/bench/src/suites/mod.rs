//! The suites, one file or folder each. A new one is its file and its line in [`SUITES`].

mod access;
mod identity;
mod in_memory;
mod load;
mod node;
mod parts;
mod scheduler;
mod sessions;
mod start_here;
mod status_lines;
mod updates;

use clap::{ArgMatches, Command};

use crate::Bench;
use crate::row::Row;

/// All of them, in the order in which they are listed.
pub(crate) const SUITES: &[Suite] = &[
    start_here::SUITE,
    sessions::SUITE,
    updates::SUITE,
    scheduler::SUITE,
    access::SUITE,
    identity::SUITE,
    node::SUITE,
];

/// One named set of figures.
pub(crate) struct Suite {
    /// On the command line and in every row.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Adds the options that only this suite has.
    pub(crate) options: fn(Command) -> Command,
    /// Adds what it measures, row by row: what was measured before something failed is not lost.
    pub(crate) run: fn(&Bench, &ArgMatches, &mut Vec<Row>) -> anyhow::Result<()>,
}
