//! What somebody sees who waits for a night's runs or a long one: a line a minute, and every
//! failure at once.

use std::time::{Duration, Instant};

use crate::run::YEAR;
use crate::time::{Nanos, SECOND};

/// How often a line is said while nothing breaks.
const EVERY: Duration = Duration::from_secs(60);

/// Tells standard error.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    span: Duration,
    said: Instant,
    failures: usize,
}

impl Progress {
    /// Of runs that begin now and go on for so long.
    pub fn new(span: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            span,
            said: begun,
            failures: 0,
        }
    }

    /// A run is over: so many are, they lasted so many simulated seconds, and these failed, each of
    /// which `replay` says how to see it again.
    pub fn told<F>(
        &mut self,
        runs: u64,
        lasted: f64,
        failures: &[F],
        replay: impl Fn(&F) -> String,
    ) {
        for failure in failures.iter().skip(self.failures) {
            eprintln!("FAILED: {}", replay(failure));
        }
        self.failures = failures.len();
        if self.said.elapsed() < EVERY {
            return;
        }
        self.said = Instant::now();
        eprintln!(
            "{} of {} min: {runs} runs, {} failed, {:.4} simulated years",
            self.begun.elapsed().as_secs() / 60,
            self.span.as_secs() / 60,
            self.failures,
            lasted / YEAR,
        );
    }
}

/// One long run.
#[derive(Debug)]
pub struct OneRun {
    said: Instant,
    seconds: u64,
}

impl OneRun {
    /// Begins now, and its faults last so many simulated seconds.
    pub fn new(seconds: u64) -> Self {
        let said = Instant::now();
        Self { said, seconds }
    }

    /// It is so far.
    pub fn told(&mut self, now: Nanos) {
        if self.said.elapsed() < EVERY {
            return;
        }
        self.said = Instant::now();
        let (done, seconds) = (now / SECOND, self.seconds);
        eprintln!("{done} s simulated, of {seconds} s of faults and what follows");
    }
}
