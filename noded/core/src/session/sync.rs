//! What the control plane has to know before a session is live, and of facts that change later.

use protocol_model::{AllocId, DaemonLife};
use protocol_wire::report::AllocReport;

use super::facts::Facts;
use super::{Session, SessionPhase};
use crate::effect::{Durability, Effect, SessionMessage, SyncPart};
use crate::key::SessionEpoch;
use crate::outbox::Outbox;
use crate::time::Now;
use crate::update_batcher::size::report_bytes;

/// The most bytes of one part of a sync, by estimate; a larger report is a part of its own.
pub const SYNC_PART_BYTES_MAX: usize = 256 * 1024;

impl Session {
    /// Sends the complete report in bounded parts: always at least one, possibly empty.
    pub(crate) fn send_sync(
        &mut self,
        reports: Vec<AllocReport>,
        watch_index: u64,
        out: &mut Outbox,
    ) {
        let SessionPhase::Syncing { epoch, .. } = self.phase else {
            return;
        };
        self.reported_again = self.reported_in == epoch;
        self.reported_in = epoch;
        let total = u32::try_from(reports.len()).unwrap_or(u32::MAX);
        let parts = in_parts(reports);
        let count = parts.len();
        let owes_facts = self.facts != Facts::Told;
        if owes_facts {
            self.facts.on_sent();
        }
        for (offset, reports) in parts.into_iter().enumerate() {
            let last = offset + 1 == count;
            let part = SyncPart {
                epoch,
                part: u32::try_from(offset).unwrap_or(u32::MAX),
                last,
                watch_index,
                reports,
                total: if last { total } else { 0 },
                with_facts: owes_facts && last,
            };
            let message = SessionMessage::SyncPart(part);
            out.push_after(
                Durability::Synced,
                Effect::Send {
                    attempt: self.attempt,
                    message,
                },
            );
        }
    }

    /// Sends events again that this server was not told, where there are any: those of allocations
    /// that live. Those of others are in the state.
    pub(crate) fn send_detail(&mut self, reports: Vec<AllocReport>, out: &mut Outbox) {
        let SessionPhase::Live { epoch } = self.phase else {
            return;
        };
        let tells = |report: &AllocReport| {
            let mut states = report.task_states.values();
            !report.client_status.is_terminal() && states.any(|state| !state.events.is_empty())
        };
        let reports: Vec<_> = reports.into_iter().filter(tells).collect();
        if reports.is_empty() {
            return;
        }
        let parts = in_parts(reports);
        let (attempt, message) = (self.attempt, SessionMessage::Detail { epoch, parts });
        out.push_after(Durability::Nothing, Effect::Send { attempt, message });
    }

    /// The sync is committed. Returns whether the session is live now.
    pub(crate) fn on_sync_ack(
        &mut self,
        acked: SessionEpoch,
        out: &mut Outbox,
        now: Now,
    ) -> Option<SessionEpoch> {
        match self.phase {
            SessionPhase::Syncing { epoch, .. } if epoch == acked => {
                self.heard(now);
                if self.reported_again {
                    // Which of the reports made the node ready nobody knows, and only that one's
                    // facts were taken in: they are told once more.
                    self.facts.on_uncertain();
                } else {
                    self.facts.on_acknowledged();
                }
                self.become_live(epoch, None, out);
                Some(epoch)
            }
            // A repeat.
            SessionPhase::Live { epoch } if epoch == acked => None,
            SessionPhase::Syncing { .. }
            | SessionPhase::Live { .. }
            | SessionPhase::Disconnected { .. }
            | SessionPhase::Connecting { .. }
            | SessionPhase::Greeting { .. } => {
                self.unexpected("SyncAck", out, now);
                None
            }
        }
    }

    /// The node has other facts than before: a live session tells them at once.
    pub(crate) fn on_facts_changed(&mut self, out: &mut Outbox) {
        self.facts.on_changed();
        self.send_facts(out);
    }

    /// The control plane recorded the facts that were sent.
    pub(crate) fn on_facts_ack(&mut self, acked: SessionEpoch, out: &mut Outbox, now: Now) {
        if self.live_epoch() == Some(acked) {
            self.heard(now);
            self.facts.on_acknowledged();
            self.send_facts(out);
        }
    }

    /// The session is live; `known` is what its watch need not tell, where the server does not know
    /// it from a sync.
    pub(super) fn become_live(
        &mut self,
        epoch: SessionEpoch,
        known: Option<Vec<(AllocId, u64)>>,
        out: &mut Outbox,
    ) {
        let attempt = self.attempt;
        let watch = Effect::OpenWatch { attempt, known };
        out.push_after(Durability::Nothing, watch);
        self.phase = SessionPhase::Live { epoch };
        self.life = DaemonLife::Continued;
        self.failures = 0;
        self.greeted = false;
        self.series += 1;
        self.plan_standby();
        self.send_facts(out);
    }

    pub(super) fn send_facts(&mut self, out: &mut Outbox) {
        if let (SessionPhase::Live { epoch }, Facts::Owed) = (self.phase, self.facts) {
            self.facts.on_sent();
            let (attempt, message) = (self.attempt, SessionMessage::Facts { epoch });
            out.push(Effect::Send { attempt, message });
        }
    }
}

/// Reports in messages of bounded size: always at least one, possibly empty.
fn in_parts(reports: Vec<AllocReport>) -> Vec<Vec<AllocReport>> {
    let mut parts: Vec<Vec<AllocReport>> = vec![Vec::new()];
    let mut bytes = 0;
    for report in reports {
        let more = report_bytes(&report);
        if bytes > 0 && bytes + more > SYNC_PART_BYTES_MAX {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        if let Some(part) = parts.last_mut() {
            part.push(report);
        }
    }
    parts
}
