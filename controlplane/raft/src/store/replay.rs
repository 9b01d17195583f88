//! What the records of a log come to, one after the other.

use bytes::Bytes;

use super::places::{Place, Places};
use super::segment::{self, Sort};
use super::tail::Tail;
use crate::engine::{LogId, Vote};
use crate::record::{self, PositionRecord, VoteRecord};

/// Where a log stands after the records seen so far.
#[derive(Debug, Default)]
pub(super) struct Replay {
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    /// The index of the first entry that can be in the segments seen.
    begins_at: Option<u64>,
    /// The positions of the entries that are there, by index from the first on: truncation needs
    /// the term of what is left.
    entries: std::collections::VecDeque<LogId>,
}

impl Replay {
    /// Takes a group: `body` at `offset` of `segment`, whose content is `bytes`.
    pub(super) fn group(
        &mut self,
        segment: u64,
        offset: usize,
        body: &[u8],
        bytes: &Bytes,
        places: &mut Places,
    ) -> Result<(), String> {
        for found in segment::records(body) {
            let malformed = || format!("the group at offset {offset} is malformed");
            let (sort, at, content) = found.ok_or_else(malformed)?;
            let start = segment::body_start(offset) + at;
            self.record(
                sort,
                content,
                |length| {
                    let place = Place {
                        segment,
                        offset: start as u64,
                        length: u32::try_from(length).unwrap_or(u32::MAX),
                        crc: crc32fast::hash(content),
                    };
                    (place, bytes.slice(start..start + length))
                },
                places,
            )
            .map_err(|reason| format!("the record at offset {start}: {reason}"))?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        sort: Sort,
        content: &[u8],
        place: impl FnOnce(usize) -> (Place, Bytes),
        places: &mut Places,
    ) -> Result<(), String> {
        let text = |error: record::RecordError| error.to_string();
        let position = || {
            record::decode::<PositionRecord>("position", content)
                .map(LogId::from)
                .map_err(text)
        };
        match sort {
            Sort::End => {}
            Sort::Entry => {
                let (place, bytes) = place(content.len());
                self.entry(
                    record::decode_entry(bytes).map_err(text)?.log_id,
                    place,
                    places,
                )?;
            }
            Sort::Vote => {
                let vote = record::decode::<VoteRecord>("vote", content).map_err(text)?;
                self.vote = Some(vote.into());
            }
            Sort::Truncated => {
                let first = segment::u64_at(content, 0).ok_or("a truncation is cut off")?;
                self.truncate(first);
                places.truncate(first);
            }
            Sort::Purged => {
                let upto = position()?;
                self.purge(upto);
                places.purge(upto.index);
            }
            Sort::Committed => self.committed = Some(position()?),
            Sort::Next => {
                let next = segment::u64_at(content, 0).ok_or("an index is cut off")?;
                self.begins_at.get_or_insert(next);
            }
        }
        Ok(())
    }

    fn entry(&mut self, log_id: LogId, place: Place, places: &mut Places) -> Result<(), String> {
        let index = log_id.index;
        let expected = places.next();
        if expected.is_some_and(|next| next != index) {
            return Err(format!(
                "entry {index} follows entry {}",
                index_before(expected)
            ));
        }
        if self.purged.is_some_and(|purged| purged.index >= index) {
            return Err(format!("entry {index} was removed before"));
        }
        // A segment of before `Next` was written does not say where it begins: its first entry
        // does.
        self.begins_at.get_or_insert(index);
        self.entries.push_back(log_id);
        places.push(index, place);
        Ok(())
    }

    fn truncate(&mut self, first: u64) {
        while self.entries.back().is_some_and(|last| last.index >= first) {
            self.entries.pop_back();
        }
    }

    fn purge(&mut self, upto: LogId) {
        self.purged = self.purged.max(Some(upto));
        while self
            .entries
            .front()
            .is_some_and(|first| first.index <= upto.index)
        {
            self.entries.pop_front();
        }
    }

    /// Sees that no entry is missing between what was removed and what is there.
    pub(super) fn check(&self, places: &Places) -> Result<(), String> {
        let wanted = self.purged.map_or(0, |purged| purged.index + 1);
        match places.first().max(self.begins_at) {
            Some(first) if first > wanted => {
                Err(format!("entries {wanted} to {} are missing", first - 1))
            }
            _ => Ok(()),
        }
    }

    /// The log's ends.
    pub(super) fn tail(&self) -> Tail {
        let last = self.entries.back().copied().max(self.purged);
        // The others may commit an entry that waits to be written here: the index is on disk then,
        // and after a crash the entry is not. What is there was before it, so it is committed too.
        Tail::restored(self.vote, self.committed.min(last), self.purged, last)
    }
}

fn index_before(next: Option<u64>) -> u64 {
    next.unwrap_or(0).saturating_sub(1)
}
