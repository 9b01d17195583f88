//! The answer of a write without a result of its own.

use serde::{Deserialize, Serialize};

/// The answer of a write without a result of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Written {
    /// The index at which it was written.
    pub index: u64,
}
