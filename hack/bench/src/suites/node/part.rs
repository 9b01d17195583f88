//! The parts of the suite, which can be measured one by one.

use clap::ValueEnum;

/// The parts, in the order in which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// One start after the other, beside the rivals.
    Starts,
    /// Starts and stops for a minute, and the census of leaks.
    Sustained,
    /// Memory of the daemons for each idle task.
    Memory,
    /// Templates, a child each.
    Template,
    /// A large archive, beside curl and tar.
    Artifact,
}
