//! Somebody outside of a run's one thread who sees that it stands still: two that wait for each
//! other's lock, or a loop that never waits, would be a test that never ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How long nothing may move, in this host's time: far longer than a busy host takes for the
/// quarter of a second between two looks.
const STILL_MAX: Duration = Duration::from_secs(120);

/// Watches a run until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    moves: Arc<AtomicU64>,
    _end: SyncSender<()>,
}

impl Watchdog {
    /// Watches a run; where it stands still the process ends with `replay` as its last words.
    ///
    /// # Errors
    /// Where there is no thread for it.
    pub fn start(replay: String) -> std::io::Result<Self> {
        let moves = Arc::new(AtomicU64::new(0));
        let (end, ended) = sync_channel(1);
        let seen = Arc::clone(&moves);
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        thread.spawn(move || {
            let mut before = u64::MAX;
            while ended.recv_timeout(STILL_MAX) == Err(RecvTimeoutError::Timeout) {
                let now = seen.load(Ordering::Relaxed);
                if now == before {
                    eprintln!("FAILED: nothing moves any more after look {now}\n  {replay}");
                    // Whoever holds what is waited for can only be found in a core dump.
                    std::process::abort();
                }
                before = now;
            }
        })?;
        Ok(Self { moves, _end: end })
    }

    /// The run goes on.
    pub fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }
}
