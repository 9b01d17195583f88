//! Pieces of streams: of a file's bytes, and of a command's output.

use serde::{Deserialize, Serialize};

/// A piece of a file that is read or followed. One without data only says that the stream lives.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct StreamFrame {
    /// Base64 (RFC 4648, section 4).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// The file, below the allocation's directory.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The data's first byte in the file.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: i64,
    /// An event in place of data: `file deleted`, `file truncated`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file_event: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde asks for a reference"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A message from a command, over the WebSocket of [`super::ExecAllocation`]. An empty one only
/// says that the command lives.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecOutput {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<ExecData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<ExecData>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exited: bool,
    /// With `exited`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ExecResult>,
}

/// A message to a command.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ExecData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty_size: Option<TtySize>,
}

/// Bytes of one of a command's streams, or its end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecData {
    /// Base64 (RFC 4648, section 4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// Whether nothing follows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
}

/// The end of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecResult {
    pub exit_code: i32,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TtySize {
    pub height: u32,
    pub width: u32,
}
