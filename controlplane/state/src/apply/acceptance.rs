//! Allocations that a node was given and says nothing of. A node that is well reports what it
//! accepted within moments, as soon as its journal has it; one whose disk hangs goes on with its
//! heartbeats and accepts nothing.

use protocol_model::{AllocId, Allocation, ClientStatus, DesiredStatus, EvalTrigger, NodeId};

use super::draft::{AllocTouch, Draft};
use super::node_evals::WantedEvals;
use crate::applied::Outcome;
use crate::command::Unaccepted;
use crate::record::{ReportMark, SessionEpoch};
use crate::session::{NodeEvent, Verdict};
use crate::tables::Tables;

impl Draft {
    /// Marks them for the scheduler, which moves them where another node will have them: what finds
    /// no other node waits on.
    pub(crate) fn pending_expired(&mut self, nodes: &[Unaccepted]) -> Outcome {
        let mut wanted = WantedEvals::default();
        let mut marked = false;
        for Unaccepted {
            node,
            epoch,
            allocs,
        } in nodes
        {
            if self.judge(*node, *epoch, NodeEvent::PendingExpired) != Verdict::Accept {
                continue;
            }
            for id in allocs {
                // Decided here once more: it may have been accepted since it was proposed.
                let Some(alloc) = self
                    .tables
                    .alloc(*id)
                    .filter(|alloc| alloc.node_id == *node && self.tables.is_unaccepted(alloc))
                else {
                    continue;
                };
                let mut alloc = Allocation::clone(alloc);
                alloc.desired_transition.migrate = Some(true);
                alloc.desired_transition.reschedule = Some(true);
                wanted.want(alloc.job_key(), EvalTrigger::AllocStop, *node);
                self.put_alloc(alloc, AllocTouch::Known);
                marked = true;
            }
        }
        self.put_wanted_evals(wanted);
        if marked { Outcome::Done } else { Outcome::NoOp }
    }

    /// The node has these, as the state knows them.
    pub(super) fn accept_unchanged(
        &mut self,
        node: NodeId,
        epoch: SessionEpoch,
        allocs: &[AllocId],
    ) {
        for id in allocs {
            let unheard = self.tables.alloc_report_mark(*id) == ReportMark::default();
            let Some(alloc) = self.tables.alloc(*id).filter(|_| unheard).cloned() else {
                continue;
            };
            if alloc.node_id == node {
                let mark = ReportMark { epoch, revision: 0 };
                self.put_mark(*id, mark);
                self.stay_where_it_is(&alloc);
            }
        }
    }

    /// Its node accepted it after all.
    pub(super) fn stay_where_it_is(&mut self, alloc: &Allocation) {
        if alloc.desired_transition.moves_elsewhere() && !alloc.server_terminal() {
            let mut alloc = alloc.clone();
            alloc.desired_transition.migrate = None;
            alloc.desired_transition.reschedule = None;
            self.put_alloc(alloc, AllocTouch::Known);
        }
    }
}

impl Tables {
    /// Whether nobody has said of an allocation that its node accepted it, and it would run
    /// elsewhere as well. (What runs on every node is no other node's.)
    pub fn is_unaccepted(&self, alloc: &Allocation) -> bool {
        let moves = || {
            let job = self.job_of_alloc(alloc);
            job.is_some_and(|job| !job.job_type.is_per_node())
        };
        alloc.desired_status == DesiredStatus::Run
            && alloc.client_status == ClientStatus::Pending
            && !alloc.desired_transition.should_migrate()
            && self.alloc_report_mark(alloc.id) == ReportMark::default()
            // Last: a job takes the longest to find.
            && moves()
    }
}
