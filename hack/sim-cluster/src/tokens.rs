//! The tokens of a run as their operators know them: those that were acknowledged, those whose
//! right was taken away, and the queries that wait with one.

use std::collections::{BTreeMap, BTreeSet};

use crate::net::Machine;

/// A token, by the number of the wish that made it.
pub type TokenNumber = u32;

/// How a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Its making was acknowledged.
    Made,
    /// Its right is being taken away.
    Revoking,
    /// That was acknowledged, at this index of the state.
    Revoked { index: u64 },
}

impl Standing {
    /// Whether its revocation was acknowledged.
    pub fn is_revoked(self) -> bool {
        matches!(self, Self::Revoked { .. })
    }
}

/// See the top of this file.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    pub standing: BTreeMap<TokenNumber, Standing>,
    /// Queries that wait, each on a server that runs.
    pub waiting: BTreeSet<(TokenNumber, Machine)>,
}

impl Tokens {
    /// Tokens whose revocation was acknowledged.
    pub fn revoked(&self) -> usize {
        self.standing.values().filter(|it| it.is_revoked()).count()
    }

    /// The index of the state with a token's revocation, where that was acknowledged.
    pub fn revoked_at(&self, token: TokenNumber) -> Option<u64> {
        match self.standing.get(&token)? {
            Standing::Revoked { index } => Some(*index),
            Standing::Made | Standing::Revoking => None,
        }
    }
}

/// The kind of a request with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It reads consistently.
    Read,
    /// It writes what only its right allows.
    Write,
}

/// A request with a token, answered by a server that runs. Answers that say nothing about the
/// token's right (no leader, too many requests) are left out.
#[derive(Debug, Clone, Copy)]
pub struct TokenUse {
    pub server: Machine,
    pub token: TokenNumber,
    pub what: Use,
    /// How the token stood when the request was sent.
    pub asked: Standing,
    /// How it stood when the answer came.
    pub answered: Standing,
    /// Whether it was served; `false` = 403.
    pub served: bool,
}
