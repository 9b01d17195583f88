//! Rounds of access: a token is made through one server, used on all of them, and its right is
//! taken away through another one.

use hack_sim::rng::Rng;

use super::SERVERS;
use crate::net::Machine;

/// One round. All times follow from the seed and the number of its wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// The server that the token is made through.
    pub maker: Machine,
    pub making: Making,
    /// The server that its right is taken away through.
    pub revoker: Machine,
    pub revocation: Revocation,
}

/// How a token comes to its right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// It is made with the right.
    Whole,
    /// It is made without, and its policy is written with the right then.
    Granted,
    /// Its ids are chosen by the operator, and every server refused it a moment before.
    Uploaded,
}

/// How a right is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// The token is deleted.
    TokenDeleted,
    /// The token gets another policy.
    TokenChanged,
    /// The token's policy is written without the right.
    PolicyEmptied,
    /// The token's policy is deleted.
    PolicyDeleted,
    /// The token's role is deleted.
    RoleDeleted,
    /// The token's role gets another policy.
    RoleChanged,
}

impl Making {
    const ALL: [Self; 3] = [Self::Whole, Self::Granted, Self::Uploaded];
}

impl Revocation {
    const ALL: [Self; 6] = [
        Self::TokenDeleted,
        Self::TokenChanged,
        Self::PolicyEmptied,
        Self::PolicyDeleted,
        Self::RoleDeleted,
        Self::RoleChanged,
    ];

    /// Whether the token has its right by a role.
    pub fn is_of_a_role(self) -> bool {
        matches!(self, Self::RoleDeleted | Self::RoleChanged)
    }
}

pub(super) fn round(rng: &mut Rng) -> Round {
    let maker = Machine::try_from(rng.below(SERVERS.into())).unwrap_or(0);
    let further = Machine::try_from(rng.between(1, u64::from(SERVERS) - 1)).unwrap_or(1);
    Round {
        maker,
        making: Making::ALL[rng.offset(Making::ALL.len())],
        revoker: (maker + further) % SERVERS,
        revocation: Revocation::ALL[rng.offset(Revocation::ALL.len())],
    }
}
