//! Names and targets of entries, checked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::ArchiveError;

/// Parts of a path; as deep as trees get that people unpack, and far below what descriptors allow.
const DEPTH_MAX: usize = 128;
/// Linux' limit of one part.
const PART_BYTES_MAX: usize = 255;
/// How much of a name a message shows.
const SHOWN_CHARS_MAX: usize = 200;

/// The path of an entry: relative, without `.` and `..`, and not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPath {
    parts: Vec<Vec<u8>>,
}

impl EntryPath {
    /// Reads a name. Leading slashes are dropped; `None` is the tree itself (`./`).
    ///
    /// # Errors
    /// For `..`, a null byte, or parts that no file system takes.
    pub fn parse(name: &[u8]) -> Result<Option<Self>, ArchiveError> {
        let refuse = |problem| ArchiveError::Name {
            name: shown(name),
            problem,
        };
        let mut parts = Vec::new();
        for part in name.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(ArchiveError::ParentDirectory { name: shown(name) }),
                part if part.contains(&0) => return Err(refuse("it contains a null byte")),
                part if part.len() > PART_BYTES_MAX => {
                    return Err(refuse("a part is longer than 255 bytes"));
                }
                part => parts.push(part.to_vec()),
            }
            if parts.len() > DEPTH_MAX {
                return Err(refuse("it is deeper than 128 directories"));
            }
        }
        Ok((!parts.is_empty()).then_some(Self { parts }))
    }

    /// The directories above.
    pub fn above(&self) -> impl Iterator<Item = &OsStr> {
        let (_, above) = self.parts.split_last().unwrap_or((&EMPTY, &[]));
        above.iter().map(|part| OsStr::from_bytes(part))
    }

    /// The last part.
    pub fn name(&self) -> &OsStr {
        OsStr::from_bytes(self.parts.last().unwrap_or(&EMPTY))
    }
}

/// A path is never empty; the compiler does not know.
static EMPTY: Vec<u8> = Vec::new();

/// The target of a symbolic link, as the archive has it: judged against its final place later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget(Vec<u8>);

impl LinkTarget {
    /// Linux' limit of a target.
    pub(super) const BYTES_MAX: usize = 4095;

    /// Reads a target.
    ///
    /// # Errors
    /// For an empty or long one, and one with a null byte.
    pub fn parse(name: &[u8], target: &[u8]) -> Result<Self, ArchiveError> {
        let refuse = |problem| ArchiveError::Name {
            name: shown(name),
            problem,
        };
        if target.is_empty() || target.len() > Self::BYTES_MAX {
            return Err(refuse("its link has no target, or one above 4095 bytes"));
        }
        if target.contains(&0) {
            return Err(refuse("the target of its link contains a null byte"));
        }
        Ok(Self(target.to_vec()))
    }

    /// The bytes of it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A name for messages: short, and without bytes that are no text.
pub(super) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let text = text.chars().filter(|letter| !letter.is_control());
    text.take(SHOWN_CHARS_MAX).collect()
}
