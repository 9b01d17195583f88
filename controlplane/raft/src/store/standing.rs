//! What the log says beside its entries: there is one of each.

use super::segment::{Group, Sort};
use super::tail::Tail;
use crate::engine::LogId;
use crate::record::{self, PositionRecord, VoteRecord};

/// As it is on disk. Every segment begins with it, so that the segments before can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standing {
    pub(super) vote: Option<VoteRecord>,
    pub(super) purged: Option<LogId>,
    pub(super) committed: Option<LogId>,
    /// The index of the entry that comes next.
    pub(super) next: u64,
}

impl Standing {
    /// As a log that was just read back has it.
    pub(super) fn of(tail: &Tail) -> Self {
        Self {
            vote: tail.vote.map(VoteRecord::from),
            purged: tail.purged,
            committed: tail.committed,
            next: tail.last.map_or(0, |last| last.index + 1),
        }
    }

    /// Makes `group` say all of it.
    pub(super) fn write(&self, group: &mut Group) {
        group.clear();
        if let Some(vote) = &self.vote {
            push_vote(group, vote);
        }
        if let Some(purged) = self.purged {
            push_position(group, Sort::Purged, purged);
        }
        if let Some(committed) = self.committed {
            push_position(group, Sort::Committed, committed);
        }
        group.push(Sort::Next, &self.next.to_be_bytes());
    }
}

pub(super) fn push_vote(group: &mut Group, vote: &VoteRecord) {
    group.push(Sort::Vote, &record::encode(vote));
}

pub(super) fn push_position(group: &mut Group, sort: Sort, position: LogId) {
    group.push(sort, &record::encode(&PositionRecord::from(position)));
}
