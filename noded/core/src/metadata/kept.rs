//! Dynamic metadata in bytes: a restarted daemon goes on with it. A file of its own, since it
//! outlives every allocation and boot.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DynamicMeta, MetaError};

/// The version that this release writes and reads.
pub const KEPT_VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    meta: BTreeMap<String, Option<String>>,
}

/// Only the version: what follows it is another release's.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl DynamicMeta {
    /// The bytes of this value.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::json!({ "version": KEPT_VERSION, "meta": self.values })
            .to_string()
            .into_bytes()
    }

    /// The value in these bytes.
    ///
    /// # Errors
    /// Where they are damaged, of another version, or break a rule of this release.
    pub fn decode(bytes: &[u8]) -> Result<Self, MetaError> {
        let damaged = |error: serde_json::Error| MetaError::Decode {
            problem: error.to_string(),
        };
        let Version { version } = serde_json::from_slice(bytes).map_err(damaged)?;
        if version != KEPT_VERSION {
            return Err(MetaError::Version { version });
        }
        let Kept { version: _, meta } = serde_json::from_slice(bytes).map_err(damaged)?;
        Self::new(meta)
    }
}
