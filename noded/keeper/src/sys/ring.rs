//! An io_uring with one shared ring of read buffers, as a safe type.
//!
//! No safe way exists: entries carry raw descriptors and addresses, and the kernel writes to the
//! buffers at times of its own. What makes this module sound: the buffers belong to [`Ring`]; only
//! bytes that a completion has named are lent, and the kernel writes to those again only after
//! [`Ring::recycle`] has given their buffer back; and the buffers are unregistered before they are
//! freed.
//!
//! Since Linux 6.12 the kernel can fill a buffer piece by piece, so that many short reads share
//! one. Before that every read takes a whole buffer, however short it is, and the same memory is
//! cut into more and smaller ones.

use io_uring_pump::types::{BufRingEntry, SubmitArgs, Timespec};
use io_uring_pump::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

const SUBMISSION_ENTRIES: u32 = 256;
const COMPLETION_ENTRIES: u32 = 4096;
const BUFFER_GROUP: u16 = 0;
/// The kernel wants the entries on a page of their own; buffers follow on the next one.
const PAGE_BYTES: usize = 4096;

/// Whether one read request delivers once or until it is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadMode {
    /// Linux 6.7 and later.
    Multishot,
    SingleShot,
}

/// Whether more completions of the same request follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Continuation {
    More,
    Last,
}

/// A piece of a buffer that holds read bytes; to be given back with [`Ring::recycle`].
#[derive(Debug)]
pub(crate) struct FilledBuffer {
    id: u16,
    offset: usize,
    length: usize,
    last: LastPiece,
}

/// Whether a buffer is full, and goes back to the kernel once its last piece was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastPiece {
    Yes,
    No,
}

/// How a given amount of memory is cut, and how the kernel fills it.
#[derive(Debug, Clone, Copy)]
struct Shape {
    count: u16,
    flags: u16,
}

/// `IOU_PBUF_RING_INC` (linux/io_uring.h): buffers are consumed piece by piece.
const PIECEWISE: Shape = Shape { count: 8, flags: 2 };
const WHOLE: Shape = Shape {
    count: 32,
    flags: 0,
};

/// One finished (part of a) request.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) token: u64,
    pub(crate) result: Result<Option<FilledBuffer>, Errno>,
    pub(crate) continuation: Continuation,
}

/// A ring and its read buffers.
pub(crate) struct Ring {
    ring: IoUring,
    buffers: Buffers,
    mode: ReadMode,
}

impl Ring {
    /// Makes a ring whose buffers have `bytes` together (a power of two, at least a page).
    pub(crate) fn new(bytes: u32) -> Result<Self, Errno> {
        Self::with_shapes(bytes, &[PIECEWISE, WHOLE])
    }

    /// As on a kernel before 6.12.
    #[cfg(test)]
    pub(crate) fn with_whole_buffers(bytes: u32) -> Result<Self, Errno> {
        Self::with_shapes(bytes, &[WHOLE])
    }

