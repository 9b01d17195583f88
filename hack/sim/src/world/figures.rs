//! Measuring, while a run goes on: see [`crate::figures`].

use controlplane_state::{Applied, Command};
use protocol_model::NodeStatus;

use super::World;
use crate::invariants::taken_for_silent;
use crate::schedule::fault::FaultKind;

impl World {
    pub(super) fn measure(&mut self, command: &Command, applied: &Applied) {
        match command {
            Command::HeartbeatMissed { .. } => {
                for ix in taken_for_silent(command, applied) {
                    self.measure_silence(ix);
                }
            }
            Command::NodeSynced(_) => self.measure_return(),
            _ => {}
        }
    }

    fn measure_silence(&mut self, ix: u32) {
        if self.shares().is_some() && self.may_have_session(ix) && !self.has_session(ix) {
            self.figures.waiting_expiries += 1;
        }
        if let Some(since) = self.node(ix).unreachable_since {
            let took = self.now.saturating_sub(since);
            self.figures.noticed += 1;
            self.figures.noticed_max = self.figures.noticed_max.max(took);
            if self.servers_are_well() {
                self.figures.noticed_well_max = self.figures.noticed_well_max.max(took);
            }
        } else if self.is_falsely_silent(ix) {
            self.figures.false_expiries += 1;
        }
    }

    /// An outage of all nodes is over: how long until they are back is measured, where nothing else
    /// goes wrong meanwhile.
    pub(super) fn measure_from_here(&mut self) {
        let mut faults = self.schedule.faults.iter();
        if faults.all(|fault| fault.kind == FaultKind::CutAll) {
            self.outage_over = Some(self.now);
            self.figures.outages += 1;
        }
    }

    fn measure_return(&mut self) {
        let Some(since) = self.outage_over else {
            return;
        };
        let away = |status| status != NodeStatus::Ready;
        if !self.state().nodes().any(|record| away(record.node.status)) {
            let took = self.now - since;
            self.figures.ready_again_max = self.figures.ready_again_max.max(took);
            self.outage_over = None;
        }
    }

    /// How long nodes wait for a session where processor time counts.
    pub(super) fn measure_storm(&mut self) {
        let counts = self.shares().is_some();
        let waits = |ix: u32| self.may_have_session(ix) && !self.has_session(ix);
        if counts && (0..self.schedule.nodes).any(waits) {
            self.storm_since.get_or_insert(self.now);
        } else if let Some(since) = self.storm_since.take()
            && counts
        {
            self.figures.storms += 1;
            self.figures.storm_max = self.figures.storm_max.max(self.now - since);
        }
    }
}
