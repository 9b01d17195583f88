//! What the log's writer is asked to do, and what that says on disk.

use std::io;

use bytes::Bytes;
use openraft::storage::IOFlushed;
use tokio::sync::oneshot;

use super::segment::{Group, Sort};
use super::standing::{Standing, push_position, push_vote};
use crate::engine::{LogId, TypeConfig};
use crate::record::VoteRecord;

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
    /// Makes the committed index and the record of the log's end durable without anything else.
    Flush {
        done: Done,
    },
}

impl Request {
    /// The bytes of its entries.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Append { entries, .. } => entries.iter().map(|(_, bytes)| bytes.len()).sum(),
            _ => 0,
        }
    }
}

pub(crate) type Done = oneshot::Sender<io::Result<()>>;

/// What a group changes about where entries are, once it is durable.
pub(super) enum Change {
    /// An entry: its index, and where its bytes begin in the group.
    Entry {
        index: u64,
        at: usize,
        length: u32,
        crc: u32,
    },
    Truncate {
        first: u64,
    },
    Purge {
        upto: u64,
    },
}

/// Adds what a request says to a group, and to what will be true once it is durable.
///
/// # Errors
/// Where an entry does not follow the last one: a log with a gap could not be read back. One that
/// nothing was ever removed from or is left in may begin anywhere.
pub(super) fn encode(
    request: &Request,
    group: &mut Group,
    standing: &mut Standing,
    changes: &mut Vec<Change>,
) -> io::Result<()> {
    match request {
        Request::Append { entries, .. } => {
            for (index, bytes) in entries {
                if standing.next == 0 && standing.purged.is_none() {
                    standing.next = *index;
                }
                if *index != standing.next {
                    let next = standing.next;
                    let text = format!("entry {index} was appended where {next} comes next");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
                }
                standing.next += 1;
                changes.push(Change::Entry {
                    index: *index,
                    at: group.push(Sort::Entry, bytes),
                    length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                    crc: crc32fast::hash(bytes),
                });
            }
        }
        Request::Vote { vote, .. } => {
            push_vote(group, vote);
            standing.vote = Some(*vote);
        }
        Request::Truncate { first, .. } => {
            group.push(Sort::Truncated, &first.to_be_bytes());
            let kept = standing.purged.map_or(0, |purged| purged.index + 1);
            standing.next = standing.next.min(*first).max(kept);
            changes.push(Change::Truncate { first: *first });
        }
        Request::Purge { upto, .. } => {
            push_position(group, Sort::Purged, *upto);
            standing.purged = standing.purged.max(Some(*upto));
            standing.next = standing.next.max(upto.index + 1);
            changes.push(Change::Purge { upto: upto.index });
        }
        Request::Flush { .. } => {}
    }
    Ok(())
}

/// Tells whoever asked.
pub(super) fn finish(request: Request, result: io::Result<()>) {
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
