//! The calls that servers make to each other: their numbers, their records, their sizes.

use bytes::Bytes;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::config::COMMAND_BYTES_LIMIT;
use crate::engine::{LogId, TypeConfig};
use crate::member::{ServerId, ServerInfo};
use crate::record::{self, PositionRecord, RecordError, VoteRecord};

/// The largest frame: an append with one command of the largest size, or with a megabyte of
/// smaller ones, and its surroundings.
pub(crate) const FRAME_BYTES_MAX: usize = COMMAND_BYTES_LIMIT + 2 * 1024 * 1024;

/// Snapshots travel in pieces of this size, so that more urgent streams get their turn.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;

/// A frame's kind on a Raft stream. On the wire: never reuse a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CallKind {
    Append = 1,
    Vote = 2,
    PreVote = 3,
    TransferLeader = 4,
    /// Followed by [`CallKind::Chunk`] frames.
    Snapshot = 5,
    Chunk = 6,
    /// "Up to which index must I have applied for a current read?"
    ReadIndex = 7,
    Introduce = 16,
    Pledge = 17,
    Release = 18,
    Join = 19,
    Answer = 64,
    Refusal = 65,
}

impl CallKind {
    const ALL: [Self; 13] = [
        Self::Append,
        Self::Vote,
        Self::PreVote,
        Self::TransferLeader,
        Self::Snapshot,
        Self::Chunk,
        Self::ReadIndex,
        Self::Introduce,
        Self::Pledge,
        Self::Release,
        Self::Join,
        Self::Answer,
        Self::Refusal,
    ];

    pub(crate) const fn to_byte(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.to_byte() == byte)
    }
}

