//! Keeper's hold on the FIFOs of tasks: as long as it has one open, neither a task nor a pump that
//! died can make the other side lose bytes.

use crate::protocol::BootNanos;
use rustix::io::ioctl_fionread;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Acknowledged runs whose pipes still hold bytes; beyond it the oldest are let go.
pub(crate) const LINGERING_MAX: usize = 1024;
/// Long enough for a pump to be started again.
const LINGER: BootNanos = BootNanos(60_000_000_000);

/// FIFOs of acknowledged runs that pump has not emptied yet: a FIFO that nobody has open loses its
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct LingeringStreams {
    streams: VecDeque<(BootNanos, OwnedFd)>,
}

impl LingeringStreams {
    pub(crate) fn add(&mut self, streams: Vec<OwnedFd>, now: BootNanos) {
        for stream in streams {
            if has_bytes(&stream) {
                self.streams.push_back((now.plus(LINGER), stream));
            }
        }
        while self.streams.len() > LINGERING_MAX {
            self.streams.pop_front();
        }
    }

    /// Lets go what was emptied, or has waited long enough.
    pub(crate) fn tick(&mut self, now: BootNanos) {
        self.streams
            .retain(|(until, stream)| *until > now && has_bytes(stream));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(BootNanos, OwnedFd)> {
        self.streams.iter()
    }

    /// One that the keeper before held until then.
    pub(crate) fn keep(&mut self, until: BootNanos, stream: OwnedFd) {
        self.streams.push_back((until, stream));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }
}

fn has_bytes(stream: &OwnedFd) -> bool {
    ioctl_fionread(stream).is_ok_and(|bytes| bytes > 0)
}
