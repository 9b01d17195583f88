//! The one thread that writes the log. What waits in its queue is written as one group, in order,
//! with one durable commit; then everyone in the group is told.
//!
//! After the first failure nothing more is written: what a failed fsync left on disk is unknown,
//! so every later request fails with the same words and the server stops.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use openraft::storage::IOFlushed;
use tokio::sync::{mpsc, oneshot};

use super::database::{HeldDatabase, LOG, META, META_COMMITTED, META_PURGED, META_VOTE};
use super::tail::Tail;
use crate::engine::{LogId, TypeConfig};
use crate::record::{self, PositionRecord, VoteRecord};

/// Requests that may wait; the log's driver waits for a place beyond.
pub(crate) const QUEUE_MAX: usize = 1024;

/// Requests in one group: bounds a transaction's size and its longest wait.
const GROUP_MAX: usize = 256;

/// What the writer is asked to do. Requests take effect in the order in which they were sent.
pub(crate) enum Request {
    Append {
        entries: Vec<(u64, Bytes)>,
        done: IOFlushed<TypeConfig>,
    },
    Vote {
        vote: VoteRecord,
        done: Done,
    },
    /// Removes the entries from `first` on.
    Truncate {
        first: u64,
        done: Done,
    },
    /// Removes the entries up to `upto`.
    Purge {
        upto: LogId,
        done: Done,
    },
    /// Makes the committed index durable without anything else.
    Flush {
        done: Done,
    },
}

pub(crate) type Done = oneshot::Sender<io::Result<()>>;

pub(crate) struct Writer {
    database: Arc<HeldDatabase>,
    tail: Arc<RwLock<Tail>>,
    requests: mpsc::Receiver<Request>,
    /// The committed index as last written: it rides along with whatever is written next.
    committed_on_disk: Option<LogId>,
}

impl Writer {
    pub(crate) fn start(
        database: Arc<HeldDatabase>,
        tail: Arc<RwLock<Tail>>,
    ) -> io::Result<mpsc::Sender<Request>> {
        let (sender, requests) = mpsc::channel(QUEUE_MAX);
        let committed_on_disk = read(&tail).committed;
        let writer = Self {
            database,
            tail,
            requests,
            committed_on_disk,
        };
        std::thread::Builder::new()
            .name("raft-log".to_owned())
            .spawn(|| writer.run())?;
        Ok(sender)
    }

    fn run(mut self) {
        while let Some(group) = self.next_group() {
            match self.write(&group) {
                Ok(()) => succeed(group),
                Err(error) => {
                    tracing::error!(%error, "the log cannot be written; the server must stop");
                    return self.refuse(group, &error.to_string());
                }
            }
        }
    }

    /// Everything that waits, up to the cap; `None` once all senders are gone.
    fn next_group(&mut self) -> Option<Vec<Request>> {
        let mut group = vec![self.requests.blocking_recv()?];
        while group.len() < GROUP_MAX {
            let Ok(request) = self.requests.try_recv() else {
                break;
            };
            group.push(request);
        }
        Some(group)
    }

    fn write(&mut self, group: &[Request]) -> Result<(), redb::Error> {
        let committed = read(&self.tail).committed;
        let mut durable = None;
        let transaction = self.database.begin_write()?;
        {
            let mut log = transaction.open_table(LOG)?;
            let mut meta = transaction.open_table(META)?;
            for request in group {
                match request {
                    Request::Append { entries, .. } => {
                        for (index, bytes) in entries {
                            log.insert(*index, &**bytes)?;
                            durable = Some(*index);
                        }
                    }
                    Request::Vote { vote, .. } => {
                        meta.insert(META_VOTE, &*record::encode(vote))?;
                    }
                    Request::Truncate { first, .. } => {
                        log.retain_in(*first.., |_, _| false)?;
                        durable = durable.filter(|index| index < first);
                    }
                    Request::Purge { upto, .. } => {
                        log.retain_in(..=upto.index, |_, _| false)?;
                        let position = PositionRecord::from(*upto);
                        meta.insert(META_PURGED, &*record::encode(&position))?;
                    }
                    Request::Flush { .. } => {}
                }
            }
            if let Some(log_id) = committed
                && committed != self.committed_on_disk
            {
                let position = PositionRecord::from(log_id);
                meta.insert(META_COMMITTED, &*record::encode(&position))?;
            }
        }
        transaction.commit()?;
        self.committed_on_disk = committed;
        if let Some(index) = durable {
            self.tail
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .set_durable(index);
        }
        Ok(())
    }

    /// Answers everything with the failure, for as long as anyone asks.
    fn refuse(mut self, group: Vec<Request>, reason: &str) {
        let mut pending = group;
        loop {
            for request in pending {
                finish(
                    request,
                    Err(io::Error::other(format!("writing the log: {reason}"))),
                );
            }
            match self.requests.blocking_recv() {
                Some(request) => pending = vec![request],
                None => return,
            }
        }
    }
}

fn succeed(group: Vec<Request>) {
    for request in group {
        finish(request, Ok(()));
    }
}

fn finish(request: Request, result: io::Result<()>) {
    match request {
        Request::Append { done, .. } => done.io_completed(result),
        Request::Vote { done, .. }
        | Request::Truncate { done, .. }
        | Request::Purge { done, .. }
        | Request::Flush { done } => {
            // Nobody waits any more when the server is shutting down.
            let _ = done.send(result);
        }
    }
}

fn read(tail: &RwLock<Tail>) -> std::sync::RwLockReadGuard<'_, Tail> {
    tail.read().unwrap_or_else(PoisonError::into_inner)
}
