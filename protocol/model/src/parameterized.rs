//! What a dispatch of a parameterized job takes, and where its payload goes.

use serde::{Deserialize, Serialize};

use crate::choice::{UnknownChoice, closed_choice};
use crate::nullable;
use crate::nullable::or_default;

/// The largest payload of a dispatch, in bytes before it is compressed (Nomad's limit).
pub const DISPATCH_PAYLOAD_BYTES_MAX: usize = 16 * 1024;

/// What a dispatch of a parameterized job takes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ParameterizedJobConfig {
    /// Whether a dispatch brings a payload; `""` becomes `optional`. See [`PayloadRule`].
    #[serde(deserialize_with = "or_default")]
    pub payload: String,
    /// Metadata keys that a dispatch must give.
    #[serde(with = "nullable")]
    pub meta_required: Vec<String>,
    /// Metadata keys that a dispatch may give.
    #[serde(with = "nullable")]
    pub meta_optional: Vec<String>,
}

closed_choice! {
    /// Whether a dispatch brings a payload.
    pub enum PayloadRule("payload rule") {
        /// It may.
        Optional = "optional",
        /// It must.
        Required = "required",
        /// It must not.
        Forbidden = "forbidden",
    }
}

impl ParameterizedJobConfig {
    /// Whether a dispatch brings a payload; `optional` where nothing is said.
    pub fn payload(&self) -> Result<PayloadRule, UnknownChoice> {
        match self.payload.as_str() {
            "" => Ok(PayloadRule::Optional),
            text => text.parse(),
        }
    }
}

/// Where a dispatch's payload is written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DispatchPayload {
    /// The path below the task's local directory.
    #[serde(deserialize_with = "or_default")]
    pub file: String,
}
