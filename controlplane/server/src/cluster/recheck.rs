//! The leader's second look at the caller of a change.

use std::sync::atomic::Ordering;

use super::{ChangeError, Cluster};
use crate::access::Recheck;

impl Cluster {
    /// Judges the caller of a change on the newest applied state, immediately before it is proposed
    /// here. A server that leads looks only after it applied the barrier of its term: before, an
    /// acknowledged deletion of a token may be missing.
    ///
    /// # Errors
    /// If the caller lacks a right by now, or no majority answers.
    pub(super) async fn recheck(&self, recheck: &Recheck) -> Result<(), ChangeError> {
        let term = self.raft.standing().borrow().term;
        let snapshot = if self.barred_term.load(Ordering::Relaxed) == term {
            self.snapshot()
        } else {
            let snapshot = self.consistent().await?;
            if self.leads_in(term) {
                self.barred_term.store(term, Ordering::Relaxed);
            }
            snapshot
        };
        if self
            .access
            .still_allows(recheck, &snapshot, self.wall_clock())
        {
            return Ok(());
        }
        Err(ChangeError::Denied)
    }
}
