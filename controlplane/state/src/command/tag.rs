//! Tags of job versions.

use protocol_model::JobKey;
use serde::{Deserialize, Serialize};

/// See [`Command::JobTag`](super::Command::JobTag).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobTag {
    /// The job.
    pub key: JobKey,
    /// The tag's name.
    pub name: String,
    /// Its new place, or none.
    pub change: TagChange,
}

/// The change of a tag.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TagChange {
    /// A version gets it; a version that has it already gets the new description.
    Apply {
        /// The version; none = the newest.
        version: Option<u64>,
        /// Its purpose, for people.
        description: String,
    },
    /// Its version loses it.
    Unset,
}
