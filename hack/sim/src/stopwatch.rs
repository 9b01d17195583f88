//! CPU time: what a run costs must not depend on what else the machine does meanwhile.

use std::fs;
use std::time::{Duration, Instant};

/// Measures from when it was begun.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    ran: Option<Duration>,
    begun: Instant,
}

/// How long this process has had a processor so far, where the kernel counts that (its first number
/// is nanoseconds; of the main thread, and there is no other).
fn ran() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

impl Stopwatch {
    /// Begins to measure.
    pub fn begin() -> Self {
        Self {
            ran: ran(),
            begun: Instant::now(),
        }
    }

    /// The CPU time since then; the time on the wall where the kernel does not count.
    pub fn elapsed(&self) -> Duration {
        match (self.ran, ran()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => self.begun.elapsed(),
        }
    }
}
