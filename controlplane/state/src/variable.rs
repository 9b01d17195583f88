//! Variables: sealed items at a path of a namespace, and the locks on them.
//!
//! ```text
//!            acquire                 2 x TTL without a renewal          at `until`
//!   free ───────────────► held ──────────────────────────► delayed ─────────────► free
//!    ▲                     │                                  │
//!    └──── release, delete ┴──────────────────────────────────┘
//! ```
//!
//! A renewal is no change of the state: the leader keeps the deadlines of held locks.

use std::fmt;
use std::time::Duration;

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::Sealed;

/// The most variables that a cluster keeps.
pub const VARIABLES_MAX: usize = 1_000_000;
/// The most locks that are held at a time.
pub const VARIABLE_LOCKS_MAX: usize = 100_000;
/// The most bytes of keys and values that a variable has, as in Nomad.
pub const VARIABLE_ITEMS_BYTES_MAX: usize = 64 * 1024;
/// The longest sealed value of a variable, in bytes. JSON writes a control character with 6 bytes.
pub const VARIABLE_SEALED_BYTES_MAX: usize = 6 * VARIABLE_ITEMS_BYTES_MAX + 64 * 1024;
/// The sealed bytes that the variables of a namespace take where it has no limit of its own.
pub const VARIABLES_BYTES_MAX_DEFAULT: u64 = 64 * 1024 * 1024;
/// The longest path, in bytes.
pub const VARIABLE_PATH_LEN_MAX: usize = 128;
/// The time of a lock that names none, and its delay.
pub const LOCK_TIME_DEFAULT: Duration = Duration::from_secs(15);
/// The shortest time of a lock.
pub const LOCK_TTL_MIN: Duration = Duration::from_secs(10);
/// The longest time of a lock, and its longest delay.
pub const LOCK_TTL_MAX: Duration = Duration::from_secs(24 * 3600);

/// The name of a variable. Sorted by namespace, then by path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct VariableKey {
    /// Its namespace.
    pub namespace: String,
    /// Its path.
    pub path: String,
}

impl VariableKey {
    /// The variable at `path` of `namespace`.
    pub fn new(namespace: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            path: path.into(),
        }
    }
}

impl fmt::Display for VariableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.path, self.namespace)
    }
}

/// A variable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    #[serde(flatten)]
    pub key: VariableKey,
    /// Its items as JSON, sealed for this name.
    pub sealed: Sealed,
    /// The time of its creation.
    pub create_time: UnixNanos,
    /// The time of its last change.
    pub modify_time: UnixNanos,
    /// The log index of its creation.
    pub create_index: u64,
    /// The log index of its last change. Sealing it with another key is none.
    pub modify_index: u64,
    /// Its lock, where one is held or delays the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<VariableLock>,
}

impl Variable {
    /// Its share of its namespace's quota, in bytes.
    pub fn size(&self) -> u64 {
        u64::try_from(self.sealed.bytes.len()).unwrap_or(u64::MAX)
    }
}

/// A lock on a variable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VariableLock {
    /// The secret that its holder shows.
    pub id: Uuid,
    /// The time for which an acknowledged renewal holds it.
    pub ttl: Duration,
    /// The time for which it blocks others once it has expired.
    pub delay: Duration,
    /// The end of that time; `None` while it is held. Its holder may still write and release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixNanos>,
}

impl VariableLock {
    /// Whether its times are within the limits.
    pub fn has_valid_times(&self) -> bool {
        (LOCK_TTL_MIN..=LOCK_TTL_MAX).contains(&self.ttl)
            && (Duration::ZERO..=LOCK_TTL_MAX).contains(&self.delay)
    }
}

/// Why no variable has a path. The texts are Nomad's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum VariablePathFault {
    /// It is empty.
    #[error("missing variable path")]
    Missing,
    /// It has other characters, or too many.
    #[error("invalid path {0:?}")]
    Characters(String),
    /// It is the directory of the cluster's own variables.
    #[error(
        "\"nomad\" is a reserved top-level directory path, but you may write variables to \
         \"nomad/jobs\", \"nomad/job-templates\", or below"
    )]
    Reserved,
    /// It is the directory of job templates, or too far below it.
    #[error(
        "\"nomad/job-templates\" is a reserved directory path, but you may write variables at the \
         level below it, for example, \"nomad/job-templates/template-name\""
    )]
    JobTemplates,
    /// It is another one of the cluster's own variables.
    #[error(
        "only paths at \"nomad/jobs\" or \"nomad/job-templates\" and below are valid paths under \
         the top-level \"nomad\" directory"
    )]
    Unknown,
}

/// Checks the path of a variable: `^[a-zA-Z0-9-_~/]{1,128}$`, and below `nomad/` only `jobs` and
/// `sentinel` with all below them, and `job-templates/<one part>`.
///
/// # Errors
/// See [`VariablePathFault`].
pub fn check_variable_path(path: &str) -> Result<(), VariablePathFault> {
    let allowed = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'~' | b'/');
    if path.is_empty() {
        return Err(VariablePathFault::Missing);
    }
    if path.len() > VARIABLE_PATH_LEN_MAX || !path.bytes().all(allowed) {
        return Err(VariablePathFault::Characters(path.to_owned()));
    }
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["nomad"] => Err(VariablePathFault::Reserved),
        ["nomad", "jobs" | "sentinel", ..] | ["nomad", "job-templates", _] => Ok(()),
        ["nomad", "job-templates", ..] => Err(VariablePathFault::JobTemplates),
        ["nomad", ..] => Err(VariablePathFault::Unknown),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_that_nomad_takes() {
        let longest = "a".repeat(VARIABLE_PATH_LEN_MAX);
        for path in [
            "a",
            "a/",
            "/a",
            "A-z_0~9",
            "nomads",
            "nomad/jobs",
            "nomad/jobs/web/api",
            "nomad/sentinel/x",
            "nomad/job-templates/base",
            longest.as_str(),
        ] {
            assert_eq!(check_variable_path(path), Ok(()), "{path}");
        }
        let too_long = "a".repeat(VARIABLE_PATH_LEN_MAX + 1);
        for (path, text) in [
            ("", "missing variable path"),
            ("a b", "invalid path \"a b\""),
            ("a.b", "invalid path \"a.b\""),
            ("é", "invalid path \"é\""),
            (too_long.as_str(), "invalid path"),
            ("nomad", "\"nomad\" is a reserved top-level directory path"),
            (
                "nomad/job-templates",
                "\"nomad/job-templates\" is a reserved",
            ),
            ("nomad/job-templates/a/b", "\"nomad/job-templates\" is a"),
            ("nomad/other", "only paths at \"nomad/jobs\" or"),
            ("nomad/", "only paths at \"nomad/jobs\" or"),
        ] {
            let fault = check_variable_path(path).expect_err(path).to_string();
            assert!(fault.starts_with(text), "{path}: {fault}");
        }
    }
}
