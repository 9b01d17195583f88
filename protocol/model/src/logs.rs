//! Rotation of a task's output.

use serde::{Deserialize, Serialize};

use crate::canonical::defaults;

/// Rotation of a task's output.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LogConfig {
    /// Files kept per stream, the current one included; absent becomes 10.
    pub max_files: Option<u32>,
    /// The size in MB at which a file is rotated; absent becomes 10.
    #[serde(rename = "MaxFileSizeMB")]
    pub max_file_size_mb: Option<u32>,
    /// Older spelling of the opposite of `disabled`.
    pub enabled: Option<bool>,
    /// Whether output is not collected at all.
    pub disabled: Option<bool>,
}

impl LogConfig {
    /// Files kept per stream.
    pub fn max_files(&self) -> u32 {
        self.max_files.unwrap_or(defaults::LOG_FILES)
    }

    /// The size in MB at which a file is rotated.
    pub fn max_file_size_mb(&self) -> u32 {
        self.max_file_size_mb.unwrap_or(defaults::LOG_FILE_SIZE_MB)
    }

    /// Whether output is not collected at all, from either spelling.
    pub fn disabled(&self) -> bool {
        self.disabled.unwrap_or_else(|| self.enabled == Some(false))
    }
}
