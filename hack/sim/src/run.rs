//! One run, and many.

use std::fmt;

use crate::arguments::Replay;
use crate::counts::Counts;
use crate::figures::Figures;
use crate::last_words::LastWords;
use crate::schedule::Settings;
use crate::time::{Nanos, SECOND, show};
use crate::world::{Failure, Trace, World};

/// Lines of a trace that a failure shows.
const TRACE_LINES: usize = 60;

/// Events between two words of how far a run is: some milliseconds of work.
const TELL_EVERY: u64 = 1 << 14;

/// What became of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// What did not hold.
    pub failure: Option<Failure>,
    /// Whether the healed cluster came to rest.
    pub rested: bool,
    /// How long it was, in virtual time, and in events.
    pub lasted: Nanos,
    pub steps: u64,
    pub counts: Counts,
    pub figures: Figures,
    /// How many faults and wishes the schedule had.
    pub faults: usize,
    pub ops: usize,
}

/// Runs one seed.
pub fn run(settings: &Settings) -> Ended {
    run_telling(settings, &mut |_| {})
}

/// Runs one seed, and tells now and then how far it is in virtual time.
pub fn run_telling(settings: &Settings, tell: &mut dyn FnMut(Nanos)) -> Ended {
    let _words = LastWords::begin(Replay(settings, None).to_string());
    let mut world = World::new(settings, None);
    while world.go_on(TELL_EVERY) {
        tell(world.now);
    }
    Ended {
        failure: world.failure.clone(),
        rested: world.rested(),
        lasted: world.now,
        steps: world.step,
        counts: *world.counts(),
        figures: world.figures,
        faults: world.schedule.faults.len(),
        ops: world.schedule.ops.len(),
    }
}

/// Runs one seed once more and answers the last things that happened.
pub fn explain(settings: &Settings, lines: Option<usize>) -> Vec<String> {
    let _words = LastWords::begin(Replay(settings, None).to_string());
    let trace = Trace::of(lines.unwrap_or(TRACE_LINES));
    let mut world = World::new(settings, Some(trace));
    world.run();
    let lines = world.trace().map(|trace| trace.lines().map(str::to_owned));
    lines.map(Iterator::collect).unwrap_or_default()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            invariant,
            source,
            what,
            at,
            step,
        } = self;
        writeln!(f, "{invariant} does not hold: {what}")?;
        writeln!(f, "  promised in: {source}")?;
        write!(f, "  at {} s, step {step}", show(*at).trim())
    }
}

/// Seconds of virtual time in a year.
pub const YEAR: f64 = 365.25 * 24.0 * 3600.0;

/// A span in seconds, for reports.
pub fn seconds(span: Nanos) -> f64 {
    span as f64 / SECOND as f64
}
