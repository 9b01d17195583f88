//! What the machine itself needs: starting the smallest program there is, and making 4 KiB durable.
//!
//! The spawn floor uses the standard library's `posix_spawn` (clone with shared memory, then exec),
//! the fastest way to start a process, of a static program of one system call: nothing that starts
//! a task can be quicker. It is measured with the wait for its end included, as a task's start
//! would be observed.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::programs::Program;

/// Enough for a p99 of which ten samples stand above it.
const SAMPLES: usize = 1000;
/// The first calls fill caches; they are no sample.
const WARM_UP: usize = 50;
const RECORD_BYTES: usize = 4096;

/// What every figure is given in. Ranks are rounded up: of fewer than a hundred samples the 99th
/// percentile is the slowest one, which must not be left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantiles {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) max: Duration,
}

impl Quantiles {
    /// Of an unordered sample; `None` if it is empty.
    pub(super) fn of(mut samples: Vec<Duration>) -> Option<Self> {
        samples.sort_unstable();
        let max = *samples.last()?;
        // The smallest sample that as many percent of all do not exceed (nearest rank).
        let at = |percent: usize| samples[(samples.len() * percent).div_ceil(100) - 1];
        Some(Self {
            p50: at(50),
            p99: at(99),
            max,
        })
    }
}

/// Starts the smallest program and waits for its end, over and over.
///
/// # Errors
/// If the program cannot be written or run, or the processor is one we have no program for.
pub(super) fn spawn(scratch: &Path) -> anyhow::Result<Quantiles> {
    let program = scratch.join("exit-at-once");
    Program::ExitAtOnce.write(&program)?;
    measure(|| {
        let status = Command::new(&program).env_clear().spawn()?.wait()?;
        anyhow::ensure!(status.success(), "the smallest program failed: {status}");
        Ok(())
    })
}

/// Writes 4 KiB and waits until the disk has it, over and over, in one file.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn durable_write(scratch: &Path) -> anyhow::Result<Quantiles> {
    let mut file = File::create(scratch.join("durable-write"))?;
    let record = [0x5a_u8; RECORD_BYTES];
    // As a log does it: the space is there beforehand, and records follow each other.
    file.set_len((RECORD_BYTES * (SAMPLES + WARM_UP)) as u64)?;
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    measure(|| {
        file.write_all(&record)?;
        Ok(file.sync_data()?)
    })
}

/// What the machine needs for the same while something else goes on: how late a thread is woken,
/// and how long a durable write takes, over and over in a thread of its own.
#[derive(Debug)]
pub(super) struct Beside {
    over: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<[Vec<Duration>; 2]>>,
}

/// Between two samples: often enough to see what stands still for some milliseconds, and seldom
/// enough to be no load.
const BESIDE_EVERY: Duration = Duration::from_millis(10);

impl Beside {
    /// Begins.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn start(scratch: &Path) -> anyhow::Result<Self> {
        let mut file = File::create(scratch.join("durable-write-beside"))?;
        file.set_len((RECORD_BYTES * SAMPLES) as u64)?;
        file.sync_all()?;
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let (mut woken, mut durable) = (Vec::new(), Vec::new());
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(BESIDE_EVERY);
                woken.push(begun.elapsed().saturating_sub(BESIDE_EVERY));
                let begun = Instant::now();
                if durable.len().is_multiple_of(SAMPLES) {
                    file.seek(SeekFrom::Start(0))?;
                }
                file.write_all(&[0x5a_u8; RECORD_BYTES])?;
                file.sync_data()?;
                durable.push(begun.elapsed());
            }
            Ok([woken, durable])
        });
        Ok(Self { over, thread })
    }

    /// Ends; how late a thread was woken, and how long durable writes took.
    ///
    /// # Errors
    /// If the file could not be written.
    pub(super) fn stop(self) -> anyhow::Result<[Vec<Duration>; 2]> {
        self.over.store(true, Ordering::Relaxed);
        let joined = self.thread.join();
        joined.map_err(|_| anyhow::anyhow!("a panic"))?
    }
}

fn measure(mut once: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Quantiles> {
    for _ in 0..WARM_UP {
        once()?;
    }
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        once()?;
        samples.push(start.elapsed());
    }
    Quantiles::of(samples).context("no samples")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_taken_from_the_ordered_sample() {
        assert_eq!(of_first(101), Some([51, 100, 101]));
        assert_eq!(of_first(200), Some([100, 198, 200]));
        assert_eq!(of_first(0), None);
    }

    #[test]
    fn the_slowest_of_a_small_sample_is_not_left_out() {
        assert_eq!(of_first(1), Some([1, 1, 1]));
        assert_eq!(of_first(60), Some([30, 60, 60]));
        assert_eq!(of_first(99), Some([50, 99, 99]));
        assert_eq!(of_first(100), Some([50, 99, 100]));
    }

    /// Of 1 ms to `count` ms, the longest first.
    fn of_first(count: u64) -> Option<[u128; 3]> {
        let samples = (1..=count).rev().map(Duration::from_millis).collect();
        let Quantiles { p50, p99, max } = Quantiles::of(samples)?;
        Some([p50, p99, max].map(|it| it.as_millis()))
    }
}
