//! Workload tokens, as far as a node judges them without a server. The node refuses no token that a
//! server would take; a server judges again all that passes.
//!
//! | token | judgment |
//! |---|---|
//! | names a key that the node does not have | the server's: the key may be new |
//! | signed, but this release cannot read its claims | the server's: the cluster signed it |
//! | unreadable, or not signed by the key that it names | refused |
//! | for another audience | refused |
//! | of an allocation of this node that has ended | refused |
//! | expired by the node's clock | the server's: the clocks of the servers count |
//! | all others | verified |
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | [`SIGNED_MAX`] | 1,024 tokens | those unused for longest are verified again |
//! | [`ENDED_MAX`] | 4,096 allocations | the server judges tokens of the oldest ones |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use protocol_model::{AllocId, UnixNanos};

use super::TokenDigest;

/// Tokens whose signature was verified. A node has few tasks and these few tokens.
pub const SIGNED_MAX: usize = 1_024;
/// Ended allocations that are remembered.
pub const ENDED_MAX: usize = 4_096;

/// A token that a key of the cluster has signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedToken {
    /// The name of that key.
    pub kid: String,
    /// The allocation that it is of.
    pub alloc: AllocId,
    /// Whether the API is among its audiences.
    pub is_for_api: bool,
    /// Its `exp`, in seconds since 1970.
    pub expires_at: Option<u64>,
}

/// Why a node refuses a signed token.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TokenRefusal {
    /// It is meant for others.
    #[error("the token is for another audience")]
    Audience,
    /// Its allocation was on this node.
    #[error("the allocation of the token has ended")]
    Ended,
}

/// The judgment of a signed token that is not refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Servers take it.
    Valid,
    /// The node's clock says that it has expired. The node's clock may be ahead, so the server
    /// judges it as a token that the node does not know.
    LooksExpired,
}

impl SignedToken {
    /// Whether a server may take it. `ended` are allocations of this node.
    ///
    /// # Errors
    /// Where none would.
    pub fn check(&self, ended: &EndedAllocs, now: UnixNanos) -> Result<Standing, TokenRefusal> {
        if !self.is_for_api {
            return Err(TokenRefusal::Audience);
        }
        if ended.contains(self.alloc) {
            return Err(TokenRefusal::Ended);
        }
        let seconds = u64::try_from(now.0 / 1_000_000_000).unwrap_or(0);
        Ok(match self.expires_at.is_some_and(|end| end <= seconds) {
            true => Standing::LooksExpired,
            false => Standing::Valid,
        })
    }
}

/// Signed tokens by their digest. Two generations: the young one becomes the old one when it holds
/// half of the bound, and a token that is used moves to the young one.
#[derive(Clone, Debug, Default)]
pub struct SignedTokens {
    young: BTreeMap<TokenDigest, Arc<SignedToken>>,
    old: BTreeMap<TokenDigest, Arc<SignedToken>>,
}

impl SignedTokens {
    /// A token whose signature was verified before.
    pub fn find(&mut self, token: &TokenDigest) -> Option<Arc<SignedToken>> {
        if let Some(found) = self.young.get(token) {
            return Some(Arc::clone(found));
        }
        let found = self.old.remove(token)?;
        self.insert(*token, Arc::clone(&found));
        Some(found)
    }

    /// Remembers a token whose signature was verified.
    pub fn insert(&mut self, token: TokenDigest, signed: Arc<SignedToken>) {
        self.young.insert(token, signed);
        if self.young.len() * 2 > SIGNED_MAX {
            self.old = std::mem::take(&mut self.young);
        }
    }

    /// Tokens that it remembers.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Allocations of this node that have ended, since the node's daemon started.
#[derive(Clone, Debug, Default)]
pub struct EndedAllocs {
    ended: BTreeSet<AllocId>,
    /// The oldest first.
    order: VecDeque<AllocId>,
}

impl EndedAllocs {
    /// The allocation has ended.
    pub fn insert(&mut self, alloc: AllocId) {
        if !self.ended.insert(alloc) {
            return;
        }
        self.order.push_back(alloc);
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// A task of the allocation runs once more.
    pub fn remove(&mut self, alloc: AllocId) {
        if self.ended.remove(&alloc) {
            self.order.retain(|other| *other != alloc);
        }
    }

    /// Whether it has ended here.
    pub fn contains(&self, alloc: AllocId) -> bool {
        self.ended.contains(&alloc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(expires_at: Option<u64>) -> SignedToken {
        SignedToken {
            kid: "a".to_owned(),
            alloc: AllocId::from_u128(1),
            is_for_api: true,
            expires_at,
        }
    }

    fn at(seconds: i64) -> UnixNanos {
        UnixNanos(seconds * 1_000_000_000)
    }

    #[test]
    fn signed_tokens_are_refused_only_where_every_server_refuses_them() {
        let mut ended = EndedAllocs::default();
        ended.insert(AllocId::from_u128(2));
        let other = |expires_at| SignedToken {
            is_for_api: false,
            ..signed(expires_at)
        };
        let of_ended = |expires_at| SignedToken {
            alloc: AllocId::from_u128(2),
            ..signed(expires_at)
        };
        let far = at(i64::MAX / 1_000_000_000);
        for (token, now, expected) in [
            (signed(None), far, Ok(Standing::Valid)),
            (signed(Some(1_000)), at(0), Ok(Standing::Valid)),
            (signed(Some(1_000)), at(999), Ok(Standing::Valid)),
            (signed(Some(1_000)), at(1_000), Ok(Standing::LooksExpired)),
            // However far the node's clock is ahead.
            (signed(Some(1_000)), far, Ok(Standing::LooksExpired)),
            (signed(Some(u64::MAX)), far, Ok(Standing::Valid)),
            (other(None), at(0), Err(TokenRefusal::Audience)),
            (other(Some(1_000)), far, Err(TokenRefusal::Audience)),
            (of_ended(None), at(0), Err(TokenRefusal::Ended)),
            (of_ended(Some(1_000)), far, Err(TokenRefusal::Ended)),
        ] {
            assert_eq!(token.check(&ended, now), expected, "{token:?} {now:?}");
        }
    }

    #[test]
    fn allocation_that_runs_once_more_has_not_ended() {
        let mut ended = EndedAllocs::default();
        let alloc = AllocId::from_u128(1);
        ended.insert(alloc);
        ended.insert(alloc);
        ended.remove(alloc);
        assert!(!ended.contains(alloc));
        for number in 1..=ENDED_MAX as u128 {
            ended.insert(AllocId::from_u128(number));
        }
        assert!(ended.contains(alloc));
        ended.insert(AllocId::from_u128(0));
        assert!(!ended.contains(alloc));
    }

    #[test]
    fn signed_tokens_are_bounded_and_those_in_use_stay() {
        let mut tokens = SignedTokens::default();
        let digest = |number: u32| {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&number.to_le_bytes());
            digest
        };
        tokens.insert(digest(0), Arc::new(signed(None)));
        for number in 1..10_000 {
            tokens.insert(digest(number), Arc::new(signed(None)));
            assert!(tokens.find(&digest(0)).is_some());
            assert!(tokens.len() <= SIGNED_MAX);
        }
        assert!(tokens.find(&digest(1)).is_none());
    }
}
