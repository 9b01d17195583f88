//! What the batcher keeps of one allocation.

use protocol_wire::report::AllocReport;

use super::priority::{AckedState, UpdatePriority, priority};
use super::size;
use super::syncs::SyncFate;
use crate::effect::UpdateClass;
use crate::time::Moment;

/// One allocation's newest report and where earlier ones are.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    /// What the control plane has recorded, as far as the node knows.
    pub(super) acked: Option<AckedState>,
    /// Where this allocation is queued, kept here to find it again.
    pub(super) queued: Option<(Queue, Moment)>,
    acked_revision: u64,
    last_revision: u64,
    /// The revision that the control plane has applied from a batch of this session; 0 = none since
    /// the sync. Detail that nobody records is sent under it.
    recorded_revision: u64,
    waiting: Option<Waiting>,
    urgent_sent: Option<Sent>,
    typical_sent: Option<Sent>,
    sync_sent: Option<Sent>,
    /// An earlier report may or may not be recorded, or yet arrive: the next one is never dropped.
    fate_unknown: bool,
}

/// Where a report waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// For the next urgent batch.
    Urgent,
    /// For the next typical batch.
    Typical,
    /// For any typical batch, and for one of its own after a while.
    Detail,
}

/// The newest report, not sent yet.
#[derive(Clone, Debug)]
struct Waiting {
    report: AllocReport,
    since: Moment,
    priority: UpdatePriority,
}

/// A report in flight.
#[derive(Clone, Debug)]
struct Sent {
    revision: u64,
    report: AllocReport,
    word: Word,
}

/// What a report in flight is to the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    /// To be recorded.
    New,
    /// More detail on what is recorded; the report of revision `after` was the last one before it.
    Detail { after: u64 },
}

impl Entry {
    /// Takes a newer report, or drops it where it says nothing new.
    pub(super) fn offer(&mut self, report: AllocReport, now: Moment) {
        let earlier = self.waiting.take();
        let priority = match priority(&report, self.acked.as_ref()) {
            Some(priority) => priority,
            // It says what is recorded, but something else may be on its way there.
            None if self.in_flight() || self.fate_unknown => UpdatePriority::Typical,
            None => UpdatePriority::Volatile,
        };
        let since = match earlier {
            // An update that became more urgent begins to wait anew; others keep their age.
            Some(earlier) if earlier.priority >= priority => earlier.since,
            Some(_) | None => now,
        };
        self.waiting = Some(Waiting {
            report,
            since,
            priority,
        });
    }

    /// The report leaves in a batch of this class.
    pub(super) fn take(&mut self, class: UpdateClass) -> Option<AllocReport> {
        let Waiting {
            report, priority, ..
        } = self.waiting.take()?;
        // The events of a last word are recorded, too.
        let sent = if priority == UpdatePriority::Volatile && !report.is_terminal() {
            self.stamp_detail(report)
        } else {
            self.stamp(report)
        };
        let report = sent.report.clone();
        *self.sent(class) = Some(sent);
        Some(report)
    }

    /// The report leaves in the sync; it supersedes whatever waited or was in flight before.
    pub(super) fn take_for_sync(&mut self, report: AllocReport) -> AllocReport {
        let sent = self.stamp(report);
        let report = sent.report.clone();
        self.waiting = None;
        self.urgent_sent = None;
        self.typical_sent = None;
        self.sync_sent = Some(sent);
        report
    }

    /// The control plane has this revision, or a later one. Returns whether that was news.
    pub(super) fn acknowledge(&mut self, class: UpdateClass, revision: u64, now: Moment) -> bool {
        let Some(sent) = self.sent(class).take_if(|sent| sent.revision == revision) else {
            return false;
        };
        self.acknowledge_sent(&sent, now)
    }

