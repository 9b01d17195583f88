//! An io_uring with one read buffer that all reads share, as a safe type.
//!
//! No safe way exists: entries carry raw descriptors and addresses, and the kernel writes to the
//! buffer at times of its own. What makes this module sound is told in [`buffer`].
//!
//! What it asks of the kernel, the newest first: that it fills a buffer piece by piece (Linux
//! 6.12), reads until it is told to stop (6.7), and does its work only when it is called (6.1).
//! Older kernels have slower forms of all three, which were measured to lose to epoll: a whole
//! buffer for every read, however short, makes buffers small, and small reads make small writes.

mod buffer;

pub(crate) use buffer::Piece;
use buffer::SharedBuffer;
use io_uring_pump::types::{SubmitArgs, Timespec};
use io_uring_pump::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

const SUBMISSION_ENTRIES: u32 = 256;
const COMPLETION_ENTRIES: u32 = 4096;
const BUFFER_GROUP: u16 = 0;

/// Whether more completions of the same request follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuation {
    More,
    Last,
}

/// One finished (part of a) request.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) token: u64,
    pub(crate) result: Result<Option<Piece>, Errno>,
    pub(crate) continuation: Continuation,
}

/// A ring and its read buffer. To be used by the thread that made it, and by no other.
pub(crate) struct Ring {
    ring: IoUring,
    buffer: SharedBuffer,
}

impl Ring {
    /// Makes a ring with a read buffer of so many bytes.
    ///
    /// # Errors
    /// `OPNOTSUPP` where the kernel is too old for what pays; anything else where it refuses.
    pub(crate) fn new(buffer_bytes: u32) -> Result<Self, Errno> {
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETION_ENTRIES)
            .setup_single_issuer()
            // Reads happen in `wait` and at no other time. Without it they would happen on the way
            // out of any system call, so that a fast writer is read, and written, line by line.
            .setup_defer_taskrun()
            .build(SUBMISSION_ENTRIES)
            .map_err(|error| too_old(errno_of(&error)))?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(Errno::OPNOTSUPP);
        }
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(|error| errno_of(&error))?;
        if !probe.is_supported(opcode::ReadMulti::CODE) {
            return Err(Errno::OPNOTSUPP);
        }
        let buffer = SharedBuffer::register(&ring, BUFFER_GROUP, buffer_bytes).map_err(too_old)?;
        Ok(Self { ring, buffer })
    }

    /// Asks for reads from `fd` into the shared buffer, until they are cancelled or the buffer is
    /// full. The kernel holds the file itself, so that closing `fd` early is safe, if useless.
    pub(crate) fn push_read(&mut self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = opcode::ReadMulti::new(fd, 0, BUFFER_GROUP).offset(u64::MAX);
        self.push(&entry.build().user_data(token))
    }

    /// Asks once whether `fd` is readable.
    pub(crate) fn push_poll(&mut self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        let readable = u32::from(libc::POLLIN.cast_unsigned());
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), readable).build();
        self.push(&entry.user_data(token))
    }

    /// Ends the request that was pushed with `target`; its last completion follows.
    pub(crate) fn push_cancel(&mut self, target: u64, token: u64) -> Result<(), Errno> {
        self.push(&opcode::AsyncCancel::new(target).build().user_data(token))
    }

    /// Submits what was pushed and waits for at least one completion, at most `timeout`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        let submitter = self.ring.submitter();
        let outcome = match timeout {
            None => submitter.submit_and_wait(1),
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
            }
        };
        match outcome.map_err(|error| errno_of(&error)) {
            // BUSY: completions must be taken before more is submitted, which is what comes next.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Takes the completions that are there now.
    pub(crate) fn take_completions(&mut self, into: &mut Vec<Completion>) {
        for entry in self.ring.completion() {
            into.push(completion(&mut self.buffer, &entry));
        }
    }

    pub(crate) fn bytes(&self, piece: &Piece) -> &[u8] {
        self.buffer.bytes(piece)
    }

    /// Says that these bytes were used; with its last piece the buffer goes back to the kernel, so
    /// pieces are to be used in the order of their completions.
    pub(crate) fn recycle(&mut self, piece: Piece) {
        self.buffer.recycle(piece);
    }

    fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        for _ in 0..2 {
            // SAFETY: no entry made here names memory except the registered buffer, which lives as
            // long as the ring, and a bad descriptor only makes the request fail.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit().map_err(|error| errno_of(&error))?;
        }
        Err(Errno::BUSY)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // From here on the kernel can choose no buffer, so nothing is written after the memory is
        // freed. It fails only for a group that is not registered, and then there is nothing to
        // prevent.
        let _ = self.ring.submitter().unregister_buf_ring(BUFFER_GROUP);
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

fn completion(buffer: &mut SharedBuffer, entry: &cqueue::Entry) -> Completion {
    let (result, flags) = (entry.result(), entry.flags());
    let piece = cqueue::buffer_select(flags).map(|id| {
        let length = usize::try_from(result).unwrap_or(0);
        buffer.piece(id, length, cqueue::buffer_more(flags))
    });
    let continuation = if cqueue::more(flags) {
        Continuation::More
    } else {
        Continuation::Last
    };
    let result = if result < 0 {
        if let Some(piece) = piece {
            buffer.recycle(piece);
        }
        Err(Errno::from_raw_os_error(-result))
    } else {
        Ok(piece)
    };
    Completion {
        token: entry.user_data(),
        result,
        continuation,
    }
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// A flag that the kernel does not know is an invalid argument to it.
fn too_old(errno: Errno) -> Errno {
    if errno == Errno::INVAL {
        Errno::OPNOTSUPP
    } else {
        errno
    }
}