    /// Takes the first of the shapes that the kernel knows.
    fn with_shapes(bytes: u32, shapes: &[Shape]) -> Result<Self, Errno> {
        assert!(bytes.is_power_of_two(), "it is cut into powers of two");
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETION_ENTRIES)
            .setup_single_issuer()
            .setup_coop_taskrun()
            .build(SUBMISSION_ENTRIES)
            .or_else(|_| {
                IoUring::builder()
                    .setup_cqsize(COMPLETION_ENTRIES)
                    .build(SUBMISSION_ENTRIES)
            })
            .map_err(errno_of)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            return Err(Errno::OPNOTSUPP);
        }
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(errno_of)?;
        let mode = if probe.is_supported(opcode::ReadMulti::CODE) {
            ReadMode::Multishot
        } else {
            ReadMode::SingleShot
        };
        let mut buffers = Err(Errno::INVAL);
        for shape in shapes {
            buffers = buffers.or_else(|_| register(&ring, bytes, *shape));
        }
        let buffers = buffers?;
        Ok(Self {
            ring,
            buffers,
            mode,
        })
    }

    /// Takes single-shot reads even where the kernel knows better ones.
    #[cfg(test)]
    pub(crate) fn force_single_shot(&mut self) {
        self.mode = ReadMode::SingleShot;
    }

    pub(crate) fn mode(&self) -> ReadMode {
        self.mode
    }

    /// Asks for reads from `fd` into the shared buffers. The kernel holds the file itself, so that
    /// closing `fd` early is safe, if useless.
    pub(crate) fn push_read(&mut self, fd: BorrowedFd<'_>, token: u64) -> Result<(), Errno> {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = match self.mode {
            ReadMode::Multishot => opcode::ReadMulti::new(fd, 0, BUFFER_GROUP)
                .offset(u64::MAX)
                .build(),
            ReadMode::SingleShot => {
                opcode::Read::new(fd, std::ptr::null_mut(), self.buffers.buffer_bytes)
                    .offset(u64::MAX)
                    .buf_group(BUFFER_GROUP)
                    .build()
                    .flags(squeue::Flags::BUFFER_SELECT)
            }
        };
        self.push(&entry.user_data(token))
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
        match outcome.map_err(errno_of) {
            // BUSY: completions must be taken before more is submitted, which is what comes next.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Takes the completions that are there now.
    pub(crate) fn take_completions(&mut self, into: &mut Vec<Completion>) {
        for entry in self.ring.completion() {
            into.push(self.buffers.completion(&entry));
        }
    }

    pub(crate) fn bytes(&self, filled: &FilledBuffer) -> &[u8] {
        self.buffers.bytes(filled)
    }

    /// Says that these bytes were used; with its last piece a buffer goes back to the kernel.
    /// Pieces are used in the order of their completions, so no earlier one is in use then.
    #[expect(clippy::needless_pass_by_value, reason = "a second use is impossible")]
    pub(crate) fn recycle(&mut self, filled: FilledBuffer) {
        if filled.last == LastPiece::Yes {
            self.buffers.give(filled.id);
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        for _ in 0..2 {
            // SAFETY: no entry made here names memory except the registered buffers, which live as
            // long as the ring, and a bad descriptor only makes the request fail.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit().map_err(errno_of)?;
        }
        Err(Errno::BUSY)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // From here on the kernel can choose no buffer, so none is written to after `buffers` is
        // freed. It fails only for a group that is not registered, and then there is nothing to
        // prevent.
        let _ = self.ring.submitter().unregister_buf_ring(BUFFER_GROUP);
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// The entries (first) and the bytes (after them) in one allocation.
struct Buffers {
    base: NonNull<u8>,
    layout: Layout,
    bytes_offset: usize,
    count: u16,
    buffer_bytes: u32,
    tail: u16,
    /// How much of each buffer completions have named since it was last given to the kernel.
    named: Vec<usize>,
}

impl Buffers {
    fn new(count: u16, buffer_bytes: u32) -> Result<Self, Errno> {
        let entries_bytes = usize::from(count) * size_of::<BufRingEntry>();
        let bytes_offset = entries_bytes.next_multiple_of(PAGE_BYTES);
        let size = bytes_offset + usize::from(count) * buffer_bytes as usize;
        let layout = Layout::from_size_align(size, PAGE_BYTES).map_err(|_| Errno::INVAL)?;
        // SAFETY: the layout's size is not zero, because `count` is a power of two.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).ok_or(Errno::NOMEM)?;
        Ok(Self {
            base,
            layout,
            bytes_offset,
            count,
            buffer_bytes,
            tail: 0,
            named: vec![0; usize::from(count)],
        })
    }

    fn address(&self, id: u16) -> *mut u8 {
        assert!(id < self.count, "a buffer id of this ring");
        let offset = self.bytes_offset + usize::from(id) * self.buffer_bytes as usize;
        // SAFETY: the id is below the count, so the offset lies within the allocation.
        unsafe { self.base.as_ptr().add(offset) }
    }

    fn bytes(&self, filled: &FilledBuffer) -> &[u8] {
        let end = filled.offset + filled.length;
        assert!(
            end <= self.buffer_bytes as usize,
            "the kernel stays within a buffer"
        );
        // SAFETY: the piece lies within its buffer (checked above), whose memory is allocated and
        // was zeroed. The kernel writes only behind the pieces that it has named until the buffer
        // is given back, which takes the last piece by value and `&mut self`.
        unsafe {
            let start = self.address(filled.id).add(filled.offset);
            std::slice::from_raw_parts(start, filled.length)
        }
    }

    fn give(&mut self, id: u16) {
        let address = self.address(id) as u64;
        self.named[usize::from(id)] = 0;
        let position = usize::from(self.tail & (self.count - 1));
        let entries = self.base.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the position is below the count, and the kernel reads an entry only after the
        // tail has passed it. The setters leave the field alone that doubles as the tail in entry
        // 0.
        let entry = unsafe { &mut *entries.add(position) };
        entry.set_addr(address);
        entry.set_len(self.buffer_bytes);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `entries` is the base of the registered, initialized ring; the tail is an aligned
        // u16 that the kernel only reads.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    fn completion(&mut self, entry: &cqueue::Entry) -> Completion {
        let (result, flags) = (entry.result(), entry.flags());
        let filled = cqueue::buffer_select(flags).map(|id| {
            assert!(id < self.count, "the kernel names one of our buffers");
            let length = usize::try_from(result).unwrap_or(0);
            let named = &mut self.named[usize::from(id)];
            let offset = *named;
            *named += length;
            let last = if cqueue::buffer_more(flags) {
                LastPiece::No
            } else {
                LastPiece::Yes
            };
            FilledBuffer {
                id,
                offset,
                length,
                last,
            }
        });
        let continuation = if cqueue::more(flags) {
            Continuation::More
        } else {
            Continuation::Last
        };
        let result = if result < 0 {
            if let Some(FilledBuffer {
                id,
                last: LastPiece::Yes,
                ..
            }) = filled
            {
                self.give(id);
            }
            Err(Errno::from_raw_os_error(-result))
        } else {
            Ok(filled)
        };
        Completion {
            token: entry.user_data(),
            result,
            continuation,
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; `Ring` unregistered it before.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a function in map_err"
)]
fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Makes buffers of a shape and gives them all to the kernel.
fn register(ring: &IoUring, bytes: u32, shape: Shape) -> Result<Buffers, Errno> {
    let Shape { count, flags } = shape;
    let mut buffers = Buffers::new(count, bytes / u32::from(count))?;
    let base = buffers.base.as_ptr() as u64;
    // SAFETY: the entries stay allocated until `Ring::drop` has unregistered them; when the call
    // fails, nothing is registered.
    unsafe {
        ring.submitter()
            .register_buf_ring_with_flags(base, count, BUFFER_GROUP, flags)
    }
    .map_err(errno_of)?;
    for id in 0..count {
        buffers.give(id);
    }
    Ok(buffers)
}
