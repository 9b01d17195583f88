//! The kernel's own price of a start in six new namespaces: mount, ipc, uts, cgroup, network and
//! pid. No root, no device, no limit and no filter are part of it.
//!
//! A thread leaves all namespaces (unshare(2)) and starts the program with `posix_spawn`, which
//! creates the same objects as one clone3(2) with all flags. A pid namespace can be left once only,
//! so each start has a thread of its own, which is made before the clock starts.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sched::{CloneFlags, unshare};

use crate::floor::Quantiles;
use crate::programs::Program;

/// Threads that start and stop at the same time: more than that are slower together.
const THREADS: usize = 4;

/// One start: until a daemon was asked, where there is one; until the first byte of the program;
/// until everything of it was removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Birth {
    pub(super) request: Duration,
    pub(super) first_byte: Duration,
    pub(super) end: Duration,
}

/// Writes the program that floors start.
///
/// # Errors
/// The file cannot be written.
pub(super) fn program(scratch: &Path) -> anyhow::Result<PathBuf> {
    let path = scratch.join("floor-first-byte");
    Program::FirstByte.write(&path)?;
    Ok(path)
}

/// Many starts, one after the other: until the first byte, and until the end.
///
/// # Errors
/// The kernel refuses a namespace, or the program fails.
pub(super) fn births(scratch: &Path, count: usize) -> anyhow::Result<[Quantiles; 2]> {
    let program = program(scratch)?;
    let births = (0..count).map(|_| birth(&program));
    let births = births.collect::<anyhow::Result<Vec<Birth>>>()?;
    let of = |part: fn(&Birth) -> Duration| Quantiles::of(births.iter().map(part).collect());
    let first_byte = of(|birth| birth.first_byte).context("no samples")?;
    let end = of(|birth| birth.end).context("no samples")?;
    Ok([first_byte, end])
}

/// Starts and ends per second, from several threads.
///
/// # Errors
/// As [`births`].
pub(super) fn births_per_second(scratch: &Path, span: Duration) -> anyhow::Result<f64> {
    let program = program(scratch)?;
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let start = || {
            while !over.load(Ordering::Relaxed) && begun.elapsed() < span {
                if let Err(error) = birth(&program) {
                    over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(start)).collect();
        let mut threads = threads.into_iter();
        threads.try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))?
        })
    })?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let done = done.into_inner() as f64;
    Ok(done / begun.elapsed().as_secs_f64())
}

/// One start in a thread of its own.
///
/// # Errors
/// As [`births`].
pub(super) fn birth(program: &Path) -> anyhow::Result<Birth> {
    let once = || -> anyhow::Result<Birth> {
        let begun = Instant::now();
        unshare(
            CloneFlags::CLONE_NEWNS
                | CloneFlags::CLONE_NEWIPC
                | CloneFlags::CLONE_NEWUTS
                | CloneFlags::CLONE_NEWCGROUP
                | CloneFlags::CLONE_NEWNET
                | CloneFlags::CLONE_NEWPID,
        )
        .context("leave the namespaces")?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut output = child.stdout.take().context("no pipe")?;
        let read = output.read(&mut [0])?;
        let first_byte = begun.elapsed();
        let status = child.wait()?;
        ensure!(
            read == 1 && status.success(),
            "the smallest program failed: {status}"
        );
        let end = begun.elapsed();
        Ok(Birth {
            request: Duration::ZERO,
            first_byte,
            end,
        })
    };
    std::thread::scope(|scope| scope.spawn(once).join())
        .map_err(|_| anyhow::anyhow!("a thread panicked"))?
}
