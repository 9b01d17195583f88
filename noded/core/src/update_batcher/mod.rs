//! Reports to the control plane: newest wins, urgent first, nothing lost, nothing said twice.
//!
//! ```text
//!   on_update --> entry (newest report) --(due, slot free)--> batch in flight --on_ack--> known
//!                   ^                                              |
//!                   +--- comes back unless superseded -------------+ failed, refused, fate unknown
//! ```
//!
//! What holds (each has a test):
//!
//! 1. Newest wins per allocation.
//! 2. Every item has a revision that rises per allocation, so batches may overtake each other.
//!    Events of what is recorded go under the revision that was recorded (0 where that was in the
//!    sync): servers see that the log has no use for them, and which events are newer.
//! 3. An update is dropped as equal only while nothing of its allocation is in flight and no fate
//!    is unknown.
//! 4. At most one batch per class is in flight; urgent ones leave within their delay, anything
//!    within the maximum.
//! 5. Nothing leaves outside a live session.
//! 6. A failed batch comes back except where superseded.
//! 7. Batches respect caps on items and bytes: urgent first, then oldest.
//! 8. Sequence numbers are per class and go on from what Welcome says.
//! 9. There is one entry per allocation.
//! 10. A clock that goes back is tolerated and counted.
//! 11. Nothing here waits: a dead control plane costs memory for the newest report, no more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_model::AllocId;
use protocol_wire::report::AllocReport;

mod backlog;
mod batches;
mod entry;
pub mod priority;
pub(crate) mod size;
mod syncs;
#[cfg(test)]
mod tests;

use crate::effect::UpdateClass;
use crate::event::ItemResult;
use crate::key::SessionEpoch;
use crate::time::{Moment, earliest};
pub use backlog::Backlog;
use entry::{Entry, Queue};
pub use priority::{AckedState, UpdatePriority, priority};
use syncs::UnansweredSyncs;

/// The most items of a batch.
pub const BATCH_ITEMS_MAX: usize = 1024;

/// The most bytes of a batch, by estimate; a single larger item travels alone.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;

/// How long a batch may stay unanswered before the session counts as broken.
pub const ACK_LIMIT: Duration = Duration::from_secs(10);

/// How long updates may gather before anybody says otherwise.
const URGENT_DELAY_DEFAULT: Duration = Duration::from_millis(10);
const TYPICAL_INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// How long detail that nobody records waits for a batch to ride along with. An allocation that
/// only runs makes no other batch, and people read its events.
const DETAIL_DELAY: Duration = Duration::from_secs(5);

/// The longest that servers may ask typical updates to gather.
const TYPICAL_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// How a session began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionMode {
    /// It owes a sync: live updates wait behind it.
    OwesSync,
    /// It goes on as it was.
    Resumed,
}

/// The last batch of each class that the control plane applied, as Welcome says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AppliedSeqs {
    /// The last urgent one.
    pub urgent: u64,
    /// The last typical one.
    pub typical: u64,
}

/// Where the batcher stands towards the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Link {
    /// No session: everything waits.
    Down,
    /// The sync of this session is owed or under way: everything waits.
    Syncing(SessionEpoch),
    /// Batches leave.
    Live(SessionEpoch),
}

/// A batch that was handed out and not answered.
#[derive(Clone, Debug)]
struct InFlight {
    seq: u64,
    /// When it was sent; `None` = it waits for the journal, and nobody can have answered it.
    sent: Option<Moment>,
    /// Since when the oldest of its reports had waited.
    oldest: Moment,
    items: Vec<(AllocId, u64)>,
}

/// One class of batches.
#[derive(Clone, Debug, Default)]
struct Channel {
    last_seq: u64,
    in_flight: Option<InFlight>,
}

