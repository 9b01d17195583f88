//! The log and the vote, as the consensus library asks for them.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytes::Bytes;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot, watch};

use super::directory::Held;
use super::log_end::LogEnd;
use super::places::{Found, Places};
use super::recovery::Recovered;
use super::request::{Done, Request};
use super::tail::Tail;
use super::writer::{Parts, Writer};
use crate::compaction::Appended;
use crate::engine::{Entry, LogId, TypeConfig, Vote};
use crate::record::{self, VoteRecord};

/// Bytes of entries in one append to a follower, unless the first alone is larger.
const APPEND_BYTES_MAX: usize = 1024 * 1024;

/// A handle on the log; clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    held: Arc<Held>,
    tail: Arc<RwLock<Tail>>,
    places: Arc<RwLock<Places>>,
    requests: mpsc::Sender<Request>,
    appended: Appended,
}

impl Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").finish_non_exhaustive()
    }
}

impl LogStore {
    /// Starts the writer of a log that was read back.
    pub(crate) fn start(recovered: Recovered) -> io::Result<Self> {
        let Recovered {
            id,
            directory,
            held,
            tail,
            places,
            segments,
            recorded: _,
            disk,
        } = recovered;
        let end = LogEnd::open(&*disk, &directory, id, segments.reached())?;
        let held = Arc::new(held);
        let tail = Arc::new(RwLock::new(tail));
        let places = Arc::new(RwLock::new(places));
        let requests = Writer::start(Parts {
            disk,
            held: Arc::clone(&held),
            segments,
            end,
            places: Arc::clone(&places),
            tail: Arc::clone(&tail),
        })?;
        Ok(Self {
            held,
            tail,
            places,
            requests,
            appended: Appended::default(),
        })
    }

    /// Makes the committed index durable, for a restart without repeating work, and the record of
    /// how far the log reached.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        self.ask(|done| Request::Flush { done }).await
    }

    /// For who flushes and must not keep the log open.
    pub(crate) fn flusher(&self) -> LogFlusher {
        LogFlusher(self.requests.downgrade())
    }

    /// Whether this server ever voted or followed a leader.
    pub(crate) fn has_voted(&self) -> bool {
        self.tail.read().vote.is_some()
    }

    /// How much has been appended so far.
    pub(crate) fn appended(&self) -> Appended {
        self.appended.clone()
    }

    /// A watch that ends when the last user of the log has let go of it.
    pub(crate) fn closed(&self) -> watch::Receiver<()> {
        self.held.released()
    }

    async fn ask(&self, request: impl FnOnce(Done) -> Request) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        self.send(request(done)).await?;
        answer.await.map_err(|_| writer_gone())?
    }

    async fn send(&self, request: Request) -> io::Result<()> {
        self.requests.send(request).await.map_err(|_| writer_gone())
    }

    /// The entries of `[start, end)` that the log contains, up to `bytes_max` but at least one;
    /// fewer, without a gap, where some are removed meanwhile.
    async fn entries(&self, start: u64, end: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        // One look at the tail: what is not here is durable, so the disk has it.
        let (start, disk_end, here) = {
            let tail = self.tail.read();
            let (start, end) = tail.clamp(start, end);
            let disk_end = tail.first_here().min(end);
            let here: Vec<(Entry, usize)> = tail
                .range(start, end)
                .map(|(entry, bytes)| (entry.clone(), bytes))
                .collect();
            (start, disk_end, here)
        };
        let mut entries = Vec::new();
        let mut room = bytes_max;
        if start < disk_end {
            let (found, bytes) = self.places.read().find(start, disk_end, bytes_max);
            let joins = found.last().is_none_or(|last| last.index() + 1 == disk_end);
            let is_cut = bytes >= bytes_max || !joins;
            entries = tokio::task::spawn_blocking(move || read_entries(&found))
                .await
                .map_err(|_| io::Error::other("reading the log was cancelled"))??;
            if is_cut {
                return Ok(entries);
            }
            room -= bytes;
        }
        for (entry, bytes) in here {
            if !entries.is_empty() && bytes > room {
                break;
            }
            room = room.saturating_sub(bytes);
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// Flushes the log as long as others use it.
#[derive(Debug, Clone)]
pub(crate) struct LogFlusher(mpsc::WeakSender<Request>);

impl LogFlusher {
    /// See [`LogStore::flush`]. A log that was closed was flushed before.
    pub(crate) async fn flush(&self) -> io::Result<()> {
        let Some(requests) = self.0.upgrade() else {
            return Ok(());
        };
        let (done, answer) = oneshot::channel();
        let sent = requests.send(Request::Flush { done }).await;
        sent.map_err(|_| writer_gone())?;
        drop(requests);
        answer.await.map_err(|_| writer_gone())?
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.entries(start, end, usize::MAX).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.tail.read().vote)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        let mut entries = self.entries(start, end, APPEND_BYTES_MAX).await?;
        // A follower is told that these follow the entry before `start`.
        if entries.first().map(|entry| entry.log_id.index) != Some(start) {
            entries.clear();
        }
        Ok(entries)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let tail = self.tail.read();
        Ok(LogState {
            last_purged_log_id: tail.purged,
            last_log_id: tail.last,
        })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.ask(|done| Request::Vote {
            vote: VoteRecord::from(*vote),
            done,
        })
        .await?;
        // Only a vote on disk may be seen: readers act on it.
        self.tail.write().vote = Some(*vote);
        Ok(())
    }

    /// Keeps the index in memory; it is written together with the next entries, so it costs no
    /// fsync and trails by at most the last group after a crash.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.tail.write().committed = committed;
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.tail.read().committed)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut encoded: Vec<(u64, Bytes)> = Vec::new();
        {
            let mut tail = self.tail.write();
            for entry in entries {
                let bytes = record::encode_entry(&entry);
                self.appended.add(bytes.len());
                encoded.push((entry.log_id.index, bytes.clone()));
                tail.push(entry, bytes.len());
            }
        }
        self.send(Request::Append {
            entries: encoded,
            done: callback,
        })
        .await
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        self.tail.write().truncate(last_log_id);
        let first = last_log_id.map_or(0, |log_id| log_id.index + 1);
        self.ask(|done| Request::Truncate { first, done }).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.tail.write().purge(log_id);
        self.ask(|done| Request::Purge { upto: log_id, done }).await
    }
}

