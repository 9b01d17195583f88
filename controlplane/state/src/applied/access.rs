//! Why a change of access control is refused. The texts are Nomad's where it has one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{
    AuthMethodFault, BindingRuleFault, PolicyFault, RoleFault, RootKeyState, SealedCounts,
    TokenFault,
};

/// Why a change of access control is refused. Numbers are places in the command, from 0 on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
pub enum AccessRefusal {
    /// A policy is not written.
    #[error("policy {number} invalid: {fault}")]
    InvalidPolicy {
        /// Its place.
        number: usize,
        /// Its fault.
        fault: PolicyFault,
    },
    /// A token is not written.
    #[error("token {number} invalid: {fault}")]
    InvalidToken {
        /// Its place.
        number: usize,
        /// Its fault.
        fault: TokenFault,
    },
    /// A role is not written.
    #[error("role {number} invalid: {fault}")]
    InvalidRole {
        /// Its place.
        number: usize,
        /// Its fault.
        fault: RoleFault,
    },
    /// An auth method is not written.
    #[error("auth method {number} invalid: {fault}")]
    InvalidAuthMethod {
        /// Its place.
        number: usize,
        /// Its fault.
        fault: AuthMethodFault,
    },
    /// A binding rule is not written.
    #[error("binding rule {number} invalid: {fault}")]
    InvalidBindingRule {
        /// Its place.
        number: usize,
        /// Its fault.
        fault: BindingRuleFault,
    },
    /// The token to change does not exist.
    #[error("cannot find token {0}")]
    UnknownToken(String),
    /// Tokens to delete do not exist.
    #[error("Cannot delete nonexistent tokens: {}", .0.join(", "))]
    NonexistentTokens(Vec<String>),
    /// A new token has the accessor of another one.
    #[error("ACL token {0} exists already")]
    TokenExists(String),
    /// A new token has the secret of another one.
    #[error("the secret of ACL token {0} is in use already")]
    SecretInUse(String),
    /// A token links to a role, or an update names one, that does not exist.
    #[error("cannot find role {0}")]
    UnknownRole(String),
    /// A role links to a policy that does not exist.
    #[error("cannot find policy {0}")]
    UnknownPolicy(String),
    /// A new role has the id of another one.
    #[error("ACL role {0} exists already")]
    RoleExists(String),
    /// Another role has the name.
    #[error("role with name {0} already exists")]
    RoleNameTaken(String),
    /// The role to delete does not exist.
    #[error("ACL role {0} not found")]
    RoleNotFound(String),
    /// Another auth method is the default.
    #[error("default method already exists: {0}")]
    DefaultMethodExists(String),
    /// The auth method to delete does not exist.
    #[error("ACL auth method {0} not found")]
    AuthMethodNotFound(String),
    /// A new binding rule has the id of another one.
    #[error("ACL binding rule {0} exists already")]
    BindingRuleExists(String),
    /// The binding rule to change or delete does not exist.
    #[error("ACL binding rule {0} not found")]
    BindingRuleNotFound(String),
    /// The one-time token is unknown, used or expired, or its access token is.
    #[error("Permission denied")]
    OneTimeTokenInvalid,
    /// Another root key is active than the one that a new key was to replace.
    #[error("root key {found} is active: the new key was to replace {wanted}")]
    RootKeyMoved {
        /// The key that was to be replaced; 0 = none.
        wanted: u32,
        /// The active key; 0 = none.
        found: u32,
    },
    /// A new root key has the id of another one.
    #[error("root key {0} exists already")]
    RootKeyExists(uuid::Uuid),
    /// The root key does not exist (any more).
    #[error("root key {0} does not exist")]
    RootKeyNotFound(u32),
    /// The active key is never removed.
    #[error("active root key cannot be deleted - call rotate first")]
    RootKeyActive,
    /// Something needs the key.
    #[error("root key in use, cannot delete")]
    RootKeyInUse,
    /// Values are sealed with the key.
    #[error("root key {id} seals {left}: rotate with -full first, and wait until they have moved")]
    RootKeySeals {
        /// Its id.
        id: uuid::Uuid,
        /// The values.
        left: SealedCounts,
    },
    /// The key has another state than the one that the change starts from.
    #[error("root key {id} is {}, not {}", .found.as_str(), .wanted.as_str())]
    RootKeyState {
        /// Its id.
        id: uuid::Uuid,
        /// The state that the change starts from.
        wanted: RootKeyState,
        /// Its state.
        found: RootKeyState,
    },
    /// The publish time of the key is in the future.
    #[error("the publish time of root key {0} has not come")]
    RootKeyTooEarly(uuid::Uuid),
    /// Another key-encryption key wraps the key since.
    #[error("another key-encryption key wraps root key {0} by now")]
    RootKeyRewrapped(uuid::Uuid),
    /// A value was sealed with a root key that is gone, or seals no more.
    #[error("root key {0}, which sealed the value, seals no values any more: try again")]
    SealingKeyGone(u32),
    /// A sealed value is too long.
    #[error(
        "a sealed value has {bytes} bytes: at most {} are allowed, {} of a variable",
        crate::access::SEALED_BYTES_MAX,
        crate::variable::VARIABLE_SEALED_BYTES_MAX
    )]
    SealedTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The table is full.
    #[error("there are {max} {rows} already, which is the limit: delete {rows} that are not used")]
    LimitReached {
        /// The rows.
        rows: AccessRows,
        /// The most that are kept.
        max: usize,
    },
    /// The command has too many rows.
    #[error("{found} rows in one change: at most {max} are allowed")]
    TooManyRows {
        /// Their number.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// The auth method of a login is not as it was when the login was checked.
    #[error("auth method {0} was changed or deleted meanwhile: log in again")]
    AuthMethodChanged(String),
}

/// The rows that have a limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum AccessRows {
    /// Policies.
    Policies,
    /// Tokens.
    Tokens,
    /// Roles.
    Roles,
    /// Auth methods.
    AuthMethods,
    /// Binding rules.
    BindingRules,
    /// One-time tokens.
    OneTimeTokens,
    /// Root keys.
    RootKeys,
}

impl fmt::Display for AccessRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Policies => "ACL policies",
            Self::Tokens => "ACL tokens",
            Self::Roles => "ACL roles",
            Self::AuthMethods => "ACL auth methods",
            Self::BindingRules => "ACL binding rules",
            Self::OneTimeTokens => "one-time tokens",
            Self::RootKeys => "root keys",
        })
    }
}
