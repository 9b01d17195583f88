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
//! | [`BARRIER_EVERY`] | 50 ms between two barriers: 20 a second | the next one waits |
//! | [`MISSED_MAX`] | 4,096 credentials | those missed first are forgotten |
//! | [`MISSED_FOR`] | 1 s, or until rights change | the credential is looked up again |

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use controlplane_state::Digest;
use tokio::time::{Instant, sleep_until};

use super::cache::Cache;

/// The shortest time from one barrier to the next.
const BARRIER_EVERY: Duration = Duration::from_millis(50);
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

/// The last barrier that ended.
#[derive(Clone, Copy, Debug, Default)]
struct Passed {
    /// Barriers are numbered from 1.
    number: u64,
    begun: Option<Instant>,
    has_failed: bool,
}

/// No majority answered the barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BarrierFailed;

/// Barriers for lookups, and the credentials that were missed.
#[derive(Debug)]
pub(crate) struct SecondLook {
    begun: AtomicU64,
    passed: tokio::sync::Mutex<Passed>,
    missed: parking_lot::Mutex<Cache<Digest, Missed>>,
}

impl Default for SecondLook {
    fn default() -> Self {
        Self {
            begun: AtomicU64::new(0),
            passed: tokio::sync::Mutex::default(),
            missed: parking_lot::Mutex::new(Cache::new(MISSED_MAX)),
        }
    }
}

impl SecondLook {
    /// Waits for a barrier that begins after this call. All that wait share it. `barrier` makes one;
    /// it is called by one of them.
    ///
    /// # Errors
    /// If no majority answers.
    pub(crate) async fn barrier<F>(&self, barrier: impl FnOnce() -> F) -> Result<(), BarrierFailed>
    where
        F: Future<Output = bool>,
    {
        let arrived = self.begun.load(Ordering::Acquire);
        let mut passed = self.passed.lock().await;
        if passed.number <= arrived {
            if let Some(last) = passed.begun {
                sleep_until(last + BARRIER_EVERY).await;
            }
            // A caller that leaves in the middle leaves the barrier to the next one in the queue.
            let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
            passed.begun = Some(Instant::now());
            passed.has_failed = !barrier().await;
            passed.number = number;
        }
        match passed.has_failed {
            true => Err(BarrierFailed),
            false => Ok(()),
        }
    }

    /// Whether the credential was looked up in vain a moment ago, with the same rights in the state.
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_that_wait_share_one_barrier() {
        let (look, barriers) = (
            Arc::new(SecondLook::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        let start = Instant::now();
        let waiting: Vec<_> = (0..1000)
            .map(|_| {
                let (look, barriers) = (Arc::clone(&look), Arc::clone(&barriers));
                tokio::spawn(async move {
                    let barrier = || async {
                        barriers.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        true
                    };
                    look.barrier(barrier).await
                })
            })
            .collect();
        for waiting in waiting {
            assert_eq!(waiting.await.expect("no panic"), Ok(()));
        }
        // The first one begins at once; the others arrived before it began, or share the next one.
        assert!(barriers.load(Ordering::Relaxed) <= 2);
        assert!(start.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_at_most_20_barriers_a_second() {
        let (look, start) = (SecondLook::default(), Instant::now());
        for _ in 0..41 {
            look.barrier(|| async { true }).await.expect("passes");
        }
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_does_not_keep_the_others_waiting() {
        let look = SecondLook::default();
        let never = look.barrier(std::future::pending::<bool>);
        tokio::time::timeout(Duration::from_millis(1), never)
            .await
            .expect_err("it leaves");
        let passed = look.barrier(|| async { true }).await;
        assert_eq!(passed, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_barrier_without_a_majority_fails_for_all_that_wait() {
        let look = SecondLook::default();
        let fails = || async { false };
        let (one, other) = tokio::join!(look.barrier(fails), look.barrier(fails));
        assert_eq!([one, other], [Err(BarrierFailed); 2]);
        assert_eq!(look.barrier(|| async { true }).await, Ok(()));
    }

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
