//! What a server keeps on disk, and in which order it is made durable.
//!
//! ```text
//!   request    what is asked of the log
//!   writer     one thread: requests -> group -> sync -> told
//!   segment    the bytes of a file           segments   the files: written, prepared
//!   recovery   the files at a start          replay     what their records come to
//!   tail       newest entries, in memory     places     where the others are on disk
//!   log        all of it, as the consensus library asks for it
//!   log_end    how far it reached, beside it
//!   disk       what all of it is kept on         host_disk  the files of this host
//! ```
//!
//! Entries and votes go through the writer, in order, one sync per group. Snapshots are written
//! beside the log and take its place once they are durable.

pub(crate) mod directory;
pub(crate) mod disk;
pub(crate) mod host_disk;
pub(crate) mod log;
mod log_end;
pub(crate) mod machine;
mod places;
pub(crate) mod recovery;
mod replay;
mod request;
mod segment;
mod segments;
pub(crate) mod snapshot;
mod standing;
mod tail;
mod writer;

#[cfg(test)]
mod tests;
