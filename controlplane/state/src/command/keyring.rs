//! Commands of the keyring. Key material, nonces and sealed values come from the proposer; `apply`
//! decides states, uses and numbers.

use serde::{Deserialize, Serialize};

use super::Command;
use crate::access::{RootKey, RootKeyState, Sealed, hex};
use crate::variable::VariableKey;

/// The most values that one command seals anew.
pub const REKEY_VALUES_MAX: usize = 200;

/// A new root key.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RootKeyUpsert {
    /// The key. `apply` sets its number, times and indexes.
    pub key: RootKey,
    /// The number of the active key that the proposer saw; `None` where it saw none. Refused where
    /// another one is active: of two leaders that make the first key, one does.
    pub replaces: Option<u32>,
    /// The next state of the active key, where the new one takes its place.
    #[serde(default, skip_serializing_if = "Rotation::is_plain")]
    pub rotation: Rotation,
}

/// The next state of the key that a new active key replaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum Rotation {
    /// It is inactive, and opens the variables that it sealed.
    #[default]
    Plain,
    /// The values of variables move to the new key, too.
    Full,
}

impl Rotation {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl RootKeyUpsert {
    /// Whether the release that knew one key only reads it as it is.
    pub(super) fn is_of_first_key(&self) -> bool {
        let Self {
            key,
            replaces,
            rotation,
        } = self;
        replaces.is_none() && key.state == RootKeyState::Active && rotation.is_plain()
    }
}

/// A change of one root key, by its number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RootKeyChange {
    /// A prepublished key whose time has come becomes the active one.
    Activate { number: u32 },
    /// No variable is sealed any more with a key whose values move: it becomes inactive.
    EndRekey { number: u32 },
    /// Another key-encryption key wraps it. Refused where `before` does not wrap it any more.
    Rewrap {
        number: u32,
        /// The id of the key-encryption key that wraps it now.
        #[serde(with = "hex")]
        before: [u8; 8],
        /// The id of the one that wraps it from now on.
        #[serde(with = "hex")]
        kek_id: [u8; 8],
        /// The key, wrapped.
        #[serde(with = "hex")]
        wrapped: Vec<u8>,
    },
    /// Removes it. Refused where the rule says so.
    Remove { number: u32, rule: KeyRemoval },
}

impl RootKeyChange {
    /// The key.
    pub fn number(&self) -> u32 {
        match self {
            Self::Activate { number }
            | Self::EndRekey { number }
            | Self::Rewrap { number, .. }
            | Self::Remove { number, .. } => *number,
        }
    }
}

/// Which root keys are removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum KeyRemoval {
    /// A key that nothing needs: no live allocation has identities that it signs, no value is
    /// sealed with it.
    Unused,
    /// Also one that live allocations need: their identities are signed anew.
    Forced,
}

/// Secrets of tokens and auth methods, sealed anew. Values that were written since are left.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TokensRekey {
    /// By accessor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tokens: Vec<Resealed>,
    /// By name of the auth method.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<Resealed>,
}

/// Values of variables, sealed anew: a message of its own in the log. Values that were written
/// since are left.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VariablesRekey {
    /// At most [`REKEY_VALUES_MAX`].
    pub variables: Vec<ResealedVariable>,
}

/// A variable whose items were sealed anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResealedVariable {
    /// Its name.
    pub key: VariableKey,
    /// The key and the nonce of the seal that it replaces.
    pub replaces: (u32, [u8; 12]),
    /// The items under the active key.
    pub sealed: Sealed,
}

impl From<VariablesRekey> for Command {
    fn from(command: VariablesRekey) -> Self {
        Self::VariablesRekey(command)
    }
}

/// A value that was sealed anew.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Resealed {
    /// The object that it belongs to.
    pub name: String,
    /// The key and the nonce of the seal that it replaces.
    pub key: u32,
    #[serde(with = "hex")]
    pub nonce: [u8; 12],
    /// The value under the active key.
    pub sealed: Sealed,
}

impl Resealed {
    /// Whether this is the seal that it replaces.
    pub(crate) fn replaces(&self, sealed: &Sealed) -> bool {
        (sealed.key, sealed.nonce) == (self.key, self.nonce)
    }
}