fn writer_gone() -> io::Error {
    io::Error::other("the log's writer is gone")
}

fn read_entries(found: &[Found]) -> io::Result<Vec<Entry>> {
    let decode = |found: &Found| Ok(record::decode_entry(found.read()?)?);
    found.iter().map(decode).collect()
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;
    use openraft::entry::RaftEntry;
    use openraft::storage::RaftLogStorageExt;

    use super::super::disk::Disk;
    use super::super::host_disk::HostDisk;
    use super::super::recovery;
    use super::*;

    async fn append(log: &mut LogStore, indexes: std::ops::Range<u64>) {
        let entry = |index| Entry::new(LogId::new_term_index(1, index), EntryPayload::Blank);
        let appended = log.blocking_append(indexes.map(entry)).await;
        appended.expect("appends");
    }

    async fn indexes(log: &mut LogStore, start: u64) -> Vec<u64> {
        let entries = log.limited_get_log_entries(start, 100).await;
        let index = |entry: &Entry| entry.log_id.index;
        entries.expect("reads").iter().map(index).collect()
    }

    #[tokio::test]
    async fn a_reader_that_was_overtaken_finds_no_gap() {
        let directory = tempfile::tempdir().expect("a directory");
        let disk: Arc<dyn Disk> = Arc::new(HostDisk);
        let open = || LogStore::start(recovery::open(&disk, directory.path()).expect("opens"));
        let mut log = open().expect("starts");
        append(&mut log, 0..4).await;
        let mut closed = log.closed();
        drop(log);
        while closed.changed().await.is_ok() {}
        let mut log = open().expect("starts");
        append(&mut log, 4..6).await;
        assert_eq!(indexes(&mut log, 0).await, [0, 1, 2, 3, 4, 5]);
        let places = Arc::clone(&log.places);
        let overtake = |change: fn(&mut Places)| change(&mut places.write());
        // What another does between the look at the tail and the one at the disk.
        overtake(|places| places.truncate(3));
        assert_eq!(indexes(&mut log, 0).await, [0, 1, 2]);
        overtake(|places| places.purge(1));
        assert_eq!(indexes(&mut log, 0).await, Vec::<u64>::new());
        let purged = LogId::new_term_index(1, 1);
        log.tail.write().purge(purged);
        assert_eq!(indexes(&mut log, 0).await, Vec::<u64>::new());
        assert_eq!(indexes(&mut log, 2).await, [2]);
    }
}
