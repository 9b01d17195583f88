//! What pump is told about one stream: a small file of a version byte, a postcard body and a CRC-32
//! of both.

use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};

/// The version of the file; a pump that finds another one leaves the stream alone and says so.
const SPEC_VERSION: u8 = 2;
/// The version without the run.
const SPEC_VERSION_WITHOUT_RUN: u8 = 1;

/// Limits of one stream's log files (Nomad's `logs` block).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// At least 1.
    pub max_files: u32,
    /// At least 1. A file may be larger by the end of one line, at most 32 KiB.
    pub max_file_size_bytes: u64,
}

/// Where one stream's output goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSpec {
    /// An absolute path that no task can change.
    pub log_base: PathBuf,
    /// Relative to `log_base`, of plain components only; resolved without following any symbolic
    /// link.
    pub log_directory: PathBuf,
    /// Files are named `<prefix>.<number>`.
    pub file_prefix: String,
    pub limits: LogLimits,
    /// The run that it was made for: an earlier one that is let go late does not take it along.
    pub run_epoch: u64,
}

/// As version 1 had it.
#[derive(Deserialize)]
struct SpecWithoutRun {
    log_base: PathBuf,
    log_directory: PathBuf,
    file_prefix: String,
    limits: LogLimits,
}

impl From<SpecWithoutRun> for StreamSpec {
    /// Of a run below all others, so that any may let it go.
    fn from(spec: SpecWithoutRun) -> Self {
        let SpecWithoutRun {
            log_base,
            log_directory,
            file_prefix,
            limits,
        } = spec;
        Self {
            log_base,
            log_directory,
            file_prefix,
            limits,
            run_epoch: 0,
        }
    }
}

/// Why a specification is not one.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("the file is too short")]
    Short,
    #[error("version {version} is not known")]
    Version { version: u8 },
    #[error("the checksum does not match")]
    Checksum,
    #[error("the body cannot be encoded")]
    Encode(#[source] postcard::Error),
    #[error("the body cannot be decoded")]
    Decode(#[source] postcard::Error),
    #[error("{field} is not allowed")]
    Field { field: &'static str },
}

impl StreamSpec {
    /// # Errors
    /// Where a field is not allowed or a path is not UTF-8.
    pub fn encode(&self) -> Result<Vec<u8>, SpecError> {
        self.check()?;
        seal(SPEC_VERSION, self)
    }

    /// # Errors
    /// Where the bytes are not a whole specification of a known version with allowed fields.
    pub fn decode(bytes: &[u8]) -> Result<Self, SpecError> {
        let spec: Self = match bytes.first() {
            Some(&SPEC_VERSION_WITHOUT_RUN) => {
                unseal::<SpecWithoutRun>(SPEC_VERSION_WITHOUT_RUN, bytes)?.into()
            }
            _ => unseal(SPEC_VERSION, bytes)?,
        };
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), SpecError> {
        let refuse = |field| Err(SpecError::Field { field });
        if !self.log_base.is_absolute() {
            return refuse("log_base");
        }
        if !is_plain_relative(&self.log_directory) {
            return refuse("log_directory");
        }
        let prefix = &self.file_prefix;
        if prefix.is_empty() || prefix.len() > 220 || prefix.bytes().any(|b| b == b'/' || b == 0) {
            return refuse("file_prefix");
        }
        if self.limits.max_files == 0 {
            return refuse("max_files");
        }
        if self.limits.max_file_size_bytes == 0 {
            return refuse("max_file_size_bytes");
        }
        Ok(())
    }
}

/// Encodes as version byte, body, CRC-32 (little endian).
pub(crate) fn seal<T: Serialize>(version: u8, body: &T) -> Result<Vec<u8>, SpecError> {
    let mut bytes = postcard::to_extend(body, vec![version]).map_err(SpecError::Encode)?;
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// The reverse of [`seal`].
pub(crate) fn unseal<T: serde::de::DeserializeOwned>(
    version: u8,
    bytes: &[u8],
) -> Result<T, SpecError> {
    let (content, checksum) = bytes.split_last_chunk::<4>().ok_or(SpecError::Short)?;
    let (&found, body) = content.split_first().ok_or(SpecError::Short)?;
    if found != version {
        return Err(SpecError::Version { version: found });
    }
    if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
        return Err(SpecError::Checksum);
    }
    postcard::from_bytes(body).map_err(SpecError::Decode)
}

fn is_plain_relative(path: &Path) -> bool {
    path.components()
        .all(|component| matches!(component, Component::Normal(_)))
}