/// A call with its two ends. A server that was replaced behind its address must not answer for
/// the one that was there before.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call<T> {
    pub(crate) from: u64,
    /// 0 when the caller does not know yet who answers at the address.
    pub(crate) to: u64,
    pub(crate) body: T,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AppendRecord {
    vote: VoteRecord,
    previous: Option<PositionRecord>,
    committed: Option<PositionRecord>,
    entries: Vec<Bytes>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum AppendAnswer {
    Success,
    Partial(Option<PositionRecord>),
    Conflict,
    HigherVote(VoteRecord),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VoteCall {
    vote: VoteRecord,
    last: Option<PositionRecord>,
    leadership_transfer: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VoteAnswer {
    vote: VoteRecord,
    granted: bool,
    last: Option<PositionRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TransferCall {
    from_leader: VoteRecord,
    to: u64,
    last: Option<PositionRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum TransferAnswer {
    Accepted,
    VoteChanged {
        expected: VoteRecord,
        actual: VoteRecord,
    },
    LogNotFlushed {
        expected: Option<PositionRecord>,
        actual: Option<PositionRecord>,
    },
}

/// What a snapshot's chunks will add up to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotOffer {
    pub(crate) vote: VoteRecord,
    pub(crate) bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ReadIndexAnswer {
    Index(u64),
    NotLeader,
    /// Whoever asks is in no configuration of the cluster; to an older server it is no answer.
    NotMember,
}

/// What a server says of itself when it looks for its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Introduction {
    pub(crate) id: ServerId,
    pub(crate) info: ServerInfo,
    /// How many servers its configuration waits for; 0: it only joins.
    pub(crate) bootstrap_expect: u32,
    /// Whether it is a member of a cluster.
    pub(crate) member: bool,
    /// Where the leader is, if it knows.
    pub(crate) leader: Option<ServerInfo>,
    /// Addresses of servers that it has heard of, so that one shared address is enough.
    pub(crate) heard_of: Vec<String>,
}

/// "Promise that you will be in this cluster and no other."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PledgeCall {
    pub(crate) members: Vec<(ServerId, ServerInfo)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PledgeAnswer {
    Pledged,
    /// The server promised itself to another, or is a member of a cluster already.
    Refused(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinCall {
    pub(crate) info: ServerInfo,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JoinAnswer {
    /// It is a member now; the log is on its way.
    Joined,
    NotLeader(Option<ServerInfo>),
    Refused(String),
}

impl From<AppendEntriesRequest<TypeConfig>> for AppendRecord {
    fn from(request: AppendEntriesRequest<TypeConfig>) -> Self {
        Self {
            vote: request.vote.into(),
            previous: position(request.prev_log_id),
            committed: position(request.leader_commit),
            entries: request.entries.iter().map(record::encode_entry).collect(),
        }
    }
}

impl TryFrom<AppendRecord> for AppendEntriesRequest<TypeConfig> {
    type Error = RecordError;

    fn try_from(record: AppendRecord) -> Result<Self, RecordError> {
        let entries = record.entries.into_iter().map(record::decode_entry);
        Ok(Self {
            vote: record.vote.into(),
            prev_log_id: log_id(record.previous),
            entries: entries.collect::<Result<_, _>>()?,
            leader_commit: log_id(record.committed),
        })
    }
}

impl From<AppendEntriesResponse<TypeConfig>> for AppendAnswer {
    fn from(response: AppendEntriesResponse<TypeConfig>) -> Self {
        match response {
            AppendEntriesResponse::Success => Self::Success,
            AppendEntriesResponse::PartialSuccess(last) => Self::Partial(position(last)),
            AppendEntriesResponse::Conflict => Self::Conflict,
            AppendEntriesResponse::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

impl From<AppendAnswer> for AppendEntriesResponse<TypeConfig> {
    fn from(answer: AppendAnswer) -> Self {
        match answer {
            AppendAnswer::Success => Self::Success,
            AppendAnswer::Partial(last) => Self::PartialSuccess(log_id(last)),
            AppendAnswer::Conflict => Self::Conflict,
            AppendAnswer::HigherVote(vote) => Self::HigherVote(vote.into()),
        }
    }
}

impl From<VoteRequest<TypeConfig>> for VoteCall {
    fn from(request: VoteRequest<TypeConfig>) -> Self {
        let VoteRequest {
            vote,
            last_log_id,
            leadership_transfer,
        } = request;
        Self {
            vote: vote.into(),
            last: position(last_log_id),
            leadership_transfer,
        }
    }
}

impl From<VoteCall> for VoteRequest<TypeConfig> {
    fn from(call: VoteCall) -> Self {
        Self {
            vote: call.vote.into(),
            last_log_id: log_id(call.last),
            leadership_transfer: call.leadership_transfer,
        }
    }
}

impl From<VoteResponse<TypeConfig>> for VoteAnswer {
    fn from(response: VoteResponse<TypeConfig>) -> Self {
        let VoteResponse {
            vote,
            vote_granted,
            last_log_id,
        } = response;
        Self {
            vote: vote.into(),
            granted: vote_granted,
            last: position(last_log_id),
        }
    }
}

impl From<VoteAnswer> for VoteResponse<TypeConfig> {
    fn from(answer: VoteAnswer) -> Self {
        Self {
            vote: answer.vote.into(),
            vote_granted: answer.granted,
            last_log_id: log_id(answer.last),
        }
    }
}

impl From<&TransferLeaderRequest<TypeConfig>> for TransferCall {
    fn from(request: &TransferLeaderRequest<TypeConfig>) -> Self {
        Self {
            from_leader: (*request.from_leader()).into(),
            to: *request.to_node_id(),
            last: position(request.last_log_id().copied()),
        }
    }
}

impl From<TransferCall> for TransferLeaderRequest<TypeConfig> {
    fn from(call: TransferCall) -> Self {
        Self::new(call.from_leader.into(), call.to, log_id(call.last))
    }
}

impl From<TransferLeaderResponse<TypeConfig>> for TransferAnswer {
    fn from(response: TransferLeaderResponse<TypeConfig>) -> Self {
        match response {
            Ok(()) => Self::Accepted,
            Err(TransferLeaderError::VoteChanged { expected, actual }) => Self::VoteChanged {
                expected: expected.into(),
                actual: actual.into(),
            },
            Err(TransferLeaderError::LogNotFlushed { expected, actual }) => Self::LogNotFlushed {
                expected: position(expected),
                actual: position(actual),
            },
        }
    }
}

impl From<TransferAnswer> for TransferLeaderResponse<TypeConfig> {
    fn from(answer: TransferAnswer) -> Self {
        match answer {
            TransferAnswer::Accepted => Ok(()),
            TransferAnswer::VoteChanged { expected, actual } => {
                Err(TransferLeaderError::VoteChanged {
                    expected: expected.into(),
                    actual: actual.into(),
                })
            }
            TransferAnswer::LogNotFlushed { expected, actual } => {
                Err(TransferLeaderError::LogNotFlushed {
                    expected: log_id(expected),
                    actual: log_id(actual),
                })
            }
        }
    }
}

fn position(log_id: Option<LogId>) -> Option<PositionRecord> {
    log_id.map(PositionRecord::from)
}

fn log_id(position: Option<PositionRecord>) -> Option<LogId> {
    position.map(LogId::from)
}

#[cfg(test)]
mod tests {
    use openraft::EntryPayload;

    use super::*;
    use crate::engine::{Command, Entry, Vote};

    fn vote() -> Vote {
        Vote {
            leader_id: openraft::impls::leader_id_std::LeaderId {
                term: 2,
                voted_for: 9,
            },
            committed: true,
        }
    }

    #[test]
    fn the_bytes_of_the_kinds_are_frozen() {
        let bytes = CallKind::ALL.map(CallKind::to_byte);
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 64, 65]);
    }

    #[test]
    fn the_bytes_of_an_append_are_frozen() {
        let request = AppendEntriesRequest::<TypeConfig> {
            vote: vote(),
            prev_log_id: Some(LogId::new_term_index(1, 4)),
            entries: vec![Entry {
                log_id: LogId::new_term_index(2, 5),
                payload: EntryPayload::Normal(Command(Bytes::from_static(b"c"))),
            }],
            leader_commit: None,
        };
        let call = Call {
            from: 9,
            to: 7,
            body: AppendRecord::from(request.clone()),
        };
        let bytes = record::encode(&call);
        let entry = [1, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, b'c'];
        assert_eq!(
            bytes,
            [&[1, 9, 7, 2, 9, 1, 1, 1, 4, 0, 1, 19][..], &entry].concat()
        );
        let decoded: Call<AppendRecord> = record::decode("append", &bytes).expect("decodes");
        let decoded = AppendEntriesRequest::try_from(decoded.body).expect("decodes");
        assert_eq!(decoded.entries, request.entries);
        assert_eq!(decoded.prev_log_id, request.prev_log_id);
    }

    #[test]
    fn answers_read_back_as_themselves() {
        let responses = [
            AppendEntriesResponse::<TypeConfig>::Success,
            AppendEntriesResponse::PartialSuccess(Some(LogId::new_term_index(1, 2))),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(vote()),
        ];
        for response in responses {
            let bytes = record::encode(&AppendAnswer::from(response.clone()));
            let answer: AppendAnswer = record::decode("answer", &bytes).expect("decodes");
            assert_eq!(AppendEntriesResponse::from(answer), response);
        }
    }
}
