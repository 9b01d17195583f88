//! A deterministic simulator of whole clusters: the replicated state, the leader's parts, the
//! scheduler and many node cores, in one thread, from one seed, in virtual time. No runtime, no
//! socket, no disk: what lies between the pure parts is modelled (a replicated log, QUIC, keeper, a
//! journal's file) or imitated (what the shells do between them).
//!
//! ```text
//!   Settings (seed) --> Schedule (faults, wishes, jobs) --> World::run --> Failure or rest
//!                            ^                                  |
//!                            +------------- shrink <------------+
//! ```
//!
//! - [`schedule::Schedule`]: what a run is made of, as data. [`schedule::Settings`] ask for it.
//! - [`world::World`]: everyone in it. Safety first, with faults; then everything is healed, and
//!   the cluster must come to rest.
//! - [`cpu`]: processor time, in the one scenario in which it counts ([`schedule::storm`]).
//! - [`invariants`]: what must hold, one file each; [`judges`]: what both forms judge alike.
//! - [`run::run`]: one seed. [`shrink::shrink`]: the smallest schedule that still fails.
//! - [`mutant::Mutant`]: planted bugs, which must be found.
//! - [`figures::Figures`]: what a run measured of the promises that have a number;
//!   [`silence::Trial`]: runs in which those are judged.
//! - [`arguments`]: how runs are asked for on the command line, and the lines that replay one.
//!
//! This is the form with a modelled log. Whole servers in one paused runtime are another form, with
//! a crate of their own (`hack-sim-cluster`), which takes chance, jobs and shrinking from here.

pub mod arguments;
pub mod counts;
pub mod cpu;
pub mod event;
pub mod figures;
pub mod invariants;
pub mod judges;
pub mod last_words;
pub mod mutant;
pub mod net;
pub mod node;
pub mod node_ids;
pub mod progress;
mod queue;
pub mod report;
pub mod rng;
pub mod run;
pub mod schedule;
pub mod server;
pub mod shrink;
pub mod silence;
pub mod stopwatch;
pub mod time;
pub mod world;
