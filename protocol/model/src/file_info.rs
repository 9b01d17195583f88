//! A file of an allocation, as its node describes it.

use serde::{Deserialize, Serialize};

use crate::{UnixNanos, rfc3339};

/// A file or a directory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FileInfo {
    /// Without the directory that it is in.
    pub name: String,
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    /// Mode bits as Go's `os.FileMode` prints them: `drwxr-xr-x`.
    pub file_mode: String,
    /// The last write.
    #[serde(with = "rfc3339")]
    pub mod_time: Option<UnixNanos>,
    /// A MIME type; empty in lists and for directories.
    pub content_type: String,
}
