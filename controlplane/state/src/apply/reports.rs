//! What nodes report of their allocations, live and in their complete report.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{
    AllocDeploymentStatus, AllocId, Allocation, ClientStatus, DesiredStatus, EvalTrigger, NodeId,
};
use protocol_wire::convert::without_events;
use protocol_wire::report::{AllocReport, JudgedFor, ReportedHealth};
use protocol_wire::v1::{ItemResult, UpdateClass};

use super::draft::{AllocTouch, Draft};
use super::node_evals::WantedEvals;
use crate::applied::{BatchRejected, BatchResult, Outcome};
use crate::command::{NodeBatch, NodeSynced};
use crate::record::{NodeRecord, ReportMark};
use crate::session::{NodeEvent, Verdict};

/// What became of one report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReportOutcome {
    /// It was taken in.
    Applied,
    /// Something newer is known.
    Superseded,
    /// The node has no such allocation.
    UnknownAlloc,
}

impl From<ReportOutcome> for ItemResult {
    fn from(outcome: ReportOutcome) -> Self {
        match outcome {
            ReportOutcome::Applied => Self::Applied,
            ReportOutcome::Superseded => Self::Superseded,
            ReportOutcome::UnknownAlloc => Self::UnknownAlloc,
        }
    }
}

impl Draft {
    pub(crate) fn alloc_updates(&mut self, batches: &[NodeBatch]) -> Outcome {
        let mut wanted = WantedEvals::default();
        let results = batches
            .iter()
            .map(|batch| self.take_batch(batch, &mut wanted))
            .collect();
        self.put_wanted_evals(wanted);
        Outcome::Updates(results)
    }

    fn take_batch(&mut self, batch: &NodeBatch, wanted: &mut WantedEvals) -> BatchResult {
        let NodeBatch {
            node,
            epoch,
            class,
            seq,
            reports,
        } = batch;
        let result = |results: Vec<ItemResult>, rejected| BatchResult {
            node: *node,
            epoch: *epoch,
            class: *class,
            seq: *seq,
            results,
            rejected,
        };
        let all = |item| vec![item; reports.len()];
        match self.judge(*node, *epoch, NodeEvent::StatusBatch) {
            Verdict::Accept => {}
            Verdict::OwesSync => {
                return result(all(ItemResult::NotInSession), Some(BatchRejected::OwesSync));
            }
            Verdict::NewSession
            | Verdict::SameSession(_)
            | Verdict::Become(_)
            | Verdict::CountRejection
            | Verdict::CloseSession
            | Verdict::Forget
            | Verdict::NoOp
            | Verdict::NotInSession
            | Verdict::Unregistered => {
                return result(
                    all(ItemResult::NotInSession),
                    Some(BatchRejected::NotInSession),
                );
            }
        }
        let Some(record) = self.tables.node(*node) else {
            return result(
                all(ItemResult::NotInSession),
                Some(BatchRejected::NotInSession),
            );
        };
        let mut record = NodeRecord::clone(record);
        let applied = match class {
            UpdateClass::Urgent => &mut record.session.applied_urgent_seq,
            UpdateClass::Typical => &mut record.session.applied_typical_seq,
        };
        // A batch heard twice: its items were judged the first time.
        if *seq <= *applied {
            return result(all(ItemResult::Superseded), None);
        }
        *applied = *seq;
        record.reported_index = self.index;
        self.tables.put_node_quietly(record);
        let results = reports
            .iter()
            .map(|report| {
                let mark = ReportMark {
                    epoch: *epoch,
                    revision: report.revision,
                };
                self.take_report(*node, mark, report, wanted).into()
            })
            .collect();
        result(results, None)
    }

