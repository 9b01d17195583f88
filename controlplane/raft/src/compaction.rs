//! Keeping the log short in bytes. The library counts entries, and an entry is anything from a few
//! bytes to some megabytes: ten thousand large ones would fill a disk before a snapshot is due.
//!
//! ```text
//!   bytes since the last snapshot >= limit --> take one
//!   a snapshot at B, the one before at A, more than the limit since A --> purge up to A
//! ```
//!
//! What lies between the two newest snapshots stays: the older one can be replayed should the newer
//! one be damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use crate::engine::Core;
use crate::status::RaftStatus;

/// Bytes of entries that this process has appended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Appended(Arc<AtomicU64>);

impl Appended {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What to do about the log's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Nothing,
    Snapshot,
    /// Up to this index.
    Purge(u64),
}

/// Decides when; see the top of this file. `total` only grows.
#[derive(Debug)]
struct Compaction {
    limit: u64,
    /// The newest snapshot, and the bytes that had been written when it was first seen.
    newest: (u64, u64),
    /// A snapshot was asked for when so much had been written.
    asked_at: Option<u64>,
}

impl Compaction {
    fn new(limit: u64, snapshot_index: u64) -> Self {
        Self {
            limit,
            newest: (snapshot_index, 0),
            asked_at: None,
        }
    }

    fn step(&mut self, snapshot_index: u64, total: u64) -> Step {
        let (index, at) = self.newest;
        if snapshot_index > index {
            self.newest = (snapshot_index, self.asked_at.take().unwrap_or(total));
            return if total - at >= self.limit && index > 0 {
                Step::Purge(index)
            } else {
                Step::Nothing
            };
        }
        // Asked again only after as much again: one that takes long is not asked for twice.
        if total - self.asked_at.unwrap_or(at) >= self.limit {
            self.asked_at = Some(total);
            return Step::Snapshot;
        }
        Step::Nothing
    }
}

/// Looks after the log for as long as it runs.
pub(crate) async fn run(
    core: Core,
    appended: Appended,
    limit: u64,
    mut status: watch::Receiver<RaftStatus>,
) {
    let mut compaction = Compaction::new(limit, status.borrow().snapshot_index);
    while status.changed().await.is_ok() {
        let (snapshot_index, failed) = {
            let status = status.borrow_and_update();
            (status.snapshot_index, status.failure.is_some())
        };
        if failed {
            return;
        }
        let done = match compaction.step(snapshot_index, appended.total()) {
            Step::Nothing => Ok(()),
            Step::Snapshot => core.trigger().snapshot().await,
            Step::Purge(index) => core.trigger().purge_log(index).await,
        };
        if let Err(error) = done {
            tracing::debug!(%error, "the log was not made shorter");
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_taken_after_so_many_bytes_and_once() {
        let mut compaction = Compaction::new(100, 7);
        assert_eq!(compaction.step(7, 99), Step::Nothing);
        assert_eq!(compaction.step(7, 100), Step::Snapshot);
        assert_eq!(compaction.step(7, 150), Step::Nothing, "it is being taken");
        assert_eq!(compaction.step(7, 200), Step::Snapshot, "or it was lost");
    }

    #[test]
    fn what_is_older_than_the_snapshot_before_the_newest_goes() {
        let mut compaction = Compaction::new(100, 7);
        assert_eq!(compaction.step(7, 100), Step::Snapshot);
        assert_eq!(compaction.step(20, 110), Step::Purge(7));
        assert_eq!(compaction.step(20, 150), Step::Nothing);
        assert_eq!(compaction.step(20, 200), Step::Snapshot);
        assert_eq!(compaction.step(40, 210), Step::Purge(20));
    }

    #[test]
    fn a_log_that_is_short_is_left_to_the_count_of_entries() {
        let mut compaction = Compaction::new(100, 0);
        assert_eq!(compaction.step(20, 10), Step::Nothing);
        assert_eq!(compaction.step(40, 20), Step::Nothing);
    }
}
