//! Nodes fall silent, and windows end. Many nodes share one entry.

use std::sync::Arc;

use protocol_model::{
    Allocation, ClientStatus, DesiredStatus, EvalTrigger, Node, NodeId, UnixNanos,
};

use super::draft::Draft;
use super::lease::unknown_since;
use super::node_evals::WantedEvals;
use super::nodes::node_event;
use crate::applied::{MissedResult, Outcome, Signal};
use crate::record::{NodeRecord, SessionEpoch};
use crate::session::{NodeEvent, Tolerance, Verdict};

impl Draft {
    pub(crate) fn heartbeat_missed(&mut self, nodes: &[(NodeId, SessionEpoch)]) -> Outcome {
        let mut wanted = WantedEvals::default();
        let results = nodes
            .iter()
            .map(|(node, epoch)| {
                let event = NodeEvent::HeartbeatMissed(self.tolerance(*node));
                let verdict = self.judge(*node, *epoch, event);
                self.fall_silent(*node, *epoch, verdict, "Node heartbeat missed", &mut wanted)
            })
            .collect();
        self.put_wanted_evals(wanted);
        Outcome::Missed(results)
    }

    pub(crate) fn window_expired(&mut self, nodes: &[(NodeId, SessionEpoch)]) -> Outcome {
        let mut wanted = WantedEvals::default();
        let results = nodes
            .iter()
            .map(|(node, epoch)| {
                // Decided here once more: a plan may have opened a window since it was proposed.
                let verdict = match self.tolerance(*node) {
                    Tolerance::Window => Verdict::NoOp,
                    Tolerance::None => self.judge(*node, *epoch, NodeEvent::WindowExpired),
                };
                let message = "Node's disconnect windows ended";
                self.fall_silent(*node, *epoch, verdict, message, &mut wanted)
            })
            .collect();
        self.put_wanted_evals(wanted);
        Outcome::Missed(results)
    }

    /// Carries out a verdict that can only be "become silent" or nothing.
    fn fall_silent(
        &mut self,
        id: NodeId,
        epoch: SessionEpoch,
        verdict: Verdict,
        message: &str,
        wanted: &mut WantedEvals,
    ) -> MissedResult {
        let unchanged = MissedResult {
            node: id,
            status: None,
        };
        let Verdict::Become(to) = verdict else {
            return unchanged;
        };
        let Some(record) = self.tables.node(id) else {
            return unchanged;
        };
        let mut record = NodeRecord::clone(record);
        // The end of a window is no other silence.
        record.fell_silent_at = Some(record.silent_since().unwrap_or(self.now));
        let mut node = Node::clone(&record.node);
        let from = std::mem::replace(&mut node.status, to);
        node.status_description = message.to_owned();
        node.status_updated_at = self.now.0 / 1_000_000_000;
        if node.last_missed_heartbeat_index == 0 {
            node.last_missed_heartbeat_index = self.index;
        }
        node.modify_index = self.index;
        node_event(&mut node, message, self.now, self.index);
        record.owes_evals = true;
        record.node = Arc::new(node.clone());
        self.tables.put_node(record);
        self.want_node_evals(wanted, &node, EvalTrigger::NodeUpdate);
        self.signal(Signal::NodeStatusChanged {
            node: id,
            epoch,
            from,
            to,
        });
        MissedResult {
            node: id,
            status: Some(to),
        }
    }

    /// Whether an allocation on the node still tolerates its silence.
    fn tolerance(&self, node: NodeId) -> Tolerance {
        if self.tables.has_open_window(node, self.now) {
            Tolerance::Window
        } else {
            Tolerance::None
        }
    }
}

/// When an allocation's disconnect window ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WindowEnd {
    /// Then.
    At(UnixNanos),
    /// It has one, and it has not begun: the allocation is not `unknown` yet. So it is later than
    /// any other.
    NotBegun,
}

impl crate::tables::Tables {
    /// When the allocation stops tolerating its node's silence; `None` where it never does: it has
    /// no window, or either side is done with it.
    pub fn disconnect_window_ends(&self, alloc: &Allocation) -> Option<WindowEnd> {
        if alloc.desired_status != DesiredStatus::Run || alloc.client_terminal() {
            return None;
        }
        let job = self.job_of_alloc(alloc)?;
        let window = job.task_group(&alloc.task_group)?.disconnect_window()?;
        if alloc.client_status != ClientStatus::Unknown {
            return Some(WindowEnd::NotBegun);
        }
        let since = unknown_since(alloc)?;
        Some(WindowEnd::At(since.saturating_add(window)))
    }

    /// When the last disconnect window of a node's allocations ends; `None` where none tolerates
    /// its silence.
    pub fn disconnect_windows_end(&self, node: NodeId) -> Option<WindowEnd> {
        self.allocs_on_node(node)
            .filter_map(|alloc| self.disconnect_window_ends(alloc))
            .max()
    }

    /// Whether any allocation of a disconnected node has an open window at `now`. Where none has,
    /// [`crate::Command::WindowExpired`] is due.
    pub fn has_open_window(&self, node: NodeId, now: UnixNanos) -> bool {
        match self.disconnect_windows_end(node) {
            None => false,
            Some(WindowEnd::NotBegun) => true,
            Some(WindowEnd::At(end)) => end > now,
        }
    }
}