    /// Takes in one report and notes the jobs that have to be looked at for it.
    pub(super) fn take_report(
        &mut self,
        node: NodeId,
        mark: ReportMark,
        report: &AllocReport,
        wanted: &mut WantedEvals,
    ) -> ReportOutcome {
        let Some(before) = self.tables.alloc(report.id).cloned() else {
            return ReportOutcome::UnknownAlloc;
        };
        if before.node_id != node {
            return ReportOutcome::UnknownAlloc;
        }
        if mark <= self.tables.alloc_report_mark(report.id) {
            return ReportOutcome::Superseded;
        }
        if !may_become(&before, report) {
            self.stop_what_is_over(&before, report, wanted);
            return ReportOutcome::Superseded;
        }
        let mut alloc = Allocation::clone(&before);
        self.copy_report(&mut alloc, report);
        let alloc = if says_the_same(&before, &alloc) {
            Arc::clone(&before)
        } else {
            self.put_alloc(alloc, AllocTouch::Known)
        };
        self.put_mark(report.id, mark);
        self.stay_where_it_is(&alloc);
        if let Some(trigger) = self.report_trigger(&before, &alloc) {
            wanted.want(alloc.job_key(), trigger, node);
        }
        ReportOutcome::Applied
    }

    /// A node that forgot how an allocation ended (a damaged record of its journal) runs it again,
    /// and nobody would ever stop it: what is over is not wanted any more. A batch job's result
    /// stays one, since that is what keeps it from running elsewhere.
    fn stop_what_is_over(
        &mut self,
        before: &Allocation,
        report: &AllocReport,
        wanted: &mut WantedEvals,
    ) {
        let over = matches!(
            before.client_status,
            ClientStatus::Complete | ClientStatus::Failed
        );
        let lives = matches!(
            report.client_status,
            ClientStatus::Pending | ClientStatus::Running
        );
        let job = self.tables.job_of_alloc(before);
        let result = job.is_some_and(|job| job.job_type.runs_to_completion());
        if !over || !lives || result || before.server_terminal() {
            return;
        }
        let mut alloc = before.clone();
        alloc.desired_status = DesiredStatus::Stop;
        alloc.desired_description = "alloc is over, and its node runs it again".to_owned();
        wanted.want(
            alloc.job_key(),
            EvalTrigger::RetryFailedAlloc,
            alloc.node_id,
        );
        self.put_alloc(alloc, AllocTouch::Desired);
    }

    fn copy_report(&self, alloc: &mut Allocation, report: &AllocReport) {
        let AllocReport {
            id: _,
            revision: _,
            client_status,
            client_description,
            task_states,
            health,
            desired_version: _,
            network,
        } = report;
        alloc.client_status = *client_status;
        alloc.client_description.clone_from(client_description);
        if alloc.network_status.as_deref() != network.as_ref() {
            alloc.network_status = network.clone().map(Arc::new);
        }
        // Events are volatile, except in the last word: the node may go away afterwards.
        alloc.task_states = if client_status.is_terminal() {
            task_states.clone()
        } else {
            without_events(task_states)
        };
        // Health that was found out before the allocation was given to this deployment does not
        // count. A drain waits for the health of an allocation without a deployment.
        let counts = |health: &&ReportedHealth| match alloc.deployment_id {
            Some(deployment) => health.counts_for(deployment),
            None => !matches!(health.judged_for, JudgedFor::Deployment(_)),
        };
        let Some(health) = health.as_ref().filter(counts) else {
            return;
        };
        let status = alloc
            .deployment_status
            .get_or_insert_with(AllocDeploymentStatus::default);
        if status.healthy != Some(health.healthy) {
            status.healthy = Some(health.healthy);
            status.timestamp = Some(health.at);
            status.modify_index = self.index;
        }
    }

    /// Why the scheduler has to look at the allocation's job now, if it has.
    fn report_trigger(&self, before: &Allocation, after: &Allocation) -> Option<EvalTrigger> {
        if before.client_status == ClientStatus::Unknown
            && after.client_status != ClientStatus::Unknown
        {
            return Some(EvalTrigger::Reconnect);
        }
        // It came back without running, and which of the pair stays waited for that.
        if before.needs_reconnect()
            && before.client_status == ClientStatus::Pending
            && after.client_status != ClientStatus::Pending
        {
            return Some(EvalTrigger::Reconnect);
        }
        let ended = after.client_terminal() && !before.client_terminal();
        if !ended {
            return self
                .is_news_for_deployment(before, after)
                .then_some(EvalTrigger::DeploymentWatcher);
        }
        let Some(job) = self.tables.job(&after.job_key()) else {
            return Some(EvalTrigger::JobDeregister);
        };
        let group = job.task_group(&after.task_group);
        // Its node may have stopped it by itself, and then it is wanted still. The version that it
        // runs may do so and the newest one not, or the other way round: either waits for its end.
        let mut of_versions = group.into_iter().chain(self.tables.group_of_alloc(after));
        let stops_itself = of_versions.any(|group| group.stop_on_client_after().is_some());
        let complete = after.client_status == ClientStatus::Complete;
        if stops_itself && complete && !after.server_terminal() {
            return Some(EvalTrigger::Reconnect);
        }
        // Of such a group nobody takes its place before it ended.
        if stops_itself && after.server_terminal() && !job.stop {
            return Some(EvalTrigger::AllocStop);
        }
        let is_result = job.job_type.runs_to_completion() && complete && after.ran_successfully();
        if after.server_terminal() || job.stop || is_result {
            return None;
        }
        // It is wanted still. An evaluation that is due later is not enough: a plan may be on its
        // way that calls it off.
        Some(if complete {
            EvalTrigger::AllocStop
        } else {
            EvalTrigger::RetryFailedAlloc
        })
    }

