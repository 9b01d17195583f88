//! How soon a thread gets a processor once a packet is there for it.
//!
//! Linux lets a thread that works go on until its turn is over, some milliseconds, before one that
//! was woken gets the processor. What a node tells the control plane wakes some ten threads one
//! after the other, and on a busy host each waits for the turn of somebody else. A thread whose own
//! turns are short is chosen earlier, with the same share of the processor, and gives it up earlier
//! (EEVDF, whose slices a thread may set since Linux 6.12). So those that packets wait for need
//! short turns, and those that work for long beside them.
//!
//! On two processors with three servers and a thousand nodes the 99th of a hundred ends of tasks
//! was seen after 36 and 44 ms, without after 39 to 69 (five runs), and after 51 and 75 where the
//! scheduler's threads had turns as usual.

use std::time::Duration;

use rustix::io::Errno;

use crate::sys;

/// Three packets' worth of work; the kernel takes 0.1 to 100 ms.
const TURN: Duration = Duration::from_micros(300);

/// Asks for short turns of the calling thread. Its share of the processors stays what it is, and
/// so does everything that it starts, threads and processes: those have turns as usual
/// (`SCHED_FLAG_RESET_ON_FORK`, sched(7); where this thread's nice value is below 0 they have 0,
/// too).
///
/// A thread that an operator gave another policy (`CPUSchedulingPolicy=` of systemd) is left alone.
/// Kernels before 6.12 take the wish and do as before. Where it is refused, as a filter of system
/// calls may, the thread is scheduled as usual, which a line of the log says at level debug.
pub fn take_short_turns() {
    if let Err(error) = try_take() {
        tracing::debug!(%error, "this thread's turns stay as they are");
    }
}

fn try_take() -> Result<(), Errno> {
    let mut attributes = sys::attributes()?;
    if attributes.sched_policy != NORMAL {
        return Ok(());
    }
    attributes.sched_runtime = u64::try_from(TURN.as_nanos()).unwrap_or(u64::MAX);
    attributes.sched_flags = RESET_ON_FORK;
    sys::set_attributes(&attributes)
}

const NORMAL: u32 = libc::SCHED_OTHER.cast_unsigned();
const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK.cast_unsigned() as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn turn() -> u64 {
        sys::attributes().unwrap().sched_runtime
    }

    #[test]
    fn turns_are_short_in_this_thread_and_as_usual_in_those_that_it_starts() {
        std::thread::spawn(|| {
            let usual = turn();
            take_short_turns();
            let short = turn();
            // Kernels before 6.12 tell nothing of turns.
            if usual != 0 {
                assert_eq!(short, 300_000);
            }
            let started = std::thread::spawn(turn).join().unwrap();
            assert_eq!(started, usual);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_a_thread_has_else_stays() {
        std::thread::spawn(|| {
            rustix::process::setpriority_process(None, 7).unwrap();
            take_short_turns();
            let attributes = sys::attributes().unwrap();
            assert_eq!(
                (attributes.sched_nice, attributes.sched_policy),
                (7, NORMAL)
            );
        })
        .join()
        .unwrap();
    }
}
