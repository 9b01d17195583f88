//! The second look for a credential that this server does not know: it may lag behind the server
//! that made it.
//!
//! ```text
//!  unknown ─► missed a moment ago? ─► refused
//!        └──► barrier, shared by all that wait for it ─► looked up again ─► known | missed
//! ```
//!
//! | limit | value | at the limit |
//! |---|---|---|
//! | [`SharedBarrier`] | 20 barriers a second | the next one waits |
//! | [`MISSED_MAX`] | 4,096 credentials | those missed first are forgotten |
//! | [`MISSED_FOR`] | 1 s, or until rights change | the credential is looked up again |

use std::time::Duration;

use controlplane_state::Digest;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::SharedBarrier;
use super::cache::Cache;

/// Credentials that are remembered as unknown.
const MISSED_MAX: usize = 4096;
/// How long a credential is remembered as unknown.
const MISSED_FOR: Duration = Duration::from_secs(1);

/// A credential that no token had.
#[derive(Clone, Copy, Debug)]
struct Missed {
    acl_index: u64,
    until: Instant,
}

/// Barriers for lookups, and the credentials that were missed.
#[derive(Debug)]
pub(crate) struct SecondLook {
    barrier: SharedBarrier,
    missed: Mutex<Cache<Digest, Missed>>,
}

impl Default for SecondLook {
    fn default() -> Self {
        Self {
            barrier: SharedBarrier::default(),
            missed: Mutex::new(Cache::new(MISSED_MAX)),
        }
    }
}

impl SecondLook {
    /// The barrier that lookups share.
    pub(crate) fn barrier(&self) -> &SharedBarrier {
        &self.barrier
    }

    /// Whether the credential was looked up in vain a moment ago, on a state of the same rights.
    pub(crate) fn has_missed(&self, credential: &Digest, acl_index: u64, now: Instant) -> bool {
        let missed = self.missed.lock().find(credential);
        missed.is_some_and(|missed| missed.acl_index == acl_index && now < missed.until)
    }

    /// Remembers a credential that is unknown after a barrier.
    pub(crate) fn miss(&self, credential: Digest, acl_index: u64, now: Instant) {
        let until = now + MISSED_FOR;
        let missed = Missed { acl_index, until };
        self.missed.lock().insert(credential, missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_missed_credential_is_unknown_until_rights_change() {
        let (look, now) = (SecondLook::default(), Instant::now());
        let known = crate::gateway::digest(b"one");
        look.miss(known, 7, now);
        assert!(look.has_missed(&known, 7, now));
        assert!(!look.has_missed(&known, 8, now));
        assert!(!look.has_missed(&crate::gateway::digest(b"other"), 7, now));
        assert!(!look.has_missed(&known, 7, now + MISSED_FOR));
    }
}