    /// Whether a rollout may go on, or has to stop, for what became known of its allocation's
    /// health.
    fn is_news_for_deployment(&self, before: &Allocation, after: &Allocation) -> bool {
        let health = |alloc: &Allocation| alloc.deployment_status.as_ref().and_then(|s| s.healthy);
        health(before) != health(after)
            && after
                .deployment_id
                .and_then(|id| self.tables.deployment(id))
                .is_some_and(|deployment| deployment.status.is_active())
    }

    /// Allocations that the node had been told of and does not report are lost. What it had not
    /// been told of is still pending: the watch will tell it.
    pub(super) fn lose_unreported(
        &mut self,
        synced: &NodeSynced,
        seen: &BTreeSet<AllocId>,
        wanted: &mut WantedEvals,
    ) -> Vec<AllocId> {
        let missing: Vec<Allocation> = self
            .tables
            .allocs_on_node(synced.node)
            .filter(|alloc| !seen.contains(&alloc.id) && !alloc.client_terminal())
            // The node was told of it at its creation, or has said itself that it runs (to an
            // earlier incarnation, perhaps); a later version is the same allocation.
            .filter(|alloc| {
                alloc.create_index <= synced.watch_index
                    || alloc.client_status != ClientStatus::Pending
            })
            .map(|alloc| Allocation::clone(alloc))
            .collect();
        let mut lost = Vec::new();
        for mut alloc in missing {
            alloc.client_status = ClientStatus::Lost;
            alloc.client_description = "its node no longer has it".to_owned();
            let touch = if alloc.server_terminal() {
                AllocTouch::Known
            } else {
                alloc.desired_status = DesiredStatus::Stop;
                alloc.desired_description = "alloc is lost: its node no longer has it".to_owned();
                AllocTouch::Desired
            };
            wanted.want(alloc.job_key(), EvalTrigger::NodeUpdate, synced.node);
            lost.push(alloc.id);
            self.put_alloc(alloc, touch);
        }
        lost
    }
}

/// Whether a report, copied into `after`, brought no news. Only what a report says is looked at:
/// this is asked of every report, and the rest of an allocation is long.
fn says_the_same(before: &Allocation, after: &Allocation) -> bool {
    before.client_status == after.client_status
        && before.client_description == after.client_description
        && before.task_states == after.task_states
        && before.deployment_status == after.deployment_status
        && before.network_status == after.network_status
}

/// Whether a report may follow what is recorded. A node's last word is final; `lost` was the
/// control plane's guess, and gives way to the node's word, except that what was given up is not
/// counted as living again. `lost` and `unknown` are not for nodes to say.
fn may_become(before: &Allocation, report: &AllocReport) -> bool {
    let sayable = match report.client_status {
        ClientStatus::Pending
        | ClientStatus::Running
        | ClientStatus::Complete
        | ClientStatus::Failed => true,
        ClientStatus::Lost | ClientStatus::Unknown => false,
    };
    let follows = match before.client_status {
        ClientStatus::Complete | ClientStatus::Failed => {
            report.client_status == before.client_status
        }
        ClientStatus::Lost => report.client_status.is_terminal() || before.server_terminal(),
        ClientStatus::Pending | ClientStatus::Running | ClientStatus::Unknown => true,
    };
    sayable && follows
}
