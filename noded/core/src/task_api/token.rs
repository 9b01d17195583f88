//! Workload tokens, as far as a node judges them without a server. The node refuses no token that a
//! server would take; a server judges again all that passes.
//!
//! | token | judgment |
//! |---|---|
//! | names a key that the node does not have | the server's: the key may be new |
//! | signed, but this release cannot read its claims | the server's: the cluster signed it |
//! | unreadable, or not signed by the key that it names | refused |
//! | for another audience | refused |
//! | expired more than [`EXPIRED_GRACE`] ago by the node's clock | refused |
//! | of an allocation of this node that has ended | refused |
//! | all others | verified |
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | [`SIGNED_MAX`] | 1,024 tokens | those unused for longest are verified again |
//! | [`ENDED_MAX`] | 4,096 allocations | the server judges tokens of the oldest ones |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{AllocId, UnixNanos};

use super::TokenDigest;

/// Tokens whose signature was verified. A node has few tasks and these few tokens.
pub const SIGNED_MAX: usize = 1_024;
/// Ended allocations that are remembered.
pub const ENDED_MAX: usize = 4_096;
/// How long after its `exp` a token is still forwarded: servers have a leeway of 60 s, and their
/// clocks decide, not the node's.
pub const EXPIRED_GRACE: Duration = Duration::from_secs(5 * 60);

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
    /// It expired too long ago.
    #[error("the token has expired")]
    Expired,
    /// Its allocation was on this node.
    #[error("the allocation of the token has ended")]
    Ended,
}

impl SignedToken {
    /// Whether a server may take it. `ended` are allocations of this node.
    ///
    /// # Errors
    /// Where none would.
    pub fn check(&self, ended: &EndedAllocs, now: UnixNanos) -> Result<(), TokenRefusal> {
        if !self.is_for_api {
            return Err(TokenRefusal::Audience);
        }
        let seconds = u64::try_from(now.0 / 1_000_000_000).unwrap_or(0);
        let end = self
            .expires_at
            .map(|end| end.saturating_add(EXPIRED_GRACE.as_secs()));
        if end.is_some_and(|end| end <= seconds) {
            return Err(TokenRefusal::Expired);
        }
        match ended.contains(self.alloc) {
            true => Err(TokenRefusal::Ended),
            false => Ok(()),
        }
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
        let other = SignedToken {
            is_for_api: false,
            ..signed(None)
        };
        let of_ended = SignedToken {
            alloc: AllocId::from_u128(2),
            ..signed(None)
        };
        for (token, now, expected) in [
            (signed(None), at(i64::MAX / 1_000_000_000), Ok(())),
            (signed(Some(1_000)), at(0), Ok(())),
            (signed(Some(1_000)), at(1_299), Ok(())),
            (signed(Some(1_000)), at(1_300), Err(TokenRefusal::Expired)),
            (signed(Some(u64::MAX)), at(1_300), Ok(())),
            (other, at(0), Err(TokenRefusal::Audience)),
            (of_ended, at(0), Err(TokenRefusal::Ended)),
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
