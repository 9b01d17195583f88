//! Commands of variables: messages of their own in the log, since sealed values are bytes. The
//! proposer seals items and draws ids; `apply` decides conflicts, locks, quotas and limits.

use uuid::Uuid;

use super::Command;
use crate::access::Sealed;
use crate::variable::{VariableKey, VariableLock};

/// The most locks that one command ends.
pub const VARIABLE_LOCKS_EXPIRE_MAX: usize = 1000;

/// A change of one variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableApply {
    /// Its name.
    pub key: VariableKey,
    /// The modify index that it must have; 0 = it must not exist. `None` = any.
    pub cas: Option<u64>,
    /// The lock that the caller holds.
    pub lock_id: Option<Uuid>,
    /// The change.
    pub change: VariableChange,
}

/// See [`VariableApply`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VariableChange {
    /// Writes its items.
    Write(Sealed),
    /// Deletes it. A variable that does not exist is no error.
    Delete,
    /// Acquires a lock on it. The holder of the lock keeps it, with its times.
    Acquire {
        /// The items to write.
        sealed: Sealed,
        /// When they are written.
        items: AcquiredItems,
        /// The lock. Its `until` is not read.
        lock: VariableLock,
    },
    /// Releases the caller's lock.
    Release,
}

/// When an acquisition writes its items.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AcquiredItems {
    /// Always.
    Written,
    /// Only to a variable that does not exist: they are empty.
    Kept,
}

/// Ends locks, each named by its id. A lock that is held is delayed for its own delay; one that is
/// delayed is removed once the state's time has reached its `until`. Any other one stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariableLocksExpire {
    /// The locks.
    pub locks: Vec<(VariableKey, Uuid)>,
}

impl From<VariableApply> for Command {
    fn from(command: VariableApply) -> Self {
        Self::VariableApply(Box::new(command))
    }
}

impl From<VariableLocksExpire> for Command {
    fn from(command: VariableLocksExpire) -> Self {
        Self::VariableLocksExpire(command)
    }
}
