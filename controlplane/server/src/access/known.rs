//! Callers by the digest of their secret, as one state has them: the one lookup of most requests.
//!
//! An entry holds for the state's rights of one index ([`Asker::acl_index`]). A change of any
//! token, policy or role makes all entries stale; each is found anew when it is used next.

use controlplane_state::Digest;
use parking_lot::Mutex;

use super::Asker;
use super::cache::Cache;

/// Parts with locks of their own, so that requests of several callers do not wait for each other.
const SHARDS: usize = 16;
/// Callers that are kept.
const CALLERS_MAX: usize = 16_384;

/// See the top of this file. Only holders of valid tokens are kept: a stranger fills nothing.
#[derive(Debug)]
pub(super) struct KnownCallers {
    shards: [Mutex<Cache<Digest, Asker>>; SHARDS],
}

impl KnownCallers {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(Cache::new(CALLERS_MAX / SHARDS))),
        }
    }

    /// The caller with this secret in the state whose rights are of `acl_index`.
    pub(super) fn find(&self, secret: &Digest, acl_index: u64) -> Option<Asker> {
        let found = self.shard(secret).lock().find(secret);
        found.filter(|asker| asker.acl_index == acl_index)
    }

    /// Keeps a caller in place of what was known of its secret.
    pub(super) fn keep(&self, secret: Digest, asker: Asker) {
        self.shard(&secret).lock().insert(secret, asker);
    }

    fn shard(&self, secret: &Digest) -> &Mutex<Cache<Digest, Asker>> {
        // Bytes of a digest are spread evenly.
        &self.shards[usize::from(secret.0[0]) % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol_access::Acl;

    use super::*;
    use crate::access::Caller;

    #[test]
    fn caller_is_known_at_the_index_of_its_rights_alone() {
        let known = KnownCallers::new();
        let asker = |acl_index| Asker {
            caller: Caller::Open,
            acl: Arc::new(Acl::nothing()),
            expires: None,
            acl_index,
        };
        let (one, other) = (Digest([1; 32]), Digest([17; 32]));
        known.keep(one, asker(7));
        assert!(known.find(&one, 7).is_some());
        assert!(known.find(&one, 8).is_none() && known.find(&one, 6).is_none());
        assert!(known.find(&other, 7).is_none());
        known.keep(one, asker(8));
        assert!(known.find(&one, 8).is_some() && known.find(&one, 7).is_none());
    }
}
