//! What a server keeps on disk, and in which order it is made durable.
//!
//! Entries and votes go through one writer thread, in order, one transaction (one fsync) per group.
//! Snapshots are written beside the log and take its place once they are durable.

pub(crate) mod database;
pub(crate) mod log;
pub(crate) mod machine;
pub(crate) mod snapshot;
mod tail;
mod writer;