    /// What was sent in this class is not recorded, or nobody knows: the newest word is said again.
    pub(super) fn come_back(&mut self, class: UpdateClass, now: Moment) {
        let Some(sent) = self.sent(class).take() else {
            return;
        };
        match sent.word {
            Word::New => {
                self.fate_unknown = true;
                self.say_again(sent, now);
            }
            // Nobody records it, whatever became of it; a later report says all that it did.
            Word::Detail { after } if self.waiting.is_none() && after == self.last_revision => {
                self.offer(sent.report, now);
            }
            Word::Detail { .. } => {}
        }
    }

    /// The control plane does not know the allocation: the watch will say what is to become of it.
    pub(super) fn drop_unknown(&mut self, class: UpdateClass) {
        *self.sent(class) = None;
    }

    /// The sync of the session was committed, or perhaps an earlier one. Returns whether anything
    /// is newly acknowledged.
    pub(super) fn settle_sync(&mut self, fate: SyncFate, now: Moment) -> bool {
        let Some(sent) = self.sync_sent.take() else {
            return false;
        };
        match fate {
            SyncFate::Committed => {
                self.fate_unknown = false;
                let news = self.acknowledge_sent(&sent, now);
                self.recorded_revision = 0;
                news
            }
            SyncFate::Uncertain => {
                self.fate_unknown = true;
                self.say_again(sent, now);
                false
            }
        }
    }

    /// Where the allocation is to be queued.
    pub(super) fn wants_queue(&self) -> Option<(Queue, Moment)> {
        let waiting = self.waiting.as_ref()?;
        match waiting.priority {
            UpdatePriority::Urgent => Some((Queue::Urgent, waiting.since)),
            UpdatePriority::Typical => Some((Queue::Typical, waiting.since)),
            UpdatePriority::Volatile => Some((Queue::Detail, waiting.since)),
        }
    }

    /// How much the waiting report takes of a batch.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting
            .as_ref()
            .map_or(0, |waiting| size::report_bytes(&waiting.report))
    }

    /// Whether something is on its way that may be recorded.
    fn in_flight(&self) -> bool {
        let sent = [&self.urgent_sent, &self.typical_sent, &self.sync_sent];
        let mut sent = sent.into_iter().flatten();
        sent.any(|sent| sent.word == Word::New)
    }

    fn acknowledge_sent(&mut self, sent: &Sent, now: Moment) -> bool {
        if sent.revision <= self.acked_revision {
            return false;
        }
        self.acked_revision = sent.revision;
        self.recorded_revision = sent.revision;
        // Whatever else may still arrive is older than this and will be dropped there.
        if sent.revision == self.last_revision {
            self.fate_unknown = false;
        }
        let acked = AckedState::of(&sent.report);
        let changed = self.acked.as_ref() != Some(&acked);
        self.acked = Some(acked);
        self.reconsider(now);
        changed
    }

    /// Puts a report back, unless a newer one waits or is on its way.
    fn say_again(&mut self, sent: Sent, now: Moment) {
        if self.waiting.is_some() {
            self.reconsider(now);
        } else if sent.revision == self.last_revision {
            self.offer(sent.report, now);
        }
    }

    /// Looks again at what waits: it may say nothing new now, or be more or less urgent.
    fn reconsider(&mut self, now: Moment) {
        let Some(Waiting { report, since, .. }) = self.waiting.take() else {
            return;
        };
        self.offer(report, now);
        if let Some(waiting) = &mut self.waiting {
            waiting.since = since;
        }
    }

    fn stamp(&mut self, mut report: AllocReport) -> Sent {
        self.last_revision += 1;
        report.revision = self.last_revision;
        Sent {
            revision: self.last_revision,
            report,
            word: Word::New,
        }
    }

    /// Under the revision of what it is more detail on: servers see that nothing is to be recorded.
    fn stamp_detail(&self, mut report: AllocReport) -> Sent {
        report.revision = self.recorded_revision;
        Sent {
            revision: self.recorded_revision,
            report,
            word: Word::Detail {
                after: self.last_revision,
            },
        }
    }

    fn sent(&mut self, class: UpdateClass) -> &mut Option<Sent> {
        match class {
            UpdateClass::Urgent => &mut self.urgent_sent,
            UpdateClass::Typical => &mut self.typical_sent,
        }
    }
}