/// Collects reports and hands out batches.
#[derive(Clone, Debug)]
pub struct UpdateBatcher {
    entries: BTreeMap<AllocId, Entry>,
    /// Waiting reports by urgency and age.
    urgent_queue: BTreeSet<(Moment, AllocId)>,
    typical_queue: BTreeSet<(Moment, AllocId)>,
    detail_queue: BTreeSet<(Moment, AllocId)>,
    urgent: Channel,
    typical: Channel,
    link: Link,
    unanswered_syncs: UnansweredSyncs,
    urgent_delay: Duration,
    typical_interval: Duration,
    clock: Moment,
    clock_steps_back: u64,
    newly_acked: BTreeSet<AllocId>,
}

impl Default for UpdateBatcher {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            urgent_queue: BTreeSet::new(),
            typical_queue: BTreeSet::new(),
            detail_queue: BTreeSet::new(),
            urgent: Channel::default(),
            typical: Channel::default(),
            link: Link::Down,
            unanswered_syncs: UnansweredSyncs::None,
            urgent_delay: URGENT_DELAY_DEFAULT,
            typical_interval: TYPICAL_INTERVAL_DEFAULT,
            clock: Moment::default(),
            clock_steps_back: 0,
            newly_acked: BTreeSet::new(),
        }
    }
}

impl UpdateBatcher {
    /// Tells what the control plane has recorded of an allocation: from the journal, or as it sent
    /// the allocation.
    pub fn set_acknowledged(&mut self, alloc: AllocId, acked: AckedState) {
        let entry = self.entries.entry(alloc).or_default();
        if entry.acked.is_none() {
            entry.acked = Some(acked);
        }
    }

    /// The newest report of an allocation; its revision is given here.
    pub fn on_update(&mut self, report: AllocReport, now: Moment) {
        let now = self.tick(now);
        let entry = self.entries.entry(report.id).or_default();
        let id = report.id;
        entry.offer(report, now);
        self.requeue(id);
    }

    /// Forgets an allocation: the node has destroyed it.
    pub fn forget(&mut self, alloc: AllocId) {
        self.unqueue(alloc);
        self.entries.remove(&alloc);
        self.newly_acked.remove(&alloc);
    }

    /// A batch was answered, item by item.
    pub fn on_ack(&mut self, class: UpdateClass, seq: u64, results: &[ItemResult], now: Moment) {
        let now = self.tick(now);
        let Some(in_flight) = self.take_in_flight(class, seq) else {
            return;
        };
        for (offset, (alloc, revision)) in in_flight.items.into_iter().enumerate() {
            match results.get(offset) {
                // Only this node gives revisions, so what superseded the item is its own later
                // word.
                Some(ItemResult::Applied | ItemResult::Superseded) => {
                    self.acknowledge(alloc, class, revision, now);
                }
                Some(ItemResult::UnknownAlloc) => self.drop_unknown(alloc, class),
                Some(ItemResult::NotInSession) | None => self.come_back(alloc, class, now),
            }
        }
    }

    /// A batch could not be sent, or its fate is unknown while the session goes on.
    pub fn on_send_failed(&mut self, class: UpdateClass, seq: u64, now: Moment) {
        let now = self.tick(now);
        let Some(in_flight) = self.take_in_flight(class, seq) else {
            return;
        };
        for (alloc, _) in in_flight.items {
            self.come_back(alloc, class, now);
        }
    }

    /// A batch could not be sent at once: the disk that its cause is journaled on takes its time.
    pub fn on_held(&mut self, class: UpdateClass, seq: u64) {
        self.set_sent(class, seq, None);
    }

    /// A batch that was held is sent now.
    pub fn on_sent(&mut self, class: UpdateClass, seq: u64, now: Moment) {
        let now = self.tick(now);
        self.set_sent(class, seq, Some(now));
    }

    /// Servers say how long updates may gather.
    pub fn set_intervals(&mut self, urgent_delay: Option<Duration>, typical: Option<Duration>) {
        if let Some(delay) = urgent_delay {
            self.urgent_delay = delay.min(TYPICAL_INTERVAL_MAX);
        }
        if let Some(interval) = typical {
            self.typical_interval = interval.min(TYPICAL_INTERVAL_MAX);
        }
    }

    #[cfg(test)]
    pub(crate) fn typical_interval(&self) -> Duration {
        self.typical_interval
    }

