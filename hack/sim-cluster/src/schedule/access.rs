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
    /// The server that its right is taken away through.
    pub revoker: Machine,
    pub revocation: Revocation,
}

/// How a right is taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// The token is deleted.
    TokenDeleted,
    /// The token's policy is written without the right.
    PolicyEmptied,
}

impl Revocation {
    const ALL: [Self; 2] = [Self::TokenDeleted, Self::PolicyEmptied];
}

pub(super) fn round(rng: &mut Rng) -> Round {
    let maker = Machine::try_from(rng.below(SERVERS.into())).unwrap_or(0);
    let further = Machine::try_from(rng.between(1, u64::from(SERVERS) - 1)).unwrap_or(1);
    Round {
        maker,
        revoker: (maker + further) % SERVERS,
        revocation: Revocation::ALL[rng.offset(Revocation::ALL.len())],
    }
}
