//! The one thread that writes the log. What waits in its queue is written as one group, in order,
//! with one sync; then everyone in the group is told.
//!
//! After the first failure nothing more is written: what a failed fsync left on disk is unknown,
//! so every later request fails with the same words and the server stops.

use std::io;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::mpsc;

use super::directory::Held;
use super::disk::Disk;
use super::log_end::LogEnd;
use super::places::{Place, Places};
use super::request::{Change, Request, encode, finish};
use super::segment::{Group, Sort};
use super::segments::{Segments, Written, path_of};
use super::standing::{Standing, push_position};
use super::tail::Tail;

/// Requests that may wait; the log's driver waits for a place beyond.
pub(crate) const QUEUE_MAX: usize = 1024;

/// Requests in one group: bounds the longest wait.
const REQUESTS_MAX: usize = 256;
/// Bytes of entries after which nothing more joins a group.
const BYTES_MAX: usize = 1024 * 1024;

pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    segments: Segments,
    end: LogEnd,
    places: Arc<RwLock<Places>>,
    tail: Arc<RwLock<Tail>>,
    requests: mpsc::Receiver<Request>,
    /// What is on disk beside the entries. The committed index rides along with whatever is written
    /// next.
    standing: Standing,
    group: Group,
    /// The first group of a segment.
    first: Group,
    /// The last field: whoever takes the directory next must find nothing that still changes, also
    /// where this thread panicked.
    held: Arc<Held>,
}

/// What the writer works on.
pub(super) struct Parts {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) held: Arc<Held>,
    pub(super) segments: Segments,
    pub(super) end: LogEnd,
    pub(super) places: Arc<RwLock<Places>>,
    pub(super) tail: Arc<RwLock<Tail>>,
}

impl Writer {
    pub(super) fn start(parts: Parts) -> io::Result<mpsc::Sender<Request>> {
        let (sender, requests) = mpsc::channel(QUEUE_MAX);
        let Parts {
            disk,
            held,
            segments,
            end,
            places,
            tail,
        } = parts;
        let standing = Standing::of(&tail.read());
        let writer = Self {
            disk: Arc::clone(&disk),
            held,
            segments,
            end,
            places,
            tail,
            requests,
            standing,
            group: Group::default(),
            first: Group::default(),
        };
        disk.run_writer("raft-log", Box::pin(writer.run()))?;
        Ok(sender)
    }

    async fn run(mut self) {
        while let Some(requests) = self.next_requests().await {
            match self.write(&requests).await {
                Ok(()) => succeed(requests),
                Err(error) => {
                    tracing::error!(%error, "the log cannot be written; the server must stop");
                    self.refuse(requests, &error.to_string()).await;
                    break;
                }
            }
        }
        // The files first: whoever takes the directory next must find nothing that still changes.
        drop(self.segments);
        drop(self.end);
        drop(self.held);
    }

    /// Everything that waits, up to the caps; `None` once all senders are gone.
    async fn next_requests(&mut self) -> Option<Vec<Request>> {
        let mut requests = vec![self.requests.recv().await?];
        let mut bytes = requests[0].bytes();
        while requests.len() < REQUESTS_MAX && bytes < BYTES_MAX {
            let Ok(request) = self.requests.try_recv() else {
                break;
            };
            bytes += request.bytes();
            requests.push(request);
        }
        Some(requests)
    }

    async fn write(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut standing = Standing {
            committed: self.tail.read().committed,
            ..self.standing
        };
        self.group.clear();
        let mut changes = Vec::new();
        for request in requests {
            encode(request, &mut self.group, &mut standing, &mut changes)?;
        }
        if let Some(committed) = standing.committed
            && self.standing.committed != standing.committed
        {
            push_position(&mut self.group, Sort::Committed, committed);
        }
        let flushes = requests
            .iter()
            .any(|it| matches!(it, Request::Flush { .. }));
        if self.group.is_empty() {
            return self.note_end(flushes);
        }
        self.standing.write(&mut self.first);
        let written = self
            .segments
            .append(&mut self.group, &mut self.first)
            .await?;
        self.note_end(flushes || written.new_file.is_some())?;
        self.standing = standing;
        let durable = publish(&self.places, &written, &changes);
        let mut tail = self.tail.write();
        tail.set_durable(durable);
        drop(tail);
        let purges = |change: &Change| matches!(change, Change::Purge { .. });
        if let Some(purged) = standing.purged
            && (written.new_file.is_some() || changes.iter().any(purges))
        {
            self.remove_unneeded(purged.index);
        }
        Ok(())
    }

    fn note_end(&self, durably: bool) -> io::Result<()> {
        let reached = self.segments.reached();
        match durably {
            true => self.end.note_durably(reached),
            false => self.end.note(reached),
        }
    }

    /// Removes the files of which nothing is needed once the entries up to `upto` are not.
    fn remove_unneeded(&mut self, upto: u64) {
        loop {
            let unneeded = self.places.write().unneeded(upto);
            let Some(number) = unneeded else {
                return;
            };
            let directory = self.segments.directory();
            let path = path_of(directory, number);
            let removed = match self.disk.remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                removed => removed,
            };
            // In this order on disk too, also when one cannot be removed: a gap would be taken
            // for damage.
            if let Err(error) = removed.and_then(|()| self.disk.sync_directory(directory)) {
                tracing::warn!(
                    path = %path.display(), %error,
                    "an obsolete log segment was not removed; the next snapshot tries again"
                );
                return;
            }
            self.places.write().remove_segment(number);
        }
    }

    /// Answers everything with the failure, for as long as anyone asks.
    async fn refuse(&mut self, requests: Vec<Request>, reason: &str) {
        let mut pending = requests;
        loop {
            for request in pending {
                finish(
                    request,
                    Err(io::Error::other(format!("writing the log: {reason}"))),
                );
            }
            match self.requests.recv().await {
                Some(request) => pending = vec![request],
                None => return,
            }
        }
    }
}

/// Lets readers find what a durable group holds. Returns the last entry that is on disk.
fn publish(places: &RwLock<Places>, written: &Written, changes: &[Change]) -> Option<u64> {
    let mut places = places.write();
    if let Some(file) = &written.new_file {
        places.add_segment(written.segment, Arc::clone(file));
    }
    for change in changes {
        match *change {
            Change::Entry {
                index,
                at,
                length,
                crc,
            } => {
                let place = Place {
                    segment: written.segment,
                    offset: written.offset + at as u64,
                    length,
                    crc,
                };
                places.push(index, place);
            }
            Change::Truncate { first } => places.truncate(first),
            Change::Purge { upto } => places.purge(upto),
        }
    }
    places.next().and_then(|next| next.checked_sub(1))
}

fn succeed(requests: Vec<Request>) {
    for request in requests {
        finish(request, Ok(()));
    }
}