    #[cfg(test)]
    pub(crate) fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// When [`Self::poll_batch`] or [`Self::overdue`] is next due.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let Link::Live(_) = self.link else {
            return None;
        };
        let due = earliest(
            self.due_at(UpdateClass::Urgent),
            self.due_at(UpdateClass::Typical),
        );
        earliest(due, self.ack_deadline())
    }

    /// Whether a batch has waited too long for its answer.
    pub fn overdue(&self, now: Moment) -> bool {
        matches!(self.link, Link::Live(_))
            && self.ack_deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Allocations whose acknowledged state changed since the last call, with that state.
    pub fn take_acknowledged(&mut self) -> Vec<(AllocId, AckedState)> {
        let ids = std::mem::take(&mut self.newly_acked);
        ids.into_iter()
            .filter_map(|id| Some((id, self.entries.get(&id)?.acked.clone()?)))
            .collect()
    }

    /// What the control plane has recorded of an allocation, as far as the node knows.
    pub fn acknowledged(&self, alloc: AllocId) -> Option<&AckedState> {
        self.entries.get(&alloc)?.acked.as_ref()
    }

    fn ack_deadline(&self) -> Option<Moment> {
        let sent = |channel: &Channel| Some(channel.in_flight.as_ref()?.sent?.after(ACK_LIMIT));
        earliest(sent(&self.urgent), sent(&self.typical))
    }

    fn set_sent(&mut self, class: UpdateClass, seq: u64, sent: Option<Moment>) {
        let in_flight = self.channel(class).in_flight.as_mut();
        if let Some(in_flight) = in_flight.filter(|it| it.seq == seq) {
            in_flight.sent = sent;
        }
    }

    fn take_in_flight(&mut self, class: UpdateClass, seq: u64) -> Option<InFlight> {
        self.channel(class)
            .in_flight
            .take_if(|in_flight| in_flight.seq == seq)
    }

    fn acknowledge(&mut self, alloc: AllocId, class: UpdateClass, revision: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&alloc) else {
            return;
        };
        if entry.acknowledge(class, revision, now) {
            self.newly_acked.insert(alloc);
        }
        self.requeue(alloc);
    }

    fn come_back(&mut self, alloc: AllocId, class: UpdateClass, now: Moment) {
        if let Some(entry) = self.entries.get_mut(&alloc) {
            entry.come_back(class, now);
            self.requeue(alloc);
        }
    }

    fn drop_unknown(&mut self, alloc: AllocId, class: UpdateClass) {
        if let Some(entry) = self.entries.get_mut(&alloc) {
            entry.drop_unknown(class);
            self.requeue(alloc);
        }
    }

    /// Puts an allocation where its entry says it belongs.
    fn requeue(&mut self, alloc: AllocId) {
        self.unqueue(alloc);
        let Some(entry) = self.entries.get_mut(&alloc) else {
            return;
        };
        entry.queued = entry.wants_queue();
        if let Some((queue, since)) = entry.queued {
            self.queue(queue).insert((since, alloc));
        }
    }

    fn unqueue(&mut self, alloc: AllocId) {
        let Some(entry) = self.entries.get_mut(&alloc) else {
            return;
        };
        if let Some((queue, since)) = entry.queued.take() {
            self.queue(queue).remove(&(since, alloc));
        }
    }

    fn queue(&mut self, queue: Queue) -> &mut BTreeSet<(Moment, AllocId)> {
        match queue {
            Queue::Urgent => &mut self.urgent_queue,
            Queue::Typical => &mut self.typical_queue,
            Queue::Detail => &mut self.detail_queue,
        }
    }

    fn channel(&mut self, class: UpdateClass) -> &mut Channel {
        match class {
            UpdateClass::Urgent => &mut self.urgent,
            UpdateClass::Typical => &mut self.typical,
        }
    }

    /// The present, never before the last one.
    fn tick(&mut self, now: Moment) -> Moment {
        if now < self.clock {
            self.clock_steps_back += 1;
        }
        self.clock = self.clock.max(now);
        self.clock
    }
}
