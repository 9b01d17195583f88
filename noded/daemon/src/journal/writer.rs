//! The thread that writes the file and replaces it.
//!
//! ```text
//!   Journal --pending--> writer --written--> syncer (one fdatasync for all that is written)
//!      ^                   | replaces the file          | synced
//!      +--- progress ------+----------------------------+
//! ```
//!
//! Neither is the loop that sends heartbeats: a disk that takes seconds, or never answers, delays
//! what waits for the journal and nothing else. They are two so that an append does not wait for
//! the sync of those before it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noded_core::journal::JournalRecord;
use parking_lot::MutexGuard;
use protocol_error_chain::chain;

use super::Disk;
use super::file::{Replaced, Reserve, replace};
use super::shared::{Compaction, Shared, State, Trust};

/// How often a disk that refused is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// What the writer does next.
enum Job {
    Write {
        bytes: Vec<u8>,
        upto: u64,
    },
    Compact {
        records: Vec<JournalRecord>,
        upto: u64,
    },
    /// The loop may ask for a compaction again.
    TellOfRetry,
    End,
}

pub(super) struct Writer {
    directory: PathBuf,
    reserve: Reserve,
    disk: Disk,
    shared: Arc<Shared>,
}

impl Writer {
    pub(super) fn new(directory: PathBuf, disk: Disk, shared: Arc<Shared>) -> Self {
        let reserve = Reserve::of(&shared.lock().file, &directory);
        Self {
            reserve,
            directory,
            disk,
            shared,
        }
    }

    /// Writes until the journal is closed.
    pub(super) fn run(mut self) {
        self.keep_reserve();
        loop {
            match self.next() {
                Job::Write { bytes, upto } => self.write(bytes, upto),
                Job::Compact { records, upto } => self.compact(&records, upto),
                Job::TellOfRetry => (self.shared.on_progress)(),
                Job::End => return,
            }
        }
    }

    /// Waits for something to do.
    fn next(&self) -> Job {
        loop {
            let mut state = self.shared.lock();
            if state.closing {
                return Job::End;
            }
            let now = Instant::now();
            if let Compaction::Wanted { .. } = state.compaction
                && let Compaction::Wanted { records, upto } =
                    std::mem::replace(&mut state.compaction, Compaction::UnderWay)
            {
                return Job::Compact { records, upto };
            }
            if let Compaction::Failed(until) = state.compaction
                && until <= now
            {
                state.compaction = Compaction::None;
                return Job::TellOfRetry;
            }
            if !state.pending.is_empty() && state.retry.is_none_or(|at| at <= now) {
                return Job::Write {
                    bytes: std::mem::take(&mut state.pending),
                    upto: state.pending_upto,
                };
            }
            let compaction = match state.compaction {
                Compaction::Failed(until) => Some(until),
                Compaction::None | Compaction::Wanted { .. } | Compaction::UnderWay => None,
            };
            let retry = state.retry.filter(|_| !state.pending.is_empty());
            let wait = [retry, compaction].into_iter().flatten().min();
            drop(state);
            let limit = wait.map(|until| until.saturating_duration_since(now));
            self.shared.work.wait(limit);
        }
    }

    fn write(&mut self, bytes: Vec<u8>, upto: u64) {
        let (file, end) = {
            let state = self.shared.lock();
            (Arc::clone(&state.file), state.end)
        };
        // At a fixed place: what an earlier attempt left half-written is written over.
        let written = (self.disk.write)(&file, &bytes, end);
        let mut state = self.shared.lock();
        match written {
            Ok(()) => {
                if state.retry.take().is_some() {
                    tracing::info!("the journal can be written again");
                }
                state.end += bytes.len() as u64;
                state.written = upto;
                if state.wants_sync() {
                    self.shared.sync_work.notify_one();
                }
                self.told(state);
                self.keep_reserve();
            }
            Err(error) => {
                tracing::error!(%error, "the journal cannot be written; waiting for room");
                let later = std::mem::replace(&mut state.pending, bytes);
                state.pending.extend(later);
                state.retry = Some(Instant::now() + RETRY);
            }
        }
    }

    fn compact(&mut self, records: &[JournalRecord], upto: u64) {
        let replaced = replace(&self.directory, records);
        let mut state = self.shared.lock();
        state.compaction = Compaction::None;
        let problem = match replaced {
            Ok(Replaced { file, end, durable }) => {
                self.reserve.measure(&file);
                state.file = Arc::new(file);
                state.generation += 1;
                state.end = end;
                state.compacted = end;
                state.trust = Trust::Trusted;
                match durable {
                    Ok(()) => {
                        state.synced = state.synced.max(upto);
                        None
                    }
                    // Its name may not be on the disk: in use, and not trusted.
                    Err(error) => {
                        state.trust = Trust::Lost;
                        Some(error)
                    }
                }
            }
            Err(error) => Some(error),
        };
        if let Some(error) = problem {
            tracing::error!(error = %chain(&error), "the journal is not compacted");
            state.compaction = Compaction::Failed(Instant::now() + RETRY);
        }
        state.late = true;
        self.told(state);
        self.keep_reserve();
    }

    /// Something moved: whoever waits is woken, and the loop where it does not.
    fn told(&self, mut state: MutexGuard<'_, State>) {
        let late = state.late;
        state.late = late && state.written < state.pending_upto;
        drop(state);
        self.shared.progress.notify_all();
        if late {
            (self.shared.on_progress)();
        }
    }

    /// After the news, not before: allocating takes its time.
    fn keep_reserve(&mut self) {
        let (file, end) = {
            let state = self.shared.lock();
            (Arc::clone(&state.file), state.end)
        };
        if self.reserve.is_short(end) {
            self.reserve.extend(&file, end);
        }
    }
}
