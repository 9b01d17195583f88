//! The bytes of log entries, votes, positions and memberships, on disk and between servers.
//!
//! The layouts are ours, not the consensus library's, so that its next version cannot change what
//! is on disks. Every record begins with [`VERSION`]. An entry is
//! `version u8 | sort u8 | term u64 | index u64 | body`, big-endian; a command's body is its bytes
//! as they are. Everything else is postcard after the version.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};
use openraft::EntryPayload;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::{Command, Entry, LogId, Payload, SnapshotMeta, StoredMembership, Vote};
use crate::member::{Membership, ServerId, ServerInfo};

/// The version of all records.
pub(crate) const VERSION: u8 = 1;

const SORT_BLANK: u8 = 0;
const SORT_COMMAND: u8 = 1;
const SORT_MEMBERSHIP: u8 = 2;
const ENTRY_HEADER_BYTES: usize = 18;

/// Why bytes are no record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("a {what} is empty")]
    Empty { what: &'static str },
    #[error("a {what} has version {version}, known is {VERSION}")]
    Version { what: &'static str, version: u8 },
    #[error("a {what} is malformed")]
    Malformed {
        what: &'static str,
        #[source]
        source: postcard::Error,
    },
    #[error("a log entry is cut off")]
    EntryCutOff,
    #[error("a log entry has unknown sort {0}")]
    EntrySort(u8),
    #[error("a membership contradicts itself: {0}")]
    Membership(String),
}

impl From<RecordError> for std::io::Error {
    fn from(error: RecordError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PositionRecord {
    term: u64,
    index: u64,
}

impl From<LogId> for PositionRecord {
    fn from(log_id: LogId) -> Self {
        Self {
            term: *log_id.leader_id,
            index: log_id.index,
        }
    }
}

impl From<PositionRecord> for LogId {
    fn from(record: PositionRecord) -> Self {
        Self::new_term_index(record.term, record.index)
    }
}

/// A vote, or the claim of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteRecord {
    term: u64,
    server: u64,
    committed: bool,
}

impl From<Vote> for VoteRecord {
    fn from(vote: Vote) -> Self {
        let Vote {
            leader_id,
            committed,
        } = vote;
        Self {
            term: leader_id.term,
            server: leader_id.voted_for,
            committed,
        }
    }
}

impl From<VoteRecord> for Vote {
    fn from(record: VoteRecord) -> Self {
        let leader_id = openraft::impls::leader_id_std::LeaderId {
            term: record.term,
            voted_for: record.server,
        };
        Self {
            leader_id,
            committed: record.committed,
        }
    }
}

/// Who votes, in one configuration or two, and how every server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipRecord {
    configurations: Vec<BTreeSet<u64>>,
    servers: BTreeMap<u64, ServerInfo>,
}

type LibraryMembership = openraft::Membership<u64, ServerInfo>;

impl From<&LibraryMembership> for MembershipRecord {
    fn from(membership: &LibraryMembership) -> Self {
        Self {
            configurations: membership.get_joint_config().clone(),
            servers: membership
                .nodes()
                .map(|(id, info)| (*id, info.clone()))
                .collect(),
        }
    }
}

impl TryFrom<MembershipRecord> for LibraryMembership {
    type Error = RecordError;

    fn try_from(record: MembershipRecord) -> Result<Self, RecordError> {
        // The library's own value for "none yet", which its constructor would refuse.
        if record.configurations.is_empty() && record.servers.is_empty() {
            return Ok(Self::default());
        }
        Self::new(record.configurations, record.servers)
            .map_err(|error| RecordError::Membership(error.to_string()))
    }
}

/// What a snapshot covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotRecord {
    last: Option<PositionRecord>,
    membership_at: Option<PositionRecord>,
    membership: MembershipRecord,
}

impl From<&SnapshotMeta> for SnapshotRecord {
    fn from(meta: &SnapshotMeta) -> Self {
        Self {
            last: meta.last_log_id.map(Into::into),
            membership_at: meta.last_membership.log_id().map(Into::into),
            membership: meta.last_membership.membership().into(),
        }
    }
}

impl TryFrom<SnapshotRecord> for SnapshotMeta {
    type Error = RecordError;

    fn try_from(record: SnapshotRecord) -> Result<Self, RecordError> {
        let membership = record.membership.try_into()?;
        Ok(Self {
            last_log_id: record.last.map(Into::into),
            last_membership: StoredMembership::new(
                record.membership_at.map(Into::into),
                membership,
            ),
        })
    }
}

/// Encodes any record but an entry.
pub(crate) fn encode<T: Serialize>(record: &T) -> Bytes {
    let mut bytes = Vec::with_capacity(64);
    bytes.push(VERSION);
    // Writing to memory fails only for types without a length, and no record has one.
    match postcard::to_extend(record, bytes) {
        Ok(bytes) => bytes.into(),
        Err(error) => unreachable!("a record does not serialize: {error}"),
    }
}

/// Decodes any record but an entry; `what` names it in errors.
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, RecordError> {
    match bytes.split_first() {
        None => Err(RecordError::Empty { what }),
        Some((&VERSION, body)) => {
            postcard::from_bytes(body).map_err(|source| RecordError::Malformed { what, source })
        }
        Some((&version, _)) => Err(RecordError::Version { what, version }),
    }
}

