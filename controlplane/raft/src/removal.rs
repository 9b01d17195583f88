//! A server that the cluster goes on without finds that out, and says so.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::handle::Raft;

/// How often a server that hears no leader looks whether the cluster goes on without it; and how
/// long that may be an election.
const REMOVAL_LOOK_EVERY: Duration = Duration::from_secs(5);

impl Raft {
    /// Watches whether the cluster goes on without this server, and tells people. Never ends.
    pub async fn watch_removal(&self, retry_join: &[String]) {
        loop {
            tokio::time::sleep(REMOVAL_LOOK_EVERY).await;
            let heard = self
                .last_contact()
                .is_some_and(|ago| ago < REMOVAL_LOOK_EVERY);
            let removed = !heard && self.inner.formation.is_left_behind(retry_join).await;
            let known = self.inner.removed.swap(removed, Ordering::Relaxed);
            if removed && !known {
                tracing::error!(
                    server = %self.inner.own_id,
                    "this server is no member of its cluster any more: it was removed, or another \
                     one took its place; to take part again it needs an empty data directory"
                );
            }
        }
    }

    /// Whether the cluster's leader said that this server is no member any more, although its own
    /// log does not know of it. Found out by [`Self::watch_removal`].
    pub fn is_removed(&self) -> bool {
        self.inner.removed.load(Ordering::Relaxed)
    }
}
