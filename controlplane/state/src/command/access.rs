//! Commands of access control. Ids, nonces, digests and sealed values come from the proposer;
//! `apply` decides conflicts, single use, limits, names, references and expirations.

use serde::{Deserialize, Serialize};

use super::keyring::{RootKeyChange, RootKeyUpsert, TokensRekey};
use super::{AllocsResign, Command, IDENTITY_LEVEL};
use crate::access::{AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken};
use crate::record::Digest;

/// The level of the first release that reads these commands.
pub const ACCESS_LEVEL: u32 = 3;

/// The most rows that one command of access control writes or removes.
pub const ACCESS_ROWS_MAX: usize = 1000;

/// A change of access control.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AccessCommand {
    /// Changes policies.
    Policies(AclPolicies),
    /// Changes access tokens.
    Tokens(AclTokens),
    /// Changes roles.
    Roles(AclRoles),
    /// Changes auth methods.
    AuthMethods(AclAuthMethods),
    /// Changes binding rules.
    BindingRules(AclBindingRules),
    /// Makes, uses up or removes one-time tokens.
    OneTimeTokens(OneTimeTokens),
    /// Adds a root key. Refused where the active key is not the one that it names.
    RootKeyUpsert(Box<RootKeyUpsert>),
    /// Changes a root key, or removes it.
    RootKey(RootKeyChange),
    /// Replaces secrets by the same ones, sealed with the active root key.
    TokensRekey(TokensRekey),
    /// Moves allocations to the active root key.
    AllocsResign(AllocsResign),
}

impl AccessCommand {
    /// See [`Command::level`].
    pub(super) fn level(&self) -> u32 {
        match self {
            Self::Tokens(AclTokens::Login { .. }) => IDENTITY_LEVEL,
            Self::Policies(_)
            | Self::Tokens(_)
            | Self::Roles(_)
            | Self::AuthMethods(_)
            | Self::BindingRules(_)
            | Self::OneTimeTokens(_) => ACCESS_LEVEL,
            Self::RootKeyUpsert(upsert) if upsert.is_of_first_key() => ACCESS_LEVEL,
            Self::RootKeyUpsert(_)
            | Self::RootKey(_)
            | Self::TokensRekey(_)
            | Self::AllocsResign(_) => IDENTITY_LEVEL,
        }
    }
}

macro_rules! into_command {
    ($($variant:ident($command:ident)),* $(,)?) => {
        $(impl From<$command> for Command {
            fn from(command: $command) -> Self {
                Self::Access(AccessCommand::$variant(command))
            }
        })*
    };
}

into_command! {
    Policies(AclPolicies),
    Tokens(AclTokens),
    Roles(AclRoles),
    AuthMethods(AclAuthMethods),
    BindingRules(AclBindingRules),
    OneTimeTokens(OneTimeTokens),
    RootKey(RootKeyChange),
    TokensRekey(TokensRekey),
}

impl From<RootKeyUpsert> for Command {
    fn from(command: RootKeyUpsert) -> Self {
        Self::Access(AccessCommand::RootKeyUpsert(Box::new(command)))
    }
}

/// Changes of policies.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AclPolicies {
    /// Creates or replaces policies, by name.
    Upsert { policies: Vec<AclPolicy> },
    /// Deletes policies. A policy that does not exist is no error.
    Delete { names: Vec<String> },
}

/// Changes of access tokens.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AclTokens {
    /// Creates tokens. A token with a `ttl` and without an expiration expires that long after the
    /// state's time.
    Create { tokens: Vec<AclToken> },
    /// Changes the names, kinds and rights of tokens. Secrets and times stay.
    Update { tokens: Vec<AclToken> },
    /// Deletes tokens, by accessor. Refused where one does not exist.
    Delete { accessors: Vec<String> },
    /// Removes those of these tokens that are expired.
    Expire { accessors: Vec<String> },
    /// Creates the token of a login. Refused where the auth method was changed or deleted since
    /// the login was checked.
    Login {
        /// The token, as in [`Self::Create`].
        token: Box<AclToken>,
        /// The name of the auth method.
        method: String,
        /// The method's modify index when the login was checked.
        method_index: u64,
    },
}

/// Changes of roles.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AclRoles {
    /// Creates roles.
    Create { roles: Vec<AclRole> },
    /// Replaces roles, by id.
    Update { roles: Vec<AclRole> },
    /// Deletes roles, by id. Refused where one does not exist.
    Delete { ids: Vec<String> },
}

/// Changes of auth methods.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AclAuthMethods {
    /// Creates or replaces auth methods, by name.
    Upsert { methods: Vec<AclAuthMethod> },
    /// Deletes auth methods with their binding rules. Refused where one does not exist.
    Delete { names: Vec<String> },
}

/// Changes of binding rules.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum AclBindingRules {
    /// Creates binding rules.
    Create { rules: Vec<AclBindingRule> },
    /// Replaces binding rules, by id.
    Update { rules: Vec<AclBindingRule> },
    /// Deletes binding rules, by id. Refused where one does not exist.
    Delete { ids: Vec<String> },
}

/// The life of one-time tokens.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum OneTimeTokens {
    /// Makes one for an access token, in place of the one that it has. It expires
    /// [`crate::ONE_TIME_TOKEN_TTL`] after the state's time.
    Make {
        /// SHA-256 of its secret.
        digest: Digest,
        /// The access token.
        accessor_id: String,
    },
    /// Uses one up. Of two exchanges of the same one, the second is refused.
    Exchange {
        /// SHA-256 of its secret.
        digest: Digest,
    },
    /// Removes those of these that are expired.
    Expire { digests: Vec<Digest> },
}
