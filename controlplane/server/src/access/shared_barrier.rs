//! A barrier that requests share: each of them waits for one that begins after it came, or is
//! content with one that began less than [`BARRIER_EVERY`] before.
//!
//! ```text
//!  requests  a    b c      d
//!  barriers  [--a--] [-b c-]  [--d--]      at least BARRIER_EVERY from begin to begin
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// The shortest time from one barrier to the next: 20 a second.
const BARRIER_EVERY: Duration = Duration::from_millis(50);

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

/// A barrier that is shared by all that wait for one.
#[derive(Debug, Default)]
pub(crate) struct SharedBarrier {
    /// Barriers that have begun.
    begun: AtomicU64,
    passed: Mutex<Passed>,
}

impl SharedBarrier {
    /// Waits for a barrier that begins after this call. All that wait share it: one of them calls
    /// `barrier`, which answers whether it passed.
    ///
    /// # Errors
    /// If no majority answers.
    pub(crate) async fn pass<F>(&self, barrier: impl FnOnce() -> F) -> Result<(), BarrierFailed>
    where
        F: Future<Output = bool>,
    {
        let arrived = self.begun.load(Ordering::Acquire);
        let mut passed = self.passed.lock().await;
        if passed.number <= arrived {
            self.begin(&mut passed, barrier).await;
        }
        passed.result()
    }

    /// As [`Self::pass`], but a barrier that passed and began less than [`BARRIER_EVERY`] ago is
    /// enough: a caller that asks again and again does not wait for the pause between barriers.
    ///
    /// # Errors
    /// If no majority answers.
    pub(crate) async fn pass_lately<F>(
        &self,
        barrier: impl FnOnce() -> F,
    ) -> Result<(), BarrierFailed>
    where
        F: Future<Output = bool>,
    {
        let mut passed = self.passed.lock().await;
        let is_recent = passed
            .begun
            .is_some_and(|begun| begun.elapsed() < BARRIER_EVERY);
        if passed.has_failed || !is_recent {
            self.begin(&mut passed, barrier).await;
        }
        passed.result()
    }

    async fn begin<F>(&self, passed: &mut Passed, barrier: impl FnOnce() -> F)
    where
        F: Future<Output = bool>,
    {
        if let Some(last) = passed.begun {
            sleep_until(last + BARRIER_EVERY).await;
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        passed.begun = Some(Instant::now());
        // A caller that leaves in the middle leaves the barrier to the next one in the queue.
        passed.has_failed = true;
        passed.has_failed = !barrier().await;
        passed.number = number;
    }
}

impl Passed {
    fn result(&self) -> Result<(), BarrierFailed> {
        match self.has_failed {
            true => Err(BarrierFailed),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_that_wait_share_one_barrier() {
        let (shared, barriers) = (
            Arc::new(SharedBarrier::default()),
            Arc::new(AtomicUsize::new(0)),
        );
        let start = Instant::now();
        let waiting: Vec<_> = (0..1000)
            .map(|_| {
                let (shared, barriers) = (Arc::clone(&shared), Arc::clone(&barriers));
                tokio::spawn(async move {
                    let barrier = || async {
                        barriers.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        true
                    };
                    shared.pass(barrier).await
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
        let (shared, start) = (SharedBarrier::default(), Instant::now());
        for _ in 0..41 {
            shared.pass(|| async { true }).await.expect("passes");
        }
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn barrier_that_passed_lately_is_enough_for_callers_that_say_so() {
        let (shared, barriers) = (SharedBarrier::default(), AtomicUsize::new(0));
        let barrier = |passes| {
            barriers.fetch_add(1, Ordering::Relaxed);
            async move { passes }
        };
        let start = Instant::now();
        for _ in 0..1000 {
            shared.pass_lately(|| barrier(true)).await.expect("passes");
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(barriers.load(Ordering::Relaxed), 1);
        tokio::time::advance(BARRIER_EVERY).await;
        // A barrier that failed, or that its caller left, is not enough for the next one.
        let failed = shared.pass_lately(|| barrier(false)).await;
        assert_eq!(failed, Err(BarrierFailed));
        shared.pass_lately(|| barrier(true)).await.expect("passes");
        tokio::time::advance(BARRIER_EVERY).await;
        let never = shared.pass_lately(std::future::pending::<bool>);
        tokio::time::timeout(Duration::from_millis(1), never)
            .await
            .expect_err("it leaves");
        shared.pass_lately(|| barrier(true)).await.expect("passes");
        assert_eq!(barriers.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_does_not_keep_the_others_waiting() {
        let shared = SharedBarrier::default();
        let never = shared.pass(std::future::pending::<bool>);
        tokio::time::timeout(Duration::from_millis(1), never)
            .await
            .expect_err("it leaves");
        let passed = shared.pass(|| async { true }).await;
        assert_eq!(passed, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_barrier_without_a_majority_fails_for_all_that_wait() {
        let shared = SharedBarrier::default();
        let fails = || async { false };
        let (one, other) = tokio::join!(shared.pass(fails), shared.pass(fails));
        assert_eq!([one, other], [Err(BarrierFailed); 2]);
        assert_eq!(shared.pass(|| async { true }).await, Ok(()));
    }
}
