//! Archives and compressed files, unpacked as streams.
//!
//! The readers know no file system: they send entries to a [`Tree`], which is the staging
//! directory, or a fuzzer's counter. Names and links are checked before that ([`EntryPath`],
//! [`LinkTarget`]), and sizes are charged to a [`Budget`].

mod budget;
mod kind;
mod path;
mod stream;
mod tape;
mod zipped;

use std::io::{self, Read};

pub use budget::Budget;
use budget::BudgetExceeded;
pub use kind::ArchiveKind;
pub(crate) use kind::Compression;
pub use path::{EntryPath, LinkTarget};
pub(crate) use stream::{copy, decompressor};
pub use tape::unpack_tar;
pub use zipped::unpack_zip;

/// The permission bits that an entry keeps: set-user-id, set-group-id and sticky are dropped.
const PERMISSIONS: u32 = 0o777;

/// Where entries go. Paths are relative and cannot leave the tree by their own parts; whether a
/// part is a link is the tree's to refuse.
pub trait Tree {
    /// Makes a directory and those above it. An existing one gets the mode.
    ///
    /// # Errors
    /// Where something else is in the way.
    fn directory(&mut self, path: &EntryPath, mode: u32) -> io::Result<()>;

    /// Writes a file; an existing file is replaced. `content` is read to its end.
    ///
    /// # Errors
    /// Where a directory is in the way, or reading or writing fails.
    fn file(
        &mut self,
        path: &EntryPath,
        mode: u32,
        modified: Option<u64>,
        content: &mut dyn Read,
    ) -> io::Result<()>;

    /// Makes a symbolic link; an existing file is replaced.
    ///
    /// # Errors
    /// Where a directory is in the way.
    fn symlink(&mut self, path: &EntryPath, target: &[u8]) -> io::Result<()>;

    /// Makes another name for a file of this tree.
    ///
    /// # Errors
    /// Where the file is not there, or a directory is in the way.
    fn hard_link(&mut self, path: &EntryPath, to: &EntryPath) -> io::Result<()>;
}

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A name leads upwards.
    #[error("entry contains '..': {name}")]
    ParentDirectory {
        /// As the archive has it.
        name: String,
    },
    /// A name that no file system takes.
    #[error("entry {name:?}: {problem}")]
    Name {
        /// As the archive has it, cut.
        name: String,
        /// Why not.
        problem: &'static str,
    },
    /// A hard link to something outside the archive.
    #[error("artifact includes hard link {name:?} to {target:?}, which is outside of it")]
    HardLink {
        /// Name of the entry.
        name: String,
        /// Its target.
        target: String,
    },
    /// Devices, pipes and the like.
    #[error("entry {name:?} is {kind}; artifacts hold files, directories and links")]
    Special {
        /// Name of the entry.
        name: String,
        /// Its kind.
        kind: &'static str,
    },
    /// More than the node allows.
    #[error("the archive unpacks to more than {max} {unit} ({setting} of the node)")]
    TooLarge {
        /// The limit.
        max: u64,
        /// Of what.
        unit: &'static str,
        /// The node's setting.
        setting: &'static str,
    },
    /// A single file was wanted.
    #[error("mode file needs an archive of exactly one file; this one has {found}")]
    NotOneFile {
        /// Content of the archive.
        found: &'static str,
    },
    /// The stream is damaged, or an entry cannot be written.
    #[error("{operation}")]
    Stream {
        /// Verb and object of the message.
        operation: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl ArchiveError {
    pub(crate) fn stream(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.into();
        move |source| match source.downcast::<BudgetExceeded>() {
            Ok(BudgetExceeded { max, unit, setting }) => Self::TooLarge { max, unit, setting },
            Err(source) => Self::Stream { operation, source },
        }
    }

    /// A damaged download may be whole next time; a hostile or large archive stays one.
    pub(crate) fn is_recoverable(&self) -> bool {
        match self {
            // An entry below something that is no directory, or a link to nothing, stays one.
            Self::Stream { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::AlreadyExists
            ),
            Self::ParentDirectory { .. }
            | Self::Name { .. }
            | Self::HardLink { .. }
            | Self::Special { .. }
            | Self::TooLarge { .. }
            | Self::NotOneFile { .. } => false,
        }
    }
}
