//! What the beginning of a session says of the reports of the one before: of batches that were in
//! flight, of syncs that nobody answered.

use protocol_model::AllocId;
use protocol_wire::report::AllocReport;

use super::{AppliedSeqs, Link, SessionMode, UpdateBatcher};
use crate::effect::UpdateClass;
use crate::key::SessionEpoch;
use crate::time::Moment;

/// Syncs that were sent and never answered, of the session in question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum UnansweredSyncs {
    /// None.
    #[default]
    None,
    /// One: if the session turns out to be synced, it was this one.
    One(SessionEpoch),
    /// Several: nobody knows which of them counts.
    Several(SessionEpoch),
}

/// What became of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SyncFate {
    /// It is recorded.
    Committed,
    /// It, or an earlier one of the same session.
    Uncertain,
}

impl UpdateBatcher {
    /// A session began. What was in flight in the one before has its fate by `applied`, where the
    /// session goes on; else the sync will say everything anew.
    pub fn on_session(
        &mut self,
        epoch: SessionEpoch,
        mode: SessionMode,
        applied: AppliedSeqs,
        now: Moment,
    ) {
        let now = self.tick(now);
        if mode == SessionMode::Resumed {
            // The node is ready under this epoch, so a sync of this epoch was committed.
            let fate = match std::mem::take(&mut self.unanswered_syncs) {
                UnansweredSyncs::One(_) | UnansweredSyncs::None => SyncFate::Committed,
                UnansweredSyncs::Several(_) => SyncFate::Uncertain,
            };
            self.settle_sync(fate, now);
        }
        for (class, applied_seq) in [
            (UpdateClass::Urgent, applied.urgent),
            (UpdateClass::Typical, applied.typical),
        ] {
            let channel = self.channel(class);
            let in_flight = channel.in_flight.take();
            channel.last_seq = channel.last_seq.max(applied_seq);
            let Some(in_flight) = in_flight else { continue };
            let applied = mode == SessionMode::Resumed && in_flight.seq <= applied_seq;
            for (alloc, revision) in in_flight.items {
                if applied {
                    self.acknowledge(alloc, class, revision, now);
                } else {
                    self.come_back(alloc, class, now);
                }
            }
        }
        self.link = match mode {
            SessionMode::OwesSync => Link::Syncing(epoch),
            SessionMode::Resumed => Link::Live(epoch),
        };
    }

    /// The session is interrupted: batches stay in flight until the next one says what became of
    /// them.
    pub fn on_disconnected(&mut self) {
        if let Link::Syncing(epoch) = self.link {
            self.unanswered_syncs = match self.unanswered_syncs {
                UnansweredSyncs::One(earlier) | UnansweredSyncs::Several(earlier)
                    if earlier == epoch =>
                {
                    UnansweredSyncs::Several(epoch)
                }
                UnansweredSyncs::None | UnansweredSyncs::One(_) | UnansweredSyncs::Several(_) => {
                    UnansweredSyncs::One(epoch)
                }
            };
        }
        self.link = Link::Down;
    }

    /// The complete report of the node, for the sync of a session: every allocation, newest state,
    /// each with a new revision. Called once per sync.
    pub fn begin_sync(
        &mut self,
        reports: impl IntoIterator<Item = AllocReport>,
        now: Moment,
    ) -> Vec<AllocReport> {
        self.tick(now);
        let mut sent = Vec::new();
        for report in reports {
            let id = report.id;
            let entry = self.entries.entry(id).or_default();
            sent.push(entry.take_for_sync(report));
            self.requeue(id);
        }
        sent
    }

    /// The sync is committed: batches leave from now on.
    pub fn on_sync_ack(&mut self, epoch: SessionEpoch, now: Moment) {
        let now = self.tick(now);
        // An earlier sync of this very session may be the one that was committed: then this one
        // changed nothing, and what it said is said again as updates.
        let fate = match std::mem::take(&mut self.unanswered_syncs) {
            UnansweredSyncs::One(earlier) | UnansweredSyncs::Several(earlier)
                if earlier == epoch =>
            {
                SyncFate::Uncertain
            }
            UnansweredSyncs::None | UnansweredSyncs::One(_) | UnansweredSyncs::Several(_) => {
                SyncFate::Committed
            }
        };
        self.settle_sync(fate, now);
        self.link = Link::Live(epoch);
    }

    pub(super) fn settle_sync(&mut self, fate: SyncFate, now: Moment) {
        let ids: Vec<AllocId> = self.entries.keys().copied().collect();
        for id in ids {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            if entry.settle_sync(fate, now) {
                self.newly_acked.insert(id);
            }
            self.requeue(id);
        }
    }
}
