//! Which batch leaves when, and what is in it.

use std::collections::BTreeSet;

use protocol_model::AllocId;
use protocol_wire::report::AllocReport;

use super::{BATCH_BYTES_MAX, BATCH_ITEMS_MAX, DETAIL_DELAY, InFlight, Link, UpdateBatcher};
use crate::effect::{StatusBatch, UpdateClass};
use crate::key::SessionEpoch;
use crate::time::{Moment, earliest};

impl UpdateBatcher {
    /// The next batch, if one is due.
    pub fn poll_batch(&mut self, now: Moment) -> Option<StatusBatch> {
        let now = self.tick(now);
        let Link::Live(epoch) = self.link else {
            return None;
        };
        for class in [UpdateClass::Urgent, UpdateClass::Typical] {
            if self.due_at(class).is_some_and(|due| due <= now) {
                return Some(self.make_batch(epoch, class, now));
            }
        }
        None
    }

    /// When a batch of this class is due, where one may leave at all.
    pub(super) fn due_at(&self, class: UpdateClass) -> Option<Moment> {
        let head = |queue: &BTreeSet<(Moment, AllocId)>| queue.first().map(|(since, _)| *since);
        let (channel, since, queued, wait) = match class {
            UpdateClass::Urgent => (
                &self.urgent,
                head(&self.urgent_queue),
                self.urgent_queue.len(),
                self.urgent_delay,
            ),
            // Urgent updates that wait behind an unanswered urgent batch may travel here too.
            UpdateClass::Typical => (
                &self.typical,
                earliest(head(&self.typical_queue), head(&self.urgent_queue)),
                self.typical_queue.len(),
                self.typical_interval,
            ),
        };
        if channel.in_flight.is_some() {
            return None;
        }
        // A full batch gains nothing by waiting.
        let due = match queued >= BATCH_ITEMS_MAX {
            true => since,
            false => since.map(|since| since.after(wait)),
        };
        let detail = head(&self.detail_queue).filter(|_| class == UpdateClass::Typical);
        earliest(due, detail.map(|since| since.after(DETAIL_DELAY)))
    }

    pub(super) fn make_batch(
        &mut self,
        epoch: SessionEpoch,
        class: UpdateClass,
        now: Moment,
    ) -> StatusBatch {
        let urgent = self.urgent_queue.iter().map(|(_, id)| *id);
        let candidates: Vec<AllocId> = match class {
            UpdateClass::Urgent => urgent.take(BATCH_ITEMS_MAX).collect(),
            UpdateClass::Typical => {
                let typical = self.typical_queue.iter().map(|(_, id)| *id);
                urgent.chain(typical).take(BATCH_ITEMS_MAX).collect()
            }
        };
        let mut reports: Vec<AllocReport> = Vec::new();
        let (mut bytes, mut oldest) = (0, now);
        for id in candidates {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            let item_bytes = entry.waiting_bytes();
            if !reports.is_empty() && bytes + item_bytes > BATCH_BYTES_MAX {
                break;
            }
            bytes += item_bytes;
            oldest = entry.queued.map_or(oldest, |(_, since)| oldest.min(since));
            reports.extend(entry.take(class));
            self.unqueue(id);
        }
        self.add_volatile(&mut reports, class, bytes);
        let channel = self.channel(class);
        channel.last_seq += 1;
        let seq = channel.last_seq;
        let items = reports
            .iter()
            .map(|report| (report.id, report.revision))
            .collect();
        channel.in_flight = Some(InFlight {
            seq,
            sent: Some(now),
            oldest,
            items,
        });
        StatusBatch {
            epoch,
            class,
            seq,
            reports,
        }
    }

    /// Reports in which only volatile detail is new ride along where there is room.
    pub(super) fn add_volatile(
        &mut self,
        reports: &mut Vec<AllocReport>,
        class: UpdateClass,
        bytes: usize,
    ) {
        if class == UpdateClass::Urgent {
            return;
        }
        let mut bytes = bytes;
        let candidates: Vec<AllocId> = self.detail_queue.iter().map(|(_, id)| *id).collect();
        for id in candidates {
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            let item_bytes = entry.waiting_bytes();
            let is_full = !reports.is_empty() && bytes + item_bytes > BATCH_BYTES_MAX;
            if reports.len() >= BATCH_ITEMS_MAX || is_full {
                break;
            }
            bytes += item_bytes;
            reports.extend(entry.take(class));
            self.unqueue(id);
        }
    }
}
