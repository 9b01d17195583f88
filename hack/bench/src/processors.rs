//! Which processors a measured program may use, and how much of them is left to it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::Context;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// This thread.
const SELF: Pid = Pid::from_raw(0);

/// The processors that this thread may use, by their numbers.
///
/// # Errors
/// If the kernel does not tell.
pub(crate) fn allowed() -> anyhow::Result<Vec<usize>> {
    let set = sched_getaffinity(SELF).context("read which processors may be used")?;
    Ok((0..CpuSet::count())
        .filter(|number| set.is_set(*number).unwrap_or(false))
        .collect())
}

/// This thread, kept to one processor: what it starts meanwhile is kept there for good
/// (sched_setaffinity(2)). Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Pinned {
    before: CpuSet,
    /// It is about the thread that made it.
    _here: PhantomData<*const ()>,
}

impl Pinned {
    /// Keeps this thread to processor `number`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn to(number: usize) -> anyhow::Result<Self> {
        let before = sched_getaffinity(SELF)?;
        keep_to(number)?;
        Ok(Self {
            before,
            _here: PhantomData,
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was so before.
        let _ = sched_setaffinity(SELF, &self.before);
    }
}

fn keep_to(number: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(number)?;
    sched_setaffinity(SELF, &set).with_context(|| format!("use processor {number} only"))
}

/// Threads that use a processor for nothing. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Busy {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// `count` busy loops on processor `number`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(crate) fn on(number: usize, count: usize) -> anyhow::Result<Self> {
        let mut busy = Self {
            over: Arc::default(),
            threads: Vec::new(),
        };
        let _pinned = Pinned::to(number)?;
        for _ in 0..count {
            let over = Arc::clone(&busy.over);
            let spin = move || {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            };
            busy.threads.push(std::thread::Builder::new().spawn(spin)?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kept_thread_starts_is_kept_to_the_same_processor() {
        let before = allowed().unwrap();
        let last = *before.last().unwrap();
        {
            let _pinned = Pinned::to(last).unwrap();
            let child = std::thread::spawn(|| allowed().unwrap());
            assert_eq!(child.join().unwrap(), [last]);
            drop(Busy::on(last, 2).unwrap());
            assert_eq!(allowed().unwrap(), [last]);
        }
        assert_eq!(allowed().unwrap(), before);
    }
}
