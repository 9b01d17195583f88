//! Proposing one entry, as whoever may propose it, and answering everybody in it.

use std::sync::Arc;

use controlplane_state::command::NodeBatch;
use controlplane_state::{Command, Outcome};
use tokio::time::Instant;

use super::Waiting;
use super::entry::Source;
use super::log::Log;
use crate::cluster::{ChangeError, Changed, LeadingError, SharedPace};

/// How often an entry is proposed of which nobody knows what became: the second time it is for
/// whoever leads since.
const PROPOSED_MAX: u32 = 2;

/// What brings entries into the log.
#[derive(Debug)]
pub(super) struct Proposer<L> {
    pub(super) log: L,
    /// How long batches wait, those that still do among them.
    pub(super) waits: SharedPace,
}

impl<L: Log> Proposer<L> {
    /// Proposes one entry and answers everybody in it.
    pub(super) async fn propose(&self, entry: Vec<Waiting>) {
        let batches: usize = entry.iter().map(|one| one.count).sum();
        let bytes: usize = entry.iter().map(|one| one.group.bytes).sum();
        metrics::histogram!("drover_update_entry_batches").record(batches as f64);
        metrics::histogram!("drover_update_entry_bytes").record(bytes as f64);
        let oldest = entry.iter().map(|waiting| waiting.since).min();
        let _measured = oldest.map(|oldest| self.waits.begin(oldest));
        let (own, merged): (Vec<_>, Vec<_>) = entry
            .into_iter()
            .partition(|one| matches!(one.group.source, Source::Node(_)));
        let own = if merged.is_empty() {
            own
        } else {
            let Some(not_led) = self.propose_as_leader(own, merged).await else {
                return;
            };
            not_led
        };
        if !own.is_empty() {
            self.propose_own(own).await;
        }
    }

    /// Proposes batches of nodes in a session here, whoever leads. Where a leader was lost with
    /// them they are proposed again: what was applied twice is seen by its number, and nodes need
    /// not look for another server.
    async fn propose_own(&self, own: Vec<Waiting>) {
        let batches: Vec<NodeBatch> = own
            .iter()
            .flat_map(|one| one.group.batches.iter().cloned())
            .collect();
        let mut changed = Err(ChangeError::OutcomeUnknown);
        for _ in 0..PROPOSED_MAX {
            let batches = batches.clone();
            changed = self.log.change(Command::AllocUpdates { batches }).await;
            if !matches!(changed, Err(ChangeError::OutcomeUnknown)) {
                break;
            }
        }
        self.answer(own, changed.map_err(Arc::new));
    }

    /// Proposes what this server's nodes and other servers have, if it leads. If it does not, or
    /// nobody knows what became of them, this server's own are given back.
    async fn propose_as_leader(
        &self,
        own: Vec<Waiting>,
        mut merged: Vec<Waiting>,
    ) -> Option<Vec<Waiting>> {
        let term = self.log.term();
        let of_own = own.iter().flat_map(|one| one.group.batches.iter().cloned());
        let of_others = merged
            .iter_mut()
            .flat_map(|one| one.group.batches.drain(..));
        let batches = of_own.chain(of_others).collect();
        let command = Command::AllocUpdates { batches };
        let changed = match self.log.change_as_leader(command, term).await {
            Ok(changed) => Ok(changed),
            Err(LeadingError::Change(error)) if !matches!(error, ChangeError::OutcomeUnknown) => {
                Err(Arc::new(error))
            }
            Err(LeadingError::Change(_) | LeadingError::NotLeading(_)) => {
                // The log may still take it: the nodes of the other server send again, and what was
                // applied twice is seen by its number.
                self.answer(merged, Err(Arc::new(ChangeError::OutcomeUnknown)));
                return Some(own);
            }
        };
        self.answer(own.into_iter().chain(merged).collect(), changed);
        None
    }

    fn answer(&self, entry: Vec<Waiting>, changed: Result<Changed, Arc<ChangeError>>) {
        let now = Instant::now();
        if let Some(oldest) = entry.iter().map(|waiting| waiting.since).min() {
            let waited = now.saturating_duration_since(oldest);
            metrics::histogram!("drover_update_wait_seconds").record(waited.as_secs_f64());
        }
        let judged = changed.and_then(|changed| match changed.outcome {
            Outcome::Updates(results) => Ok((changed.index, results)),
            other => {
                let text = format!("the state answered updates with {other:?}");
                Err(Arc::new(ChangeError::Nonsense(text)))
            }
        });
        let (index, mut results) = match judged {
            Ok((index, results)) => (index, results.into_iter()),
            Err(error) => {
                for waiting in entry {
                    // A stream that broke meanwhile no longer listens; its node sends again.
                    let _ = waiting.answer.send(Err(Arc::clone(&error)));
                }
                return;
            }
        };
        for waiting in entry {
            let own = results.by_ref().take(waiting.count).collect();
            let _ = waiting.answer.send(Ok((index, own)));
        }
    }
}
