//! Dynamic metadata: what callers change of the node's `meta` while it runs.
//!
//! ```text
//!   configuration: meta { .. }  --+
//!                                 +--> merged: what the node reports, `${meta.KEY}`
//!   DynamicMeta: set, unset     --+
//! ```
//!
//! The rules are Nomad's: a key is a dotted identifier of HCL, since constraints name it; a value
//! may be empty; an unset key of the configuration is hidden, not deleted.

mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use protocol_model::NodeMetadata;

pub use kept::KEPT_VERSION;

/// Keys of dynamic metadata, those that are unset included.
pub const KEYS_MAX: usize = 256;
/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 128;
/// Bytes of all keys and values: facts travel in each Hello, and stand in the servers' log.
pub const BYTES_MAX: usize = 64 * 1024;

/// Why changes are refused, or a file is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// No key is named.
    #[error("missing required Meta object: name at least one key")]
    Empty,
    /// A key without a character.
    #[error("metadata keys must not be empty")]
    EmptyKey,
    /// A key that no constraint can name.
    #[error("{key:?} is invalid; metadata keys must be valid dotted hcl identifiers")]
    InvalidKey {
        /// The key.
        key: String,
    },
    /// A key that is too long.
    #[error(
        "a metadata key has {bytes} bytes: at most {KEY_BYTES_MAX} are allowed; it begins with {start:?}"
    )]
    LongKey {
        /// Its beginning.
        start: String,
        /// Its length.
        bytes: usize,
    },
    /// Too many keys.
    #[error("{keys} keys of dynamic metadata: at most {KEYS_MAX} are allowed; unset some first")]
    TooManyKeys {
        /// As many as there would be.
        keys: usize,
    },
    /// Too many bytes.
    #[error(
        "dynamic metadata would have {bytes} bytes of keys and values: at most {BYTES_MAX} are \
         allowed; unset some first"
    )]
    TooLarge {
        /// As many as there would be.
        bytes: usize,
    },
    /// The file is damaged.
    #[error("dynamic metadata cannot be decoded: {problem}")]
    Decode {
        /// The decoder's words.
        problem: String,
    },
    /// Another release wrote the file.
    #[error("dynamic metadata has version {version}, this release reads {KEPT_VERSION}")]
    Version {
        /// The version.
        version: u32,
    },
}

/// Changes of the configured metadata. Valid and within the limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DynamicMeta {
    /// `None`: the key is unset.
    values: BTreeMap<String, Option<String>>,
}

impl DynamicMeta {
    /// These changes and no others.
    ///
    /// # Errors
    /// Where a key is invalid, or a limit is exceeded.
    fn new(values: BTreeMap<String, Option<String>>) -> Result<Self, MetaError> {
        for key in values.keys() {
            check_key(key)?;
        }
        let keys = values.len();
        if keys > KEYS_MAX {
            return Err(MetaError::TooManyKeys { keys });
        }
        let bytes = bytes_of(&values);
        if bytes > BYTES_MAX {
            return Err(MetaError::TooLarge { bytes });
        }
        Ok(Self { values })
    }

    /// The same with further `changes`; `None` unsets a key. Where a limit would be exceeded,
    /// unset keys that `configured` does not have are forgotten first.
    ///
    /// # Errors
    /// Where there is no change, a key is invalid, or a limit is exceeded all the same.
    pub fn with(
        &self,
        changes: BTreeMap<String, Option<String>>,
        configured: &BTreeMap<String, String>,
    ) -> Result<Self, MetaError> {
        if changes.is_empty() {
            return Err(MetaError::Empty);
        }
        for key in changes.keys() {
            check_key(key)?;
        }
        let mut values = self.values.clone();
        values.extend(changes);
        if values.len() > KEYS_MAX || bytes_of(&values) > BYTES_MAX {
            forget_needless(&mut values, configured);
        }
        Self::new(values)
    }

    /// The same without unset keys that `configured` does not have: nothing is hidden by them.
    #[must_use]
    pub fn needed(mut self, configured: &BTreeMap<String, String>) -> Self {
        forget_needless(&mut self.values, configured);
        self
    }

    /// The node's metadata: `configured` with these changes.
    pub fn merged(&self, configured: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut merged = configured.clone();
        for (key, value) in &self.values {
            match value {
                Some(value) => merged.insert(key.clone(), value.clone()),
                None => merged.remove(key),
            };
        }
        merged
    }

    /// All three, in the shape of the API.
    pub fn shown(&self, configured: &BTreeMap<String, String>) -> NodeMetadata {
        NodeMetadata {
            meta: self.merged(configured),
            dynamic: self.values.clone(),
            configured: configured.clone(),
        }
    }
}

fn forget_needless(
    values: &mut BTreeMap<String, Option<String>>,
    configured: &BTreeMap<String, String>,
) {
    values.retain(|key, value| value.is_some() || configured.contains_key(key));
}

fn bytes_of(values: &BTreeMap<String, Option<String>>) -> usize {
    let of = |(key, value): (&String, &Option<String>)| {
        key.len() + value.as_ref().map_or(0, String::len)
    };
    values.iter().map(of).sum()
}

/// Each part between dots begins with a letter or `_`, and goes on with letters, digits, `_`, `-`.
fn check_key(key: &str) -> Result<(), MetaError> {
    if key.is_empty() {
        return Err(MetaError::EmptyKey);
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(MetaError::LongKey {
            start: key.chars().take(32).collect(),
            bytes: key.len(),
        });
    }
    match key.split('.').all(is_identifier) {
        true => Ok(()),
        false => Err(MetaError::InvalidKey {
            key: key.to_owned(),
        }),
    }
}

fn is_identifier(part: &str) -> bool {
    let mut chars = part.chars();
    let starts = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
    starts && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}
