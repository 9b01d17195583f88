//! The simulator as a test: a bounded number of seeds, the same run twice, planted bugs found.

mod mutants;
mod replays;
mod seeds;
