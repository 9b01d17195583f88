//! Why a checkpoint cannot be read.

use std::io;

use super::format::{RECORD_BYTES_MAX, VERSION, VERSION_MIN};

/// A checkpoint that cannot be read. The state that was to be restored is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Its source fails, or it is not whole.
    #[error("the checkpoint cannot be read, or ends too early")]
    Read(#[source] io::Error),
    /// It is no checkpoint.
    #[error("not a checkpoint of this program")]
    Magic,
    /// Another release wrote it.
    #[error(
        "checkpoint version {found} is not known: this release reads {VERSION_MIN} to {VERSION}"
    )]
    Version {
        /// The version.
        found: u32,
    },
    /// A newer release wrote records that this one does not know.
    #[error("a record of an unknown kind ({tag})")]
    UnknownTag {
        /// The kind's number.
        tag: u8,
    },
    /// A record is longer than it may be.
    #[error("a record of the {section} has {length} bytes: at most {RECORD_BYTES_MAX} are read")]
    RecordTooLong {
        /// The section.
        section: &'static str,
        /// Its length.
        length: u32,
    },
    /// A record is no row.
    #[error("a record of the {section} cannot be read")]
    Row {
        /// The section.
        section: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The bytes changed since they were written.
    #[error("the checksum does not match: the checkpoint is damaged")]
    Checksum,
    /// Something follows that belongs to no checkpoint.
    #[error("bytes follow the end of the checkpoint")]
    Trailing,
    /// It unpacks to more than a restore takes.
    #[error("its records have more than {limit} bytes in all")]
    TooLong {
        /// How many may be read.
        limit: u64,
    },
    /// The bytes of a restore under way are not what its record says.
    #[error("the bytes of the pending restore do not add up")]
    PendingRestore,
    /// The records do not add up.
    #[error("{section}: {found} records, the trailer says {said}")]
    Count {
        /// The section.
        section: String,
        /// What the trailer says.
        said: u64,
        /// What there was.
        found: u64,
    },
    /// The record that has to be there once is not.
    #[error("the checkpoint has no meta record")]
    NoMeta,
    /// A row refers to a specification that is not there.
    #[error("{subject} refers to a specification that is not in the checkpoint")]
    MissingSpec {
        /// The row.
        subject: String,
    },
}
