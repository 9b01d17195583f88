//! Checkpoints: the whole state as a stream of bytes, written from a snapshot while the state goes
//! on, read back into an empty state.
//!
//! ```text
//!  magic (8) | version (4) | incarnation (16) | index (8) | zstd { record* trailer }
//!  record  = tag (1) | length (4) | JSON
//!  trailer = tag 255 | length (4) | JSON { records per tag } | CRC-32 of header and records (4)
//! ```
//!
//! Numbers are big-endian. In version 1 the checksum left the header out. What is derived (indexes,
//! counters, columns) is not written. A record is JSON, so that a release reads what the one before
//! it wrote; an unknown tag is an error, because leaving rows out would be a silent loss. The
//! version is the oldest one that holds the effects of all commands so far.

mod error;
mod format;
mod read;
mod records;
mod write;

pub use error::RestoreError;
pub(crate) use format::version_of_level;
pub use format::{RECORD_BYTES_MAX, RESTORE_RECORDS_BYTES_MAX, VERSION, VERSION_MIN};
pub use read::{CheckpointSummary, inspect};
pub use records::Unpacked;
pub use write::{Section, WriteError};
