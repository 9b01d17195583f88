//! The leader's second look at the caller of a change: its rights, and its budget for writes.
//!
//! The gate of the server that a request came to has charged it there. A leader charges those that
//! other servers send once more, so that a budget for writes holds for the whole cluster.

use std::sync::atomic::Ordering;

use protocol_access::budget::Class;
use tokio::time::Instant;

use super::{ChangeError, Cluster};
use crate::access::Recheck;
use crate::planted::PlantedBug;

/// The way of a change to its leader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// The request came to the leader.
    Here,
    /// Another server sends it.
    Forwarded,
}

impl Cluster {
    /// Judges the caller of a change on the newest applied state, immediately before it is proposed
    /// here. A server that leads looks only after it applied the barrier of its term: before, an
    /// acknowledged deletion of a token may be missing.
    ///
    /// # Errors
    /// If the caller lacks a right by now, its budget is spent, or no majority answers.
    pub(super) async fn recheck(&self, recheck: &Recheck, way: Way) -> Result<(), ChangeError> {
        if self.access.planted().has(PlantedBug::NoSecondLook) {
            return Ok(());
        }
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
        let asker = self
            .access
            .caller_again(recheck, &snapshot, self.wall_clock())
            .ok_or(ChangeError::Denied)?;
        if way == Way::Forwarded {
            let (budgets, now) = (self.access.budgets(), Instant::now());
            budgets.charge(&asker.caller, Class::Write, now)?;
        }
        match recheck.holds(&asker) {
            true => Ok(()),
            false => Err(ChangeError::Denied),
        }
    }
}
