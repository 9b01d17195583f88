//! Why an artifact was not fetched, and whether another attempt could succeed.

use crate::archive::ArchiveError;
use crate::checksum::ChecksumError;
use crate::git::GitError;
use crate::http::HttpError;
use crate::request::Mode;
use crate::source::SourceError;
use crate::staging::StagingError;

/// A fetch that failed. Nothing outside the staging directory was written.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The source or one of its parameters makes no sense.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The checksum is malformed, or the file has another one.
    #[error(transparent)]
    Checksum(#[from] ChecksumError),
    /// The download failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The archive is damaged, too large, or leads out of its directory.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The staging directory cannot be written.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// The mode does not fit the source.
    #[error("mode {}: {problem}", .mode.name())]
    Mode {
        /// As the job has it.
        mode: Mode,
        /// Why not.
        problem: &'static str,
    },
    /// The subdirectory is not in the tree.
    #[error("the artifact has no directory {subdirectory:?}")]
    NoSubdirectory {
        /// As the job has it.
        subdirectory: String,
    },
}

impl FetchError {
    /// Whether another attempt could succeed without a change of the job.
    pub fn is_recoverable(&self) -> bool {
        match self {
            Self::Source(_) | Self::Mode { .. } => false,
            Self::Checksum(error) => error.is_recoverable(),
            Self::Archive(error) => error.is_recoverable(),
            Self::Http(error) => error.is_recoverable(),
            Self::Git(_) | Self::Staging(_) | Self::NoSubdirectory { .. } => true,
        }
    }
}
