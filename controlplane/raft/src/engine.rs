//! The consensus library's types, bound to ours. Everything that names it starts here.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::member::ServerInfo;
use crate::store::machine::MachineAdapter;

/// A command, opaque to the log.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command(pub(crate) Bytes);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} bytes", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What the machine answered; empty for entries without a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Response(pub(crate) Vec<u8>);

openraft::declare_raft_types!(
    pub(crate) TypeConfig:
        D = Command,
        R = Response,
        NodeId = u64,
        Node = ServerInfo,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type Core = openraft::Raft<TypeConfig, MachineAdapter>;
pub(crate) type Metrics = openraft::RaftMetrics<TypeConfig>;
pub(crate) type Entry = openraft::alias::EntryOf<TypeConfig>;
pub(crate) type Payload = openraft::alias::PayloadOf<TypeConfig>;
pub(crate) type LogId = openraft::alias::LogIdOf<TypeConfig>;
pub(crate) type Vote = openraft::alias::VoteOf<TypeConfig>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<TypeConfig>;
pub(crate) type Fatal = openraft::errors::Fatal<TypeConfig>;
pub(crate) type Forward = openraft::errors::ForwardToLeader<TypeConfig>;
