//! Artifacts: one file or tree, fetched for a task into a staging directory and merged from there.
//!
//! ```text
//!   source + options ─► Source ─► http ─► checksum ─► archive ─┐
//!                            └──► git ─────────────────────────┴─► staging/artifact
//!                                                                       │ inspect
//!                                                     destination ◄─────┘ merge
//! ```
//!
//! Two processes use this crate. [`fetch`] handles foreign bytes and runs in a child that is shut
//! in: it writes below the staging directory alone. [`inspect`] and [`merge`] run in noded, which
//! trusts nothing that the child left: each entry is looked at by descriptor before it is renamed
//! into the task's directory, and no link is followed on the way.
//!
//! | entry point | input | output |
//! |---|---|---|
//! | [`Source::parse`] | a job's `source` and `options` | getter, URL, parameters; pure |
//! | [`masked`] | a URL | the same without its secrets; pure |
//! | [`fetch`] | a [`FetchRequest`], a [`Staging`] directory | a [`Fetched`]; progress on the way |
//! | [`inspect`] | the staged artifact | nothing, or the entry that is refused |
//! | [`merge`] | the staged artifact, a destination | nothing: the artifact is in its place |
//! | [`unpack_tar`] | a stream | entries into a [`Tree`]; what the fuzzer feeds |
//!
//! Everything has a limit: see [`FetchLimits`]. The functions block and hold one buffer of 64 KiB;
//! nothing is held whole in memory.

mod archive;
mod checksum;
mod error;
mod fetch;
mod git;
mod http;
mod inspect;
mod merge;
mod place;
mod request;
mod source;
mod staged_tree;
mod staging;

pub use archive::{
    ArchiveError, ArchiveKind, Budget, EntryPath, LinkTarget, Tree, unpack_tar, unpack_zip,
};
pub use error::FetchError;
pub use fetch::fetch;
pub use inspect::{InspectError, Links, inspect};
pub use merge::{MergeError, Owner, merge};
pub use request::{FetchLimits, FetchRequest, Fetched, Mode, Progress, Shape};
pub use source::{Getter, Source, SourceError, masked};
pub use staging::{ARTIFACT, Staging};

/// How many bytes are copied at once.
const COPY_BYTES: usize = 64 * 1024;
