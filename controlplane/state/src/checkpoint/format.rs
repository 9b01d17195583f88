//! What a checkpoint is made of.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{Allocation, Incarnation, Job, SpecHash, UnixNanos};
use serde::{Deserialize, Serialize};

use crate::command::COMMAND_LEVEL;
use crate::record::{ClusterMeta, ReportMark, SchedulerConfig};
use crate::tables::{Table, Tables};

pub(super) const MAGIC: [u8; 8] = *b"DROVERCP";

/// The newest version of the format: the one that holds everything.
pub const VERSION: u32 = 5;

/// The oldest version that this release writes: that of a state whose commands the releases of
/// level 2 read, too.
const VERSION_OF_LEVEL_2: u32 = 3;

/// The version that a state has after a command of `level`. While servers of two releases are
/// mixed, the older ones take checkpoints of the newer ones, and a server may go back.
pub(crate) fn version_of_level(level: u32) -> u32 {
    match level {
        0..=2 => VERSION_OF_LEVEL_2,
        3 => 4,
        _ => VERSION,
    }
}

/// The oldest version that this release reads. Its checksum left the header out.
pub const VERSION_MIN: u32 = 1;

/// The longest record that is written or read: far above any row.
pub const RECORD_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// The bytes of a checkpoint's records that an operator's restore reads, before compression: what
/// fits a server's memory as a state. A small file that unpacks to more is none of ours.
pub const RESTORE_RECORDS_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// The header, which is not compressed: it can be read without reading the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) index: u64,
}

pub(super) const HEADER_BYTES: usize = 8 + 4 + 16 + 8;

impl Tables {
    /// The lowest command level of the releases that read a checkpoint of this state.
    pub fn checkpoint_level(&self) -> u32 {
        let mut levels = 2..COMMAND_LEVEL;
        let version = self.checkpoint_version();
        let found = levels.find(|level| version_of_level(*level) >= version);
        found.unwrap_or(COMMAND_LEVEL)
    }

    /// The oldest version of checkpoints that holds this state, among those that this release
    /// writes.
    pub(crate) fn checkpoint_version(&self) -> u32 {
        self.checkpoint_version.max(VERSION_OF_LEVEL_2)
    }
}

impl Header {
    pub(super) fn of(tables: &Tables) -> Self {
        Self {
            version: tables.checkpoint_version(),
            incarnation: tables.cluster().incarnation,
            index: tables.index(),
        }
    }

    /// Nothing, where the magic number is another.
    pub(super) fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (incarnation, rest) = rest.split_first_chunk::<16>()?;
        let (index, _) = rest.split_first_chunk::<8>()?;
        // No incarnation is all zeros: a random one never is.
        let incarnation =
            Incarnation::from_slice(incarnation).filter(|incarnation| !incarnation.0.is_nil());
        (*magic == MAGIC).then(|| Self {
            version: u32::from_be_bytes(*version),
            incarnation,
            index: u64::from_be_bytes(*index),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_be_bytes());
        if let Some(incarnation) = self.incarnation {
            bytes[12..28].copy_from_slice(incarnation.as_bytes());
        }
        bytes[28..].copy_from_slice(&self.index.to_be_bytes());
        bytes
    }
}

/// The kinds of record. The numbers are on disk and are never used again for something else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tag {
    Meta = 1,
    Spec = 2,
    Job = 3,
    JobVersion = 4,
    Node = 5,
    Eval = 6,
    Deployment = 7,
    Alloc = 8,
    Namespace = 9,
    AclToken = 10,
    PendingRestore = 11,
    RestoreChunk = 12,
    NodePool = 13,
    AclPolicy = 14,
    AclRole = 15,
    AclAuthMethod = 16,
    AclBindingRule = 17,
    OneTimeToken = 18,
    RootKey = 19,
    Variable = 20,
    Trailer = 255,
}

impl Tag {
    pub(super) const ALL: [Self; 21] = [
        Self::Meta,
        Self::Spec,
        Self::Job,
        Self::JobVersion,
        Self::Node,
        Self::Eval,
        Self::Deployment,
        Self::Alloc,
        Self::Namespace,
        Self::AclToken,
        Self::PendingRestore,
        Self::RestoreChunk,
        Self::NodePool,
        Self::AclPolicy,
        Self::AclRole,
        Self::AclAuthMethod,
        Self::AclBindingRule,
        Self::OneTimeToken,
        Self::RootKey,
        Self::Variable,
        Self::Trailer,
    ];

    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|tag| *tag as u8 == byte)
    }

    /// The section's name, for people and for the trailer.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Spec => "specifications",
            Self::Job => "jobs",
            Self::JobVersion => "job versions",
            Self::Node => "nodes",
            Self::Eval => "evaluations",
            Self::Deployment => "deployments",
            Self::Alloc => "allocations",
            Self::Namespace => "namespaces",
            Self::AclToken => "access tokens",
            Self::PendingRestore => "pending restore",
            Self::RestoreChunk => "pending restore's bytes",
            Self::NodePool => "node pools",
            Self::AclPolicy => "access policies",
            Self::AclRole => "access roles",
            Self::AclAuthMethod => "auth methods",
            Self::AclBindingRule => "binding rules",
            Self::OneTimeToken => "one-time tokens",
            Self::RootKey => "root keys",
            Self::Variable => "variables",
            Self::Trailer => "trailer",
        }
    }
}

/// What is there once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct MetaRow {
    pub(super) now: UnixNanos,
    pub(super) cluster: ClusterMeta,
    pub(super) scheduler_config: SchedulerConfig,
    pub(super) acl_bootstrap_index: u64,
    /// By name, so that a table more or less changes nothing.
    pub(super) table_indexes: BTreeMap<String, u64>,
    /// What restores added to the log's index. (Version 1 knew no restores.)
    #[serde(default)]
    pub(super) log_offset: u64,
    /// The number of the newest root key, which may be gone. (Version 4.)
    #[serde(default)]
    pub(super) root_keys_numbered: u32,
    /// Whether placements are stamped with the root key that signs. (Version 5.)
    #[serde(default)]
    pub(super) identities_begun: bool,
}

impl MetaRow {
    pub(super) fn of(tables: &Tables) -> Self {
        let table_indexes = Table::ALL
            .into_iter()
            .map(|table| (format!("{table:?}"), tables.table_index(&[table])))
            .collect();
        Self {
            now: tables.now,
            cluster: tables.cluster,
            scheduler_config: tables.scheduler_config,
            acl_bootstrap_index: tables.acl_bootstrap_index,
            table_indexes,
            log_offset: tables.log_offset,
            root_keys_numbered: tables.access.root_keys_numbered,
            identities_begun: tables.access.identities_begun,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SpecRow<'a> {
    pub(super) hash: SpecHash,
    pub(super) job: Cow<'a, Arc<Job>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AllocRow<'a> {
    pub(super) alloc: Cow<'a, Arc<Allocation>>,
    pub(super) mark: ReportMark,
    /// The root key that signs its identities. (Version 5.)
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) key: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// How many records of each kind there are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct TrailerRow {
    pub(super) records: BTreeMap<String, u64>,
}
