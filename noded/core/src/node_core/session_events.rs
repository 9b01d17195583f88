//! What the session's messages mean for the rest of the node.

use protocol_wire::report::AllocReport;

use super::NodeCore;
use crate::effect::DisconnectReason;
use crate::event::{SessionEvent, Welcome};
use crate::key::Watermark;
use crate::time::Now;
use crate::update_batcher::{AppliedSeqs, SessionMode};

impl NodeCore {
    /// Everything up to here of the watch is on the disk: what the node may name in a Hello.
    pub fn on_durable(&mut self, watermark: Watermark) {
        self.session.on_durable(watermark);
    }

    pub(super) fn on_session_event(&mut self, event: SessionEvent, now: Now) {
        match event {
            SessionEvent::Connected => self.session.on_connected(&mut self.outbox, now),
            SessionEvent::Disconnected { reason: _, ending } => {
                self.session.on_disconnected(ending, &mut self.outbox, now);
                self.notice_closed();
            }
            SessionEvent::Welcome(welcome) => self.on_welcome(&welcome, now),
            SessionEvent::Refused(refused) => {
                self.session.on_refused(&refused, &mut self.outbox, now);
                self.notice_closed();
            }
            SessionEvent::SyncAck { epoch, index: _ } => {
                match self.session.on_sync_ack(epoch, &mut self.outbox, now) {
                    Some(epoch) => self.batcher.on_sync_ack(epoch, now.moment),
                    None => self.notice_closed(),
                }
            }
            SessionEvent::FactsAck { epoch } => {
                self.session.on_facts_ack(epoch, &mut self.outbox, now);
            }
            SessionEvent::HeartbeatAck(ack) => {
                let newest = self.session.on_heartbeat_ack(&ack, &mut self.outbox, now);
                if newest && !ack.typical_interval.is_zero() {
                    self.batcher.set_intervals(None, Some(ack.typical_interval));
                }
                self.renew_leases();
            }
            SessionEvent::BatchAck(ack) => {
                self.session.heard(now);
                self.batcher
                    .on_ack(ack.class, ack.seq, &ack.results, now.moment);
            }
            SessionEvent::BatchFailed { class, seq } => {
                self.batcher.on_send_failed(class, seq, now.moment);
            }
            SessionEvent::WatchMap(map) => {
                if self.watch_is_open(now) {
                    let steps = self.alloc_set.on_map(map, now.moment);
                    self.take_steps(steps, now);
                }
            }
            SessionEvent::WatchDelta(delta) => {
                if self.watch_is_open(now) {
                    self.on_delta(delta, now);
                }
            }
        }
    }

    /// Ends the connection from this side.
    pub(super) fn disconnect(&mut self, reason: DisconnectReason, now: Now) {
        self.session.close(reason, &mut self.outbox, now);
        self.notice_closed();
    }

    /// What is said on the second connection, which has no session yet.
    pub(super) fn on_standby_event(&mut self, event: SessionEvent, now: Now) {
        match event {
            SessionEvent::Connected => self.session.on_standby_connected(now),
            SessionEvent::Disconnected { reason: _, ending } => {
                self.session.on_standby_lost(ending, now);
            }
            SessionEvent::Refused(_) => {
                let reason = DisconnectReason::Refused;
                self.session.leave_standby(reason, &mut self.outbox, now);
            }
            SessionEvent::Welcome(welcome) if self.session.adopt_standby(&mut self.outbox) => {
                self.notice_closed();
                self.on_welcome(&welcome, now);
            }
            SessionEvent::Welcome(_)
            | SessionEvent::SyncAck { .. }
            | SessionEvent::FactsAck { .. }
            | SessionEvent::HeartbeatAck(_)
            | SessionEvent::BatchAck(_)
            | SessionEvent::BatchFailed { .. }
            | SessionEvent::WatchMap(_)
            | SessionEvent::WatchDelta(_) => {
                let reason = DisconnectReason::Unexpected {
                    message: "an answer to nothing",
                    phase: "standing by",
                };
                self.session.leave_standby(reason, &mut self.outbox, now);
            }
        }
    }

    /// Whatever a connection carried that ended is over.
    pub(super) fn notice_closed(&mut self) {
        if !self.session.take_closed() {
            return;
        }
        self.batcher.on_disconnected();
        self.alloc_set.close();
        self.forget_unused_specs();
    }

    fn on_welcome(&mut self, welcome: &Welcome, now: Now) {
        let known = welcome.newcomer.then(|| self.alloc_set.versions());
        let welcomed = self
            .session
            .on_welcome(welcome, known, &mut self.outbox, now);
        let Some(begun) = welcomed else {
            self.notice_closed();
            return;
        };
        let (urgent, typical) = (welcome.urgent_delay, welcome.typical_interval);
        self.batcher.set_intervals(
            // Zero is an answer: one batch in flight is all the gathering there is.
            Some(urgent),
            Some(typical).filter(|interval| !interval.is_zero()),
        );
        let applied = AppliedSeqs {
            urgent: welcome.applied_urgent_seq,
            typical: welcome.applied_typical_seq,
        };
        self.batcher
            .on_session(begun.epoch, begun.mode, applied, now.moment);
        match begun.mode {
            SessionMode::OwesSync => {
                let reports = self.batcher.begin_sync(self.all_reports(), now.moment);
                let watch_index = self.sync_index(welcome);
                self.session
                    .send_sync(reports, watch_index, &mut self.outbox);
            }
            SessionMode::Resumed if welcome.newcomer => {
                let reports = self.all_reports();
                self.session.send_detail(reports, &mut self.outbox);
            }
            SessionMode::Resumed => {}
        }
    }

    /// What the node had been told of this very history; nothing of another one.
    fn sync_index(&self, welcome: &Welcome) -> u64 {
        let watermark = self.alloc_set.watermark();
        if watermark.incarnation == welcome.applied.incarnation {
            watermark.index
        } else {
            0
        }
    }

    fn all_reports(&self) -> Vec<AllocReport> {
        let live = self
            .runners
            .values()
            .map(crate::alloc_runner::AllocRunner::report);
        let unrunnable = self
            .unrunnable
            .values()
            .map(super::watch_steps::unrunnable_report);
        let without_spec = self
            .lost_specs
            .iter()
            .map(|(id, lost)| lost.report(self.batcher.acknowledged(*id)));
        live.chain(unrunnable).chain(without_spec).collect()
    }

    /// A node acts on desired state only from a watch that started after its own sync.
    fn watch_is_open(&mut self, now: Now) -> bool {
        self.session.heard(now);
        // The watch is another stream: it may overtake the answer to the sync that it starts after.
        if let Some(epoch) = self.session.syncing_epoch()
            && let Some(epoch) = self.session.on_sync_ack(epoch, &mut self.outbox, now)
        {
            self.batcher.on_sync_ack(epoch, now.moment);
        }
        if self.session.live_epoch().is_some() {
            return true;
        }
        self.session.unexpected("the watch", &mut self.outbox, now);
        self.notice_closed();
        false
    }
}
