//! The log as it stands in memory: its ends, its vote, and its newest entries decoded.
//!
//! Entries appear here before they are durable, because the log's driver reads what it has just
//! appended. An entry leaves only when it is durable and older than the newest few megabytes.
//!
//! ```text
//!   purged | on disk only ... | on disk and here | here, being written | last
//! ```

use std::collections::BTreeMap;

use crate::engine::{Entry, LogId, Vote};

/// Bytes of decoded entries kept after they are durable. Followers that keep up, and applying,
/// are served from here; a follower further behind is served from disk.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    pub(crate) last: Option<LogId>,
    /// A contiguous run up to `last`.
    entries: BTreeMap<u64, (Entry, usize)>,
    bytes: usize,
    /// The newest entry known to be on disk.
    durable_index: Option<u64>,
}

impl Tail {
    /// The log as a restart finds it: everything is on disk.
    pub(crate) fn restored(
        vote: Option<Vote>,
        committed: Option<LogId>,
        purged: Option<LogId>,
        last: Option<LogId>,
    ) -> Self {
        let durable_index = last.map(|log_id| log_id.index);
        Self {
            vote,
            committed,
            purged,
            last,
            durable_index,
            ..Self::default()
        }
    }

    /// Adds an entry of `bytes` encoded bytes, not durable yet.
    pub(crate) fn push(&mut self, entry: Entry, bytes: usize) {
        self.last = Some(entry.log_id);
        self.bytes += bytes;
        if let Some((_, replaced)) = self.entries.insert(entry.log_id.index, (entry, bytes)) {
            self.bytes -= replaced;
        }
    }

    /// Forgets the entries above `last`, which becomes the last.
    pub(crate) fn truncate(&mut self, last: Option<LogId>) {
        // Nothing lies above a position beyond the end.
        let index = |log_id: Option<LogId>| log_id.map(|log_id| log_id.index);
        if index(last) >= index(self.last) {
            return;
        }
        let first_removed = last.map_or(0, |log_id| log_id.index + 1);
        let removed = self.entries.split_off(&first_removed);
        self.bytes -= removed.values().map(|(_, bytes)| bytes).sum::<usize>();
        self.last = last.or(self.purged);
        self.durable_index = self.durable_index.min(first_removed.checked_sub(1));
    }

    /// Forgets the entries up to `purged`.
    pub(crate) fn purge(&mut self, purged: LogId) {
        self.purged = self.purged.max(Some(purged));
        self.last = self.last.max(Some(purged));
        let kept = self.entries.split_off(&(purged.index + 1));
        self.bytes -= self.entries.values().map(|(_, bytes)| bytes).sum::<usize>();
        self.entries = kept;
    }

    /// Notes that the disk has the entries up to `index`, no others, and lets old ones go. It goes
    /// back where the disk has caught up with a truncation.
    pub(crate) fn set_durable(&mut self, index: Option<u64>) {
        self.durable_index = index;
        while self.bytes > KEPT_BYTES {
            let Some(oldest) = self.entries.first_entry() else {
                return;
            };
            if Some(*oldest.key()) > self.durable_index {
                return;
            }
            let (_, bytes) = oldest.remove();
            self.bytes -= bytes;
        }
    }

    /// The first index that is here, or the one after the last if none is.
    pub(crate) fn first_here(&self) -> u64 {
        let after_last = self.last.map_or(0, |log_id| log_id.index + 1);
        self.entries
            .first_key_value()
            .map_or(after_last, |(index, _)| *index)
    }

    /// The entries of `[start, end)` that are here, with their encoded sizes.
    pub(crate) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = (&Entry, usize)> {
        let end = end.max(start);
        self.entries
            .range(start..end)
            .map(|(_, (entry, bytes))| (entry, *bytes))
    }

    /// The part of `[start, end)` that the log contains.
    pub(crate) fn clamp(&self, start: u64, end: u64) -> (u64, u64) {
        let first = self.purged.map_or(0, |log_id| log_id.index + 1);
        let after_last = self.last.map_or(0, |log_id| log_id.index + 1);
        (start.max(first), end.min(after_last))
    }
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;

    use super::*;

    fn entry(term: u64, index: u64) -> Entry {
        Entry {
            log_id: LogId::new_term_index(term, index),
            payload: EntryPayload::Blank,
        }
    }

    fn indexes(tail: &Tail) -> Vec<u64> {
        tail.range(0, 100)
            .map(|(entry, _)| entry.log_id.index)
            .collect()
    }

    #[test]
    fn entries_that_are_not_durable_are_never_let_go() {
        let mut tail = Tail::default();
        for index in 1..=3 {
            tail.push(entry(1, index), KEPT_BYTES);
        }
        tail.set_durable(Some(1));
        assert_eq!(indexes(&tail), [2, 3]);
        assert_eq!(tail.first_here(), 2);
        tail.set_durable(Some(3));
        assert_eq!(indexes(&tail), [3]);
    }

    #[test]
    fn truncation_takes_durability_back_with_the_entries() {
        let mut tail = Tail::default();
        for index in 1..=3 {
            tail.push(entry(1, index), 1);
        }
        tail.set_durable(Some(3));
        tail.truncate(Some(LogId::new_term_index(1, 1)));
        assert_eq!(indexes(&tail), [1]);
        for index in 2..=3 {
            tail.push(entry(2, index), KEPT_BYTES);
        }
        tail.set_durable(Some(1));
        assert_eq!(indexes(&tail), [2, 3]);
    }

    #[test]
    fn entries_written_before_their_truncation_do_not_make_their_successors_durable() {
        let mut tail = Tail::default();
        for index in 1..=3 {
            tail.push(entry(1, index), 1);
        }
        tail.truncate(Some(LogId::new_term_index(1, 1)));
        // The writer was behind: first the old entries, then the truncation.
        tail.set_durable(Some(3));
        tail.set_durable(Some(1));
        for index in 2..=3 {
            tail.push(entry(2, index), KEPT_BYTES);
        }
        tail.set_durable(Some(2));
        assert_eq!(indexes(&tail), [3]);
        tail.push(entry(2, 4), KEPT_BYTES);
        tail.set_durable(Some(2));
        assert_eq!(indexes(&tail), [3, 4]);
    }

    #[test]
    fn truncation_makes_nothing_durable() {
        let mut tail = Tail::default();
        for index in 1..=3 {
            tail.push(entry(1, index), KEPT_BYTES);
        }
        tail.truncate(Some(LogId::new_term_index(1, 2)));
        assert_eq!(tail.durable_index, None);
    }

    #[test]
    fn a_purge_beyond_the_end_moves_the_end() {
        let mut tail = Tail::default();
        tail.push(entry(1, 1), 1);
        tail.purge(LogId::new_term_index(2, 9));
        assert_eq!(tail.last, Some(LogId::new_term_index(2, 9)));
        assert_eq!(tail.first_here(), 10);
        assert_eq!(tail.clamp(0, 100), (10, 10));
    }
}
