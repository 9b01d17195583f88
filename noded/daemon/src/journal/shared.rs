//! What the loop and the journal's two threads know of its file, and how they wait for each other.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noded_core::journal::JournalRecord;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Progress;
use super::bell::Bell;
use super::file::Opened;

/// Whether what the disk said of the file can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// It can.
    Trusted,
    /// A sync failed. The kernel may have dropped what it could not write and would call the next
    /// sync a success: only a new file can be trusted.
    Lost,
}

/// Where replacing the file stands.
#[derive(Debug, Default)]
pub(super) enum Compaction {
    /// Nobody asked for it.
    #[default]
    None,
    /// It was asked for: these records say the same as everything up to number `upto`.
    Wanted {
        records: Vec<JournalRecord>,
        upto: u64,
    },
    /// It is being done.
    UnderWay,
    /// It failed; not before this it is worth another attempt.
    Failed(Instant),
}

/// What the loop and both threads know of the file.
#[derive(Debug)]
pub(super) struct State {
    pub(super) file: Arc<File>,
    /// Rises whenever another file is in use: what was synced of an earlier one says nothing.
    pub(super) generation: u64,
    /// Where the last whole record ends.
    pub(super) end: u64,
    /// Where it ended when the file was new.
    pub(super) compacted: u64,
    pub(super) written: u64,
    pub(super) synced: u64,
    /// Framed records that are not in the file, and the number of the newest.
    pub(super) pending: Vec<u8>,
    pub(super) pending_upto: u64,
    /// When writing is tried again, where it failed.
    pub(super) retry: Option<Instant>,
    /// Up to which record somebody waits for the disk.
    pub(super) sync_upto: u64,
    pub(super) trust: Trust,
    pub(super) compaction: Compaction,
    /// The loop did not wait for what is pending: it wants to hear of it.
    pub(super) late: bool,
    pub(super) closing: bool,
}

/// Shared by the loop's half and both threads.
pub(super) struct Shared {
    state: Mutex<State>,
    /// For the writer: something is pending or wanted.
    pub(super) work: Bell,
    /// For the syncer: somebody waits for the disk.
    pub(super) sync_work: Condvar,
    /// For whoever waits for `written`.
    pub(super) progress: Condvar,
    pub(super) on_progress: Box<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// An open file of which nothing is pending.
    pub(super) fn new(
        opened: Opened,
        work: Bell,
        on_progress: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let Opened { file, end } = opened;
        let state = State {
            file: Arc::new(file),
            generation: 0,
            end,
            compacted: end,
            written: 0,
            synced: 0,
            pending: Vec::new(),
            pending_upto: 0,
            retry: None,
            sync_upto: 0,
            trust: Trust::Trusted,
            compaction: Compaction::None,
            late: false,
            closing: false,
        };
        Self {
            state: Mutex::new(state),
            work,
            sync_work: Condvar::new(),
            progress: Condvar::new(),
            on_progress,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn progress(&self) -> Progress {
        let state = self.lock();
        Progress {
            written: state.written,
            synced: state.synced,
        }
    }

    /// Waits until everything pending is written, at most `limit`.
    pub(super) fn wait_written(&self, limit: Duration) {
        let mut state = self.lock();
        if state.late {
            return;
        }
        let end = Instant::now() + limit;
        while state.written < state.pending_upto {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.late = true;
                return;
            }
            self.progress.wait_for(&mut state, left);
        }
    }

    /// Ends both threads. What is pending is written first, where that takes no longer than
    /// `limit`.
    pub(super) fn close(&self, limit: Duration) {
        self.wait_written(limit);
        self.lock().closing = true;
        self.work.ring();
        self.sync_work.notify_one();
    }
}

impl State {
    /// Whether the disk refused what is pending.
    #[cfg(test)]
    pub(super) fn is_stuck(&self) -> bool {
        self.retry.is_some() && !self.pending.is_empty()
    }

    /// Whether a sync would bring somebody what it waits for; or, where the disk takes its time to
    /// write, at least a part of it.
    pub(super) fn wants_sync(&self) -> bool {
        let worthwhile = self.written >= self.sync_upto || self.late;
        self.trust == Trust::Trusted
            && self.sync_upto > self.synced
            && self.written > self.synced
            && worthwhile
    }
}
