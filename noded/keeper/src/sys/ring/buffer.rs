//! The memory that the kernel reads into: one buffer, which it fills piece by piece.
//!
//! What makes it sound: the memory belongs to [`SharedBuffer`]; only bytes that a completion has
//! named are lent, and only until the buffer is given back, after which the kernel may write to
//! them again; and the ring unregisters it before it is freed.

use io_uring_pump::IoUring;
use io_uring_pump::types::BufRingEntry;
use rustix::io::Errno;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The kernel wants its entries on a page of their own; the bytes follow on the next one.
const PAGE_BYTES: usize = 4096;

/// `IOU_PBUF_RING_INC` (linux/io_uring.h): buffers are consumed piece by piece.
const PIECE_BY_PIECE: u16 = 2;

/// The ring of entries has one, so that every read finds all the room that is left.
const ENTRIES: u16 = 1;
const ID: u16 = 0;

/// Bytes that were read; to be given back with [`SharedBuffer::recycle`].
#[derive(Debug)]
pub(crate) struct Piece {
    lap: u64,
    offset: usize,
    length: usize,
    last: Last,
}

/// Whether the buffer is full, and goes back to the kernel once this piece was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Yes,
    No,
}

/// The entry (first) and the bytes (after it) in one allocation.
pub(super) struct SharedBuffer {
    base: NonNull<u8>,
    layout: Layout,
    length: u32,
    /// How often it was given to the kernel.
    laps: u64,
    /// How much of it completions have named since it was last given to the kernel.
    named: usize,
}

impl SharedBuffer {
    /// Makes a buffer and gives it to the kernel.
    pub(super) fn register(ring: &IoUring, group: u16, length: u32) -> Result<Self, Errno> {
        let size = PAGE_BYTES + length as usize;
        let layout = Layout::from_size_align(size, PAGE_BYTES).map_err(|_| Errno::INVAL)?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        let mut buffer = Self {
            base,
            layout,
            length,
            laps: 0,
            named: 0,
        };
        // SAFETY: the entry stays allocated until `Ring::drop` has unregistered it; when the call
        // fails, nothing is registered.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                base.as_ptr() as u64,
                ENTRIES,
                group,
                PIECE_BY_PIECE,
            )
        }
        .map_err(|error| super::errno_of(&error))?;
        buffer.give();
        Ok(buffer)
    }

    /// The piece that a completion names.
    pub(super) fn piece(&mut self, id: u16, length: usize, more: bool) -> Piece {
        assert_eq!(id, ID, "the kernel names our buffer");
        let offset = self.named;
        self.named += length;
        let last = if more { Last::No } else { Last::Yes };
        Piece {
            lap: self.laps,
            offset,
            length,
            last,
        }
    }

    pub(super) fn bytes(&self, piece: &Piece) -> &[u8] {
        let end = piece.offset + piece.length;
        assert!(end <= self.length as usize, "the kernel stays within it");
        assert_eq!(piece.lap, self.laps, "the buffer was given back since");
        // SAFETY: the piece lies within the buffer (checked above), whose memory is allocated and
        // was zeroed. The kernel writes only behind the pieces that it has named until the buffer
        // is given back, which was not done since (checked above) and takes `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start().add(piece.offset), piece.length) }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a second use is impossible")]
    pub(super) fn recycle(&mut self, piece: Piece) {
        if piece.last == Last::Yes {
            self.give();
        }
    }

    fn start(&self) -> *mut u8 {
        // SAFETY: the allocation is a page and `length` bytes long.
        unsafe { self.base.as_ptr().add(PAGE_BYTES) }
    }

    fn give(&mut self) {
        let address = self.start() as u64;
        self.named = 0;
        let entries = self.base.as_ptr().cast::<BufRingEntry>();
        // SAFETY: the allocation begins with the one entry, and the kernel reads it only after the
        // tail has passed it. The setters leave the field alone that doubles as the tail.
        let entry = unsafe { &mut *entries };
        entry.set_addr(address);
        entry.set_len(self.length);
        entry.set_bid(ID);
        self.laps += 1;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the tail counts modulo 2^16"
        )]
        let tail_after = self.laps as u16;
        // SAFETY: `entries` is the base of the registered, initialized ring; the tail is an aligned
        // u16 that the kernel only reads.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(tail_after, Ordering::Release);
    }
}

impl Drop for SharedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `register` with this layout; `Ring` unregistered it before.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
