//! Commands and outcomes as bytes: what is written into the log, and what a server that forwarded
//! a command is told.
//!
//! Hot commands are protobuf messages of their own; the rest is JSON in the same envelope, which
//! tolerates fields that one side does not know. The bytes of both are frozen in `tests/golden/`.

mod document;
mod hot;
mod metrics;
mod outcome;
mod packed;
mod plan;
mod secrets;
mod variables;

use bytes::Bytes;
use prost::Message;
use protocol_model::UnixNanos;
use protocol_wire::convert::ConvertError;
use protocol_wire::log;

pub use outcome::{decode_applied, encode_applied};

use crate::command::Stamped;

/// The version of the log's format that this release writes, and the only one that it reads.
///
/// While servers are upgraded one by one, any of them may lead. So a release first learns to read a
/// new command or format, and only the release after it writes it: a follower that meets an entry
/// which it cannot read has to stop.
pub const LOG_FORMAT: u32 = 1;

/// The longest document that is read, before compression. Far above any job or plan that a
/// request may carry; below what would hurt a server.
pub const DOCUMENT_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// Bytes that are no command or outcome of this release.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// They are no message at all.
    #[error("the entry is no message")]
    Message(#[source] prost::DecodeError),
    /// A newer release wrote them.
    #[error("log format {found} is not known: this release reads {LOG_FORMAT}")]
    Format {
        /// The format.
        found: u32,
    },
    /// The command is missing: a newer release wrote one that is not known here.
    #[error("the entry has no command that this release knows")]
    NoCommand,
    /// A field makes no sense.
    #[error("a field makes no sense")]
    Field(#[source] ConvertError),
    /// A field that has to be there is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A document is longer than it may be.
    #[error("a document of {length} bytes: at most {DOCUMENT_BYTES_MAX} are read")]
    DocumentTooLong {
        /// Its length before compression.
        length: u32,
    },
    /// A document cannot be decompressed.
    #[error("a document cannot be decompressed")]
    Decompress(#[source] std::io::Error),
    /// A document has another length than it says.
    #[error("a document of {found} bytes says it has {said}")]
    DocumentLength {
        /// What it says.
        said: u32,
        /// What it has.
        found: usize,
    },
    /// A document is no JSON of the expected shape.
    #[error("a document cannot be read")]
    Json(#[source] serde_json::Error),
}

/// A command that cannot be written: only one that is too long.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It is longer than would be read.
    #[error("a document of {length} bytes: at most {DOCUMENT_BYTES_MAX} can be written")]
    DocumentTooLong {
        /// Its length.
        length: usize,
    },
    /// It is not representable as JSON.
    #[error("a document cannot be written")]
    Json(#[source] serde_json::Error),
    /// It cannot be compressed.
    #[error("a document cannot be compressed")]
    Compress(#[source] std::io::Error),
}

/// The log entry of a command.
pub fn encode(stamped: &Stamped) -> Result<Vec<u8>, EncodeError> {
    let Stamped { now, seed, command } = stamped;
    let envelope = log::Envelope {
        now_ns: now.0,
        format: LOG_FORMAT,
        seed: Bytes::copy_from_slice(seed),
        command: Some(packed::pack(hot::to_message(command)?)?),
    };
    Ok(envelope.encode_to_vec())
}

/// The command of a log entry.
pub fn decode(bytes: &[u8]) -> Result<Stamped, DecodeError> {
    let envelope = log::Envelope::decode(bytes).map_err(DecodeError::Message)?;
    let log::Envelope {
        now_ns,
        format,
        seed,
        command,
    } = envelope;
    if format != LOG_FORMAT {
        return Err(DecodeError::Format { found: format });
    }
    let seed = protocol_wire::convert::bytes16("seed", &seed).map_err(DecodeError::Field)?;
    let message = packed::unpack(command.ok_or(DecodeError::NoCommand)?)?;
    let command = hot::from_message(message)?;
    Ok(Stamped {
        now: UnixNanos(now_ns),
        seed,
        command,
    })
}
