//! Namespaces in a cluster whose servers do not all know their newer fields and rules.

use serde::{Deserialize, Serialize};

use crate::namespace::Namespace;

/// The level of a server that keeps [`Namespace::capabilities`] and the fields beside it, and knows
/// [`DeletionRule::NothingLive`].
const RESTRICTIONS_LEVEL: u32 = 3;

/// The rule for deleting a namespace. Servers of one log have to decide alike, so a command names
/// the rule that it was made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum DeletionRule {
    /// The namespace has no job, not even a dead one; an unknown name is refused. Level 1.
    #[default]
    NoJobs,
    /// The namespace has neither a live job nor a live allocation; an unknown name succeeds.
    /// Level 3.
    NothingLive,
}

impl DeletionRule {
    pub(super) fn is_first(&self) -> bool {
        *self == Self::NoJobs
    }

    pub(super) fn level(self) -> u32 {
        match self {
            Self::NoJobs => 1,
            Self::NothingLive => RESTRICTIONS_LEVEL,
        }
    }
}

/// The level of the command that creates or replaces this namespace.
pub(super) fn upsert_level(namespace: &Namespace) -> u32 {
    if namespace.restricts() {
        RESTRICTIONS_LEVEL
    } else {
        1
    }
}
