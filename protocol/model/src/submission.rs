//! What a job was made from: the text that somebody wrote, kept beside the version that it became.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::nullable;

/// The bytes of a submission that are kept, all of its texts together (Nomad's default of
/// `job_max_source_size`). A larger one is not kept, and whoever sent it is told.
pub const SUBMISSION_BYTES_MAX: usize = 1_000_000;

/// A job's source and the values of its variables, as `/v1/job/:id/submission` shows them. Nothing
/// reads them again but people and their programs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct JobSubmission {
    /// The job file.
    #[serde(deserialize_with = "nullable::or_default")]
    pub source: String,
    /// `hcl2` or `json`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub format: String,
    /// Values given by `-var`.
    #[serde(deserialize_with = "nullable::or_default")]
    pub variable_flags: BTreeMap<String, String>,
    /// The files given by `-var-file`, one after another.
    #[serde(deserialize_with = "nullable::or_default")]
    pub variables: String,
}

impl JobSubmission {
    /// How many bytes its texts have.
    pub fn bytes(&self) -> usize {
        let Self {
            source,
            format,
            variable_flags,
            variables,
        } = self;
        let flags = variable_flags.iter();
        let flags: usize = flags.map(|(name, value)| name.len() + value.len()).sum();
        source.len() + format.len() + variables.len() + flags
    }
}
