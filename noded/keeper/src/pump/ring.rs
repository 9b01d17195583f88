//! The io_uring engine: one read request per stream, which the kernel answers with a piece of the
//! shared buffer whenever the FIFO has bytes. The buffer is as large as a pipe, so that a task that
//! writes much is read, and written, in large pieces. What finds no room in it is read plainly,
//! once in each turn, so that no stream starves another.
//!
//! ```text
//!            +------- last completion (no room left, interrupted) ----+
//!            v                                                        |
//!   attach: unarmed -- push_read, next turn --> armed ----------------+
//!              |                                  | detach: push_cancel
//!              | detach                           v
//!              +------------> detached <---- cancelling (last completion)
//! ```
//!
//! A stream whose request has ended is read by nobody else, so that a plain read cannot overtake
//! bytes; and what the ring had for it before was delivered before.

use super::engine::{Engine, READ_BUFFER_BYTES, Sink, StreamId};
use crate::sys::ring::{Completion, Continuation, Ring};
use rustix::io::{self, Errno};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// All streams share one read buffer, so that no more than that is ever taken from a pipe and not
/// written.
#[expect(clippy::cast_possible_truncation, reason = "64 KiB")]
const READ_BYTES: u32 = READ_BUFFER_BYTES as u32;

/// Streams count up from 0 and never get here.
const CONTROL: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Unarmed,
    Armed,
    Cancelling,
    /// A read failed for good; waits for detach.
    Failed,
}

#[derive(Debug)]
struct RingStream {
    fifo: OwnedFd,
    state: ReadState,
}

#[derive(Debug)]
pub(crate) struct RingEngine {
    ring: Ring,
    control: OwnedFd,
    control_armed: bool,
    streams: BTreeMap<StreamId, RingStream>,
    to_arm: Vec<StreamId>,
    /// For plain reads.
    buffer: Vec<u8>,
    detached: Vec<(StreamId, OwnedFd)>,
    completions: Vec<Completion>,
}

impl RingEngine {
    pub(crate) fn is_possible() -> bool {
        Ring::new(READ_BYTES).is_ok()
    }

    /// # Errors
    /// `OPNOTSUPP` where the kernel is older than Linux 6.12; anything else where it refuses.
    pub(crate) fn new(control: BorrowedFd<'_>) -> Result<Self, Errno> {
        let ring = Ring::new(READ_BYTES)?;
        let control = io::fcntl_dupfd_cloexec(control, 3)?;
        Ok(Self {
            ring,
            control,
            control_armed: false,
            streams: BTreeMap::new(),
            to_arm: Vec::new(),
            buffer: vec![0; READ_BUFFER_BYTES],
            detached: Vec::new(),
            completions: Vec::new(),
        })
    }

    fn arm(&mut self) -> Result<(), Errno> {
        for stream in std::mem::take(&mut self.to_arm) {
            if let Some(RingStream { fifo, state }) = self.streams.get_mut(&stream)
                && *state == ReadState::Unarmed
            {
                self.ring.push_read(fifo.as_fd(), stream.0)?;
                *state = ReadState::Armed;
            }
        }
        if !self.control_armed {
            self.ring.push_poll(self.control.as_fd(), CONTROL)?;
            self.control_armed = true;
        }
        Ok(())
    }

    fn on_read(&mut self, completion: Completion, sink: &mut dyn Sink) {
        let Completion {
            token,
            result,
            continuation,
        } = completion;
        let stream = StreamId(token);
        let failure = match result {
            Ok(Some(piece)) => {
                sink.on_data(stream, self.ring.bytes(&piece));
                self.ring.recycle(piece);
                None
            }
            // NOBUFS: the buffer is full.
            Ok(None) | Err(Errno::NOBUFS | Errno::CANCELED | Errno::INTR | Errno::AGAIN) => None,
            Err(errno) => Some(errno),
        };
        if continuation == Continuation::Last {
            self.on_last(stream, failure, sink);
        }
    }

    fn on_last(&mut self, stream: StreamId, failure: Option<Errno>, sink: &mut dyn Sink) {
        let Some(RingStream { state, fifo }) = self.streams.get_mut(&stream) else {
            return;
        };
        match (*state, failure) {
            (ReadState::Cancelling, _) => {
                if let Some(RingStream { fifo, .. }) = self.streams.remove(&stream) {
                    sink.on_detached(stream, fifo);
                }
            }
            (ReadState::Armed, None) => {
                match io::read(fifo, &mut self.buffer) {
                    Ok(count) => sink.on_data(stream, &self.buffer[..count]),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => {
                        *state = ReadState::Failed;
                        return sink.on_failed(stream, errno);
                    }
                }
                *state = ReadState::Unarmed;
                self.to_arm.push(stream);
            }
            (ReadState::Armed, Some(errno)) => {
                *state = ReadState::Failed;
                sink.on_failed(stream, errno);
            }
            (ReadState::Unarmed | ReadState::Failed, _) => {
                unreachable!("no request is in flight in these states")
            }
        }
    }
}

impl Engine for RingEngine {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn attach(&mut self, stream: StreamId, fifo: OwnedFd) -> Result<(), Errno> {
        self.streams.insert(
            stream,
            RingStream {
                fifo,
                state: ReadState::Unarmed,
            },
        );
        self.to_arm.push(stream);
        Ok(())
    }

    fn detach(&mut self, stream: StreamId) {
        let Some(RingStream { state, .. }) = self.streams.get_mut(&stream) else {
            return;
        };
        match *state {
            ReadState::Cancelling => {}
            // A full queue that cannot be submitted fails here and in every turn after it, and the
            // turn reports it.
            ReadState::Armed => {
                if self.ring.push_cancel(stream.0, CANCEL).is_ok() {
                    *state = ReadState::Cancelling;
                }
            }
            ReadState::Unarmed | ReadState::Failed => {
                if let Some(RingStream { fifo, .. }) = self.streams.remove(&stream) {
                    self.detached.push((stream, fifo));
                }
            }
        }
    }

    fn turn(&mut self, timeout: Option<Duration>, sink: &mut dyn Sink) -> Result<(), Errno> {
        self.arm()?;
        let timeout = if self.detached.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        self.ring.wait(timeout)?;
        for (stream, fifo) in std::mem::take(&mut self.detached) {
            sink.on_detached(stream, fifo);
        }
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.take_completions(&mut completions);
        for completion in completions.drain(..) {
            match completion.token {
                CONTROL => {
                    self.control_armed = false;
                    sink.on_control();
                }
                CANCEL => {}
                _ => self.on_read(completion, sink),
            }
        }
        self.completions = completions;
        Ok(())
    }
}
