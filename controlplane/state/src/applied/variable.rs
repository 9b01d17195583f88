//! The result of a change of a variable. The texts are Nomad's where it has one.

use protocol_model::UnixNanos;
use serde::{Deserialize, Serialize};

use crate::variable::{LOCK_TTL_MAX, VARIABLE_LOCKS_MAX, VARIABLES_MAX};
use crate::variable::{VariableLock, VariablePathFault};

/// A variable as a change left it, without its items.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VariableChanged {
    /// The time of its creation.
    pub create_time: UnixNanos,
    /// The time of the change.
    pub modify_time: UnixNanos,
    /// The log index of its creation.
    pub create_index: u64,
    /// The log index of the change.
    pub modify_index: u64,
    /// Its lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<VariableLock>,
}

/// Why a variable is not changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum VariableRefusal {
    /// No variable has the path.
    #[error(transparent)]
    InvalidPath(VariablePathFault),
    /// It is at another index than the one that the caller named.
    #[error("cas error: requested index {wanted}; found index {found}")]
    Conflict {
        /// The index that the caller named; 0 = it must not exist.
        wanted: u64,
        /// Its modify index; 0 = it does not exist.
        found: u64,
    },
    /// Another holder has the lock, and the caller shows none or another one.
    #[error("the variable is locked")]
    Locked,
    /// The caller holds a lock on a variable that does not exist.
    #[error("variable doesn't exist")]
    NotFound,
    /// The caller holds a lock that the variable does not have.
    #[error("variable doesn't hold a lock")]
    NotLocked,
    /// The caller's lock is another one, or expired.
    #[error("attempting to modify locked variable")]
    AnotherLock,
    /// The times of a lock are out of range.
    #[error("TTL must be between 10 seconds and 24 hours")]
    LockTtl,
    /// The delay of a lock is out of range.
    #[error("LockDelay must be between 0 and {} hours", LOCK_TTL_MAX.as_secs() / 3600)]
    LockDelay,
    /// The namespace has no room for it.
    #[error(
        "variables of namespace {namespace:?} would take {bytes} bytes: at most {max} are kept"
    )]
    Quota {
        /// The namespace.
        namespace: String,
        /// The sealed bytes with the change.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The table is full.
    #[error(
        "there are {VARIABLES_MAX} variables already, which is the limit: delete variables that are \
         not used"
    )]
    TooMany,
    /// The locks are used up.
    #[error(
        "{VARIABLE_LOCKS_MAX} locks are held already, which is the limit: release locks that are \
         not used"
    )]
    TooManyLocks,
}
