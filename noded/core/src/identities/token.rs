//! Names of identities, and the tokens that servers signed for them.

use std::fmt;
use std::time::Duration;

use protocol_model::{AllocId, Task, WorkloadIdentity};
use serde::{Deserialize, Serialize};

use crate::time::Moment;

/// The name of a task's own identity.
pub const DEFAULT_IDENTITY: &str = "default";

/// One identity of one task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IdentityKey {
    /// The allocation.
    pub alloc: AllocId,
    /// The task.
    pub task: String,
    /// The identity: [`DEFAULT_IDENTITY`], or the name that the job file has.
    pub identity: String,
}

impl IdentityKey {
    /// The identity `identity` of a task.
    pub fn new(alloc: AllocId, task: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            alloc,
            task: task.into(),
            identity: identity.into(),
        }
    }
}

/// A signed token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Jwt(String);

impl Jwt {
    /// The token in its compact form.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token itself: for the task's file, its environment and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jwt({} bytes)", self.0.len())
    }
}

/// A token as a server sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedToken {
    /// The token.
    pub jwt: Jwt,
    /// Seconds since 1970, by the server's clock.
    pub issued_at: u64,
    /// Seconds since 1970; 0 = it does not expire.
    pub expires_at: u64,
}

/// A token that the node holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HeldToken {
    /// The token.
    pub jwt: Jwt,
    /// How long it is valid; `None` = while its allocation lives.
    pub ttl: Option<Duration>,
    /// The number of the root key that the allocation named when the token was asked for; 0 = none.
    pub root_key: u32,
    /// When it came, by the clock of this boot.
    pub came: Moment,
    /// Whether users were told that it expired before a newer one came.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expiry_told: bool,
}

impl HeldToken {
    pub(super) fn new(signed: SignedToken, root_key: u32, now: Moment) -> Self {
        let SignedToken {
            jwt,
            issued_at,
            expires_at,
        } = signed;
        let seconds = expires_at.saturating_sub(issued_at);
        Self {
            jwt,
            ttl: (expires_at != 0).then(|| Duration::from_secs(seconds)),
            root_key,
            came: now,
            expiry_told: false,
        }
    }

    /// When it expires. Counted from its arrival, so that the clocks of node and server may differ.
    pub fn expires(&self) -> Option<Moment> {
        self.ttl.map(|ttl| self.came.after(ttl))
    }

    /// Whether it has expired.
    pub fn is_expired(&self, now: Moment) -> bool {
        self.expires().is_some_and(|at| at <= now)
    }
}

/// Why a server signs no token for an identity that it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IdentityRejection {
    /// It is not there, not placed on this node, or terminal.
    #[error("allocation not found")]
    AllocNotFound,
    /// The group has no such task.
    #[error("task not found")]
    TaskNotFound,
    /// The task has no such identity.
    #[error("identity not found")]
    IdentityNotFound,
    /// A reason of a later release.
    #[error("rejected")]
    Other,
}

/// The identities that a task shows to itself, by file or environment. Only those are asked for.
pub fn shown_identities(task: &Task) -> impl Iterator<Item = &WorkloadIdentity> {
    task.shown_identities()
}

/// The identity's name; an empty one is the default identity's.
pub fn name_of(identity: &WorkloadIdentity) -> &str {
    match identity.name.as_str() {
        "" => DEFAULT_IDENTITY,
        name => name,
    }
}