/// Encodes a log entry.
pub(crate) fn encode_entry(entry: &Entry) -> Bytes {
    let position = PositionRecord::from(entry.log_id);
    let (sort, body) = match &entry.payload {
        EntryPayload::Blank => (SORT_BLANK, Bytes::new()),
        EntryPayload::Normal(Command(bytes)) => (SORT_COMMAND, bytes.clone()),
        EntryPayload::Membership(membership) => {
            (SORT_MEMBERSHIP, encode(&MembershipRecord::from(membership)))
        }
    };
    let mut bytes = BytesMut::with_capacity(ENTRY_HEADER_BYTES + body.len());
    bytes.put_u8(VERSION);
    bytes.put_u8(sort);
    bytes.put_u64(position.term);
    bytes.put_u64(position.index);
    bytes.put_slice(&body);
    bytes.freeze()
}

/// Decodes a log entry; a command shares the memory of `bytes`.
pub(crate) fn decode_entry(mut bytes: Bytes) -> Result<Entry, RecordError> {
    let what = "log entry";
    let Some(header) = bytes.first_chunk::<ENTRY_HEADER_BYTES>() else {
        return Err(RecordError::EntryCutOff);
    };
    let [version, sort, numbers @ ..] = *header;
    if version != VERSION {
        return Err(RecordError::Version { what, version });
    }
    let (term, index) = numbers.split_at(8);
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let log_id = LogId::new_term_index(number(term), number(index));
    let body = bytes.split_off(ENTRY_HEADER_BYTES);
    let payload: Payload = match sort {
        SORT_BLANK => EntryPayload::Blank,
        SORT_COMMAND => EntryPayload::Normal(Command(body)),
        SORT_MEMBERSHIP => {
            EntryPayload::Membership(decode::<MembershipRecord>("membership", &body)?.try_into()?)
        }
        other => return Err(RecordError::EntrySort(other)),
    };
    Ok(Entry { log_id, payload })
}

/// A membership as the rest of the control plane sees it.
pub(crate) fn membership_view(stored: &StoredMembership) -> Membership {
    let membership = stored.membership();
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let mut view = Membership {
        changing: membership.get_joint_config().len() > 1,
        index: stored.log_id().as_ref().map_or(0, |log_id| log_id.index),
        ..Membership::default()
    };
    for (id, info) in membership.nodes() {
        let side = if voters.contains(id) {
            &mut view.voters
        } else {
            &mut view.learners
        };
        side.insert(ServerId::from_u64(*id), info.clone());
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(payload: Payload) -> Entry {
        Entry {
            log_id: LogId::new_term_index(3, 258),
            payload,
        }
    }

    fn membership() -> LibraryMembership {
        let info = ServerInfo {
            name: "a".into(),
            address: "h:1".into(),
            http_address: String::new(),
        };
        LibraryMembership::new(vec![BTreeSet::from([7])], BTreeMap::from([(7, info)]))
            .expect("a membership")
    }

    #[test]
    fn the_bytes_of_entries_are_frozen() {
        let command = entry(EntryPayload::Normal(Command(Bytes::from_static(b"xyz"))));
        let header = [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 2];
        let expected = [&[1, 1][..], &header, b"xyz"].concat();
        assert_eq!(encode_entry(&command), expected);
        assert_eq!(
            encode_entry(&entry(EntryPayload::Blank)),
            [&[1, 0][..], &header].concat()
        );
        let membership = entry(EntryPayload::Membership(membership()));
        let body = [1, 1, 1, 7, 1, 7, 1, b'a', 3, b'h', b':', b'1', 0];
        assert_eq!(
            encode_entry(&membership),
            [&[1, 2][..], &header, &body].concat()
        );
    }

    #[test]
    fn the_bytes_of_votes_and_positions_are_frozen() {
        let vote = Vote {
            leader_id: openraft::impls::leader_id_std::LeaderId {
                term: 300,
                voted_for: 2,
            },
            committed: true,
        };
        assert_eq!(
            encode(&VoteRecord::from(vote)),
            [1, 0xac, 2, 2, 1].as_slice()
        );
        let position = PositionRecord::from(LogId::new_term_index(1, 9));
        assert_eq!(encode(&position), [1, 1, 9].as_slice());
    }

    #[test]
    fn every_sort_of_entry_reads_back_as_itself() {
        let payloads: [Payload; 3] = [
            EntryPayload::Blank,
            EntryPayload::Normal(Command(Bytes::from_static(&[0; 1000]))),
            EntryPayload::Membership(membership()),
        ];
        for payload in payloads {
            let entry = entry(payload);
            assert_eq!(decode_entry(encode_entry(&entry)).expect("decodes"), entry);
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_refused_by_name() {
        let error = decode::<VoteRecord>("vote", &[9, 0, 0, 0]).expect_err("must refuse");
        assert_eq!(error.to_string(), "a vote has version 9, known is 1");
    }

    #[test]
    fn a_cut_off_entry_is_refused() {
        let bytes = encode_entry(&entry(EntryPayload::Membership(membership())));
        for length in 0..bytes.len() {
            assert!(decode_entry(bytes.slice(..length)).is_err(), "{length}");
        }
    }
}
