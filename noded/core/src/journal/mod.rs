//! What survives the daemon: records, their bytes, and what a replay makes of them.
//!
//! ```text
//!   effects --Append(record)--> encode --> file --> decode --> replay --> RestoredNode
//!                                            ^                                 |
//!                                            +------------- compact <----------+
//! ```
//!
//! The shell frames records (length, checksum), cuts a torn tail, and now and then replaces the
//! file by what `compact` returns. A record is one version byte and JSON: jobs and allocations are
//! stored in the API's shapes, which know `null` for empty and grow by fields with defaults.
//! Records are only ever appended to; an unknown kind is an error, never skipped in silence.

mod read;
mod restored;

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{AllocId, Allocation, Job, SpecHash, UnixNanos};
use serde::Serialize;

use crate::alloc_runner::PersistedAlloc;
use crate::key::{BootId, RunKey, SessionEpoch, Watermark};
use crate::task_runner::PersistedTask;
use crate::time::Moment;
use crate::update_batcher::AckedState;
pub use restored::{DestroyWanted, RestoredAlloc, RestoredNode, compact, replay};

/// The version of the records that this release writes.
pub const JOURNAL_VERSION: u8 = 1;

/// One line of the journal.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalRecord {
    /// Everything up to here of the watch is in the records before this one.
    Watermark {
        /// The place.
        at: Watermark,
    },
    /// What is said of tasks is about this boot of the host: what another one means for them is in
    /// the records before this one.
    Boot {
        /// The boot.
        boot: BootId,
    },
    /// The node accepted a session.
    SessionEpoch {
        /// Its epoch.
        epoch: SessionEpoch,
    },
    /// When the newest heartbeat was sent whose receipt the leader confirmed, by the clock of the
    /// boot that is spoken of. Written in steps, and only where a lease counts from it.
    Confirmed {
        /// Then.
        at: Moment,
    },
    /// When the newest heartbeat was sent whose receipt the leader confirmed, by the wall clock:
    /// what a host that boots while it is cut off can tell a disconnect window by. Written in
    /// steps, and only where a group has one.
    Heard {
        /// Then.
        at: UnixNanos,
    },
    /// A job specification; allocations refer to it.
    Spec {
        /// Its identity.
        hash: SpecHash,
        /// The job.
        job: Arc<Job>,
    },
    /// What is wanted of an allocation, new or changed.
    Desired {
        /// The allocation, `job` left out.
        alloc: Box<Allocation>,
        /// Its job's specification.
        spec: SpecHash,
        /// The number of the root key that signs its identities.
        #[serde(skip_serializing_if = "Option::is_none")]
        root_key: Option<u32>,
    },
    /// These, and no others, go on although the cluster's present incarnation does not know them.
    Foreign {
        /// The allocations.
        allocs: BTreeSet<AllocId>,
    },
    /// The control plane does not know the allocation any more: it is to be stopped and destroyed.
    DestroyWanted {
        /// The allocation.
        alloc: AllocId,
    },
    /// Nothing of the allocation is left.
    Destroyed {
        /// The allocation.
        alloc: AllocId,
    },
    /// The node is about to prepare and start this run.
    Intent {
        /// The run.
        run: RunKey,
    },
    /// The state of an allocation as a whole.
    Alloc {
        /// The allocation.
        alloc: AllocId,
        /// Its state.
        state: PersistedAlloc,
    },
    /// The state of a task.
    Task {
        /// The allocation.
        alloc: AllocId,
        /// The task.
        task: String,
        /// Its state.
        state: Box<PersistedTask>,
    },
    /// What the control plane has recorded of an allocation.
    Acknowledged {
        /// The allocation.
        alloc: AllocId,
        /// The state.
        state: Box<AckedState>,
    },
}

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// There is no version byte.
    #[error("the record is empty")]
    Empty,
    /// Another release wrote it.
    #[error("the record has version {version}, this release reads {JOURNAL_VERSION}")]
    Version {
        /// The version.
        version: u8,
    },
    /// The record could not be put into bytes.
    #[error("the record could not be encoded")]
    Encode(#[source] serde_json::Error),
    /// The bytes are no record.
    #[error("the record could not be decoded")]
    Decode(#[source] serde_json::Error),
}

/// The bytes of a record.
///
/// # Errors
/// Where a value has no JSON form.
pub fn encode(record: &JournalRecord) -> Result<Vec<u8>, JournalError> {
    let mut bytes = vec![JOURNAL_VERSION];
    serde_json::to_writer(&mut bytes, record).map_err(JournalError::Encode)?;
    Ok(bytes)
}

/// The record in these bytes.
///
/// # Errors
/// Where they are not exactly one record of a known version.
pub fn decode(bytes: &[u8]) -> Result<JournalRecord, JournalError> {
    let (&version, body) = bytes.split_first().ok_or(JournalError::Empty)?;
    if version != JOURNAL_VERSION {
        return Err(JournalError::Version { version });
    }
    serde_json::from_slice(body).map_err(JournalError::Decode)
}

#[cfg(test)]
mod tests;
