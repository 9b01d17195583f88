//! Wakes the writer beside its caller.
//!
//! Whoever is woken through a futex runs where it ran last, and may find the processor taken by a
//! task that was just started: the loop, which waits for the write, then waits for that task's
//! first slice (milliseconds), with its own processor idle. A pipe's wake-up says that the caller
//! is about to sleep, so that the scheduler runs the writer in its place (`WF_SYNC` of the kernel's
//! fair scheduler).

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe_with};

/// What one wait takes from the pipe; more of it ends the next one at once, which harms nobody.
const RINGS_AT_ONCE: usize = 64;

/// Rung by anyone, heard by one.
#[derive(Debug)]
pub(super) struct Bell {
    heard: OwnedFd,
    ring: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let (heard, ring) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { heard, ring })
    }

    /// The wait that is under way ends, or else the next one at once.
    pub(super) fn ring(&self) {
        // A full pipe has rung already; it cannot fail otherwise while both ends are ours.
        let _full = write(&self.ring, &[0]);
    }

    /// Waits until it rings, at most `limit`; may end early.
    pub(super) fn wait(&self, limit: Option<Duration>) {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut polled = [PollFd::new(&self.heard, PollFlags::IN)];
        // Interrupted or not: the caller looks at what there is to do.
        let _early = poll(&mut polled, limit.as_ref());
        let _empty = read(&self.heard, &mut [0; RINGS_AT_ONCE]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_ends_the_next_wait_and_only_that() {
        let bell = Bell::new().unwrap();
        bell.ring();
        bell.ring();
        bell.wait(None);
        let mut polled = [PollFd::new(&bell.heard, PollFlags::IN)];
        assert_eq!(poll(&mut polled, Some(&Timespec::default())).unwrap(), 0);
    }

    #[test]
    fn a_wait_that_nobody_ends_ends_at_its_limit() {
        Bell::new().unwrap().wait(Some(Duration::from_millis(1)));
    }

    #[test]
    fn more_rings_than_a_pipe_holds_hold_nobody_up() {
        let bell = Bell::new().unwrap();
        for _ in 0..100_000 {
            bell.ring();
        }
        bell.wait(None);
    }
}
