//! The parts of the suite, which can be measured one by one.

use clap::ValueEnum;

/// The parts, in the order in which they are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    Rekey,
}
