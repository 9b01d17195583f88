//! Both clocks, and the one timer that wakes keeper for its next deadline.
//!
//! Not the timeout of the poll: that one stands still while the host sleeps, and a lease that ran
//! out during the sleep is due when the host wakes.

use super::custody::Now;
use crate::protocol::{BootNanos, UnixNanos};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const NANOS: u64 = 1_000_000_000;
const NEVER: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Both clocks. CLOCK_BOOTTIME and CLOCK_REALTIME are never negative.
pub(super) fn now() -> Now {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * NANOS + u64::try_from(time.tv_nsec).unwrap_or(0)
    };
    Now {
        boot: BootNanos(nanos(ClockId::Boottime)),
        wall: UnixNanos(nanos(ClockId::Realtime)),
    }
}

#[derive(Debug)]
pub(super) struct Timer {
    descriptor: OwnedFd,
    armed: Option<BootNanos>,
}

impl Timer {
    pub(super) fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let descriptor = timerfd_create(TimerfdClockId::Boottime, flags)?;
        Ok(Self {
            descriptor,
            armed: None,
        })
    }

    /// Readable from `at` on; a time that has passed makes it readable at once.
    pub(super) fn arm(&mut self, at: Option<BootNanos>) -> Result<(), Errno> {
        if self.armed == at {
            return Ok(());
        }
        let value = at.map_or(NEVER, |BootNanos(nanos)| Timespec {
            tv_sec: i64::try_from(nanos / NANOS).unwrap_or(i64::MAX),
            // Below a second. Never all zero, which would mean never.
            tv_nsec: i64::try_from((nanos % NANOS).max(1)).unwrap_or(1),
        });
        let setting = Itimerspec {
            it_interval: NEVER,
            it_value: value,
        };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.armed = at;
        Ok(())
    }

    /// It rang, and has to be armed again.
    pub(super) fn rang(&mut self) {
        self.armed = None;
        // How often it rang is of no interest, only that it does not poll as readable any more.
        let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    fn is_ringing(timer: &Timer, wait: Option<&Timespec>) -> bool {
        poll(&mut [PollFd::new(timer, PollFlags::IN)], wait).unwrap() == 1
    }

    #[test]
    fn a_deadline_that_has_passed_rings_at_once_and_one_that_has_not_does_not() {
        let mut timer = Timer::new().unwrap();
        timer.arm(Some(BootNanos(0))).unwrap();
        assert!(is_ringing(&timer, None));
        timer.rang();
        assert!(!is_ringing(&timer, Some(&NEVER)));
        timer.arm(Some(BootNanos(u64::MAX))).unwrap();
        assert!(!is_ringing(&timer, Some(&NEVER)));
        timer.arm(Some(now().boot.plus_millis(1))).unwrap();
        assert!(is_ringing(&timer, None));
        timer.arm(None).unwrap();
        assert!(!is_ringing(&timer, Some(&NEVER)));
    }
}
