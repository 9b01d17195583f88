//! Plans: what the scheduler decided becomes the wanted state, all of it or nothing.
//!
//! ```text
//!  check evaluations -> stops, preemptions -> deployment -> updates -> placements -> evaluations
//!                       (they make room)                    (each has to fit)
//! ```
//!
//! The plan queue has checked the plan on the newest state it could see. Checking again here costs
//! little, needs no lock, and makes over-commitment impossible whatever the queue believed: the
//! answer is a refusal that names the nodes, and the evaluation is still open.
//!
//! An allocation that is being stopped holds its room until its node reports its end. For the plan
//! that stops it the room is free at once: the node starts a successor after the end of the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{
    AllocState, Allocation, ClientStatus, DesiredStatus, EvalTrigger, NodeId, NodeStatus,
};

use super::draft::{AllocTouch, Draft};
use super::node_evals::WantedEvals;
use crate::applied::{NodeRejected, NodeRejection, Outcome, Refusal};
use crate::columns::Readiness;
use crate::command::{AllocChange, Change, PlanApply, Preempted};
use crate::fit::fits;
use crate::usage::Usage;

impl Draft {
    pub(crate) fn plan_apply(&mut self, plan: PlanApply) -> Result<Outcome, Refusal> {
        let PlanApply {
            eval_id,
            snapshot_index,
            placed,
            updated,
            changed,
            preempted,
            deployment,
            deployment_changes,
            evals,
        } = plan;
        if (1..self.tables.cluster.index).contains(&snapshot_index) {
            return Err(Refusal::AnotherIncarnation);
        }
        self.check_evals(&evals)?;
        // The fence against a worker that lost its evaluation: it was finished elsewhere, or
        // deleted, and the plan would bring it back.
        if let Some(id) = eval_id {
            let eval = self.tables.eval(id).ok_or(Refusal::UnknownEval(id))?;
            if eval.status.is_terminal() {
                return Err(Refusal::EvalTerminal(id));
            }
        }
        for change in deployment_changes {
            self.change_deployment(&change, IfOver::Ignore)?;
        }
        for change in changed {
            self.change_alloc(change)?;
        }
        let mut wanted = WantedEvals::default();
        for one in preempted {
            self.preempt_alloc(one, &mut wanted);
        }
        if let Some(deployment) = deployment {
            self.upsert_deployment(&deployment)?;
        }
        let mut rejected = BTreeMap::new();
        for alloc in updated {
            self.update_alloc(&alloc, snapshot_index, &mut rejected)?;
        }
        for alloc in placed {
            self.place_alloc(&alloc, snapshot_index, &mut rejected)?;
        }
        if !rejected.is_empty() {
            let nodes = rejected
                .into_iter()
                .map(|(node, reason)| NodeRejected { node, reason });
            return Err(Refusal::PlanRejected(nodes.collect()));
        }
        for eval in evals {
            self.put_eval(eval);
        }
        self.put_wanted_evals(wanted);
        Ok(Outcome::PlanApplied)
    }

    fn change_alloc(&mut self, AllocChange { id, change }: AllocChange) -> Result<(), Refusal> {
        let Some(alloc) = self.tables.alloc(id) else {
            return Err(Refusal::UnknownAlloc(id));
        };
        let mut alloc = Allocation::clone(alloc);
        let touch = match change {
            Change::Stop {
                description,
                client_status,
                followup_eval,
            } => {
                // What its node, which is back, runs is lost by an older plan's word only.
                let lives = matches!(
                    alloc.client_status,
                    ClientStatus::Pending | ClientStatus::Running
                );
                if client_status.is_some() && lives && !self.is_silent(alloc.node_id) {
                    return Err(Refusal::AllocState(id));
                }
                alloc.desired_status = DesiredStatus::Stop;
                alloc.desired_description = description;
                // A node's last word is final, whatever the plan was made from.
                if let Some(status) = client_status
                    && !alloc.client_terminal()
                {
                    self.record_status(&mut alloc, status);
                }
                alloc.followup_eval_id = followup_eval.or(alloc.followup_eval_id);
                AllocTouch::Desired
            }
            Change::Disconnect {
                description,
                followup_eval,
            } => {
                // A node that is back has said, or is about to say, what runs: `unknown` on top of
                // that would stay, since the node has nothing new to report.
                if alloc.terminal() || !self.is_silent(alloc.node_id) {
                    return Err(Refusal::AllocState(id));
                }
                alloc.desired_description = description;
                self.record_status(&mut alloc, ClientStatus::Unknown);
                alloc.followup_eval_id = followup_eval.or(alloc.followup_eval_id);
                AllocTouch::Known
            }
            Change::Reconnect => {
                // That it is back was reported; this entry says that it was decided what it means.
                alloc.alloc_states.push(AllocState {
                    value: alloc.client_status,
                    time: self.now,
                });
                alloc.followup_eval_id = None;
                AllocTouch::Desired
            }
            Change::FollowUp { eval } => {
                alloc.followup_eval_id = Some(eval);
                AllocTouch::Known
            }
        };
        bound_states(&mut alloc.alloc_states);
        self.put_alloc(alloc, touch);
        Ok(())
    }

    /// Whether nobody hears the node, or nobody knows it.
    fn is_silent(&self, node: NodeId) -> bool {
        self.tables.node(node).is_none_or(|record| {
            matches!(
                record.node.status,
                NodeStatus::Disconnected | NodeStatus::Down
            )
        })
    }

    fn record_status(&self, alloc: &mut Allocation, status: ClientStatus) {
        if status == ClientStatus::Unknown || alloc.client_status == ClientStatus::Unknown {
            alloc.alloc_states.push(AllocState {
                value: status,
                time: self.now,
            });
        }
        alloc.client_status = status;
    }

    /// Evicts one. An allocation that ended or was stopped meanwhile is left as it is; only the
    /// eviction asks for an evaluation of its job.
    fn preempt_alloc(&mut self, Preempted { id, by }: Preempted, wanted: &mut WantedEvals) {
        let Some(alloc) = self.tables.alloc(id).filter(|alloc| !alloc.terminal()) else {
            return;
        };
        let mut alloc = Allocation::clone(alloc);
        alloc.desired_status = DesiredStatus::Evict;
        alloc.desired_description = format!("Preempted by alloc ID {by}");
        alloc.preempted_by_allocation = Some(by);
        wanted.want_job(alloc.job_key(), EvalTrigger::Preemption);
        self.put_alloc(alloc, AllocTouch::Desired);
    }

    /// An allocation that stays where it is. Only what the control plane decides is taken from the
    /// plan: the node may have reported since the plan's snapshot.
    fn update_alloc(
        &mut self,
        plan: &Allocation,
        snapshot_index: u64,
        rejected: &mut BTreeMap<NodeId, NodeRejection>,
    ) -> Result<(), Refusal> {
        let Some(current) = self.tables.alloc(plan.id).cloned() else {
            return Err(Refusal::UnknownAlloc(plan.id));
        };
        let same_place = current.node_id == plan.node_id
            && current.job_id == plan.job_id
            && current.namespace == plan.namespace
            && current.task_group == plan.task_group;
        if current.server_terminal() || !same_place {
            return Err(Refusal::AllocState(plan.id));
        }
        self.known_spec(plan)?;
        self.known_deployment(plan)?;
        let mut alloc = Allocation::clone(&current);
        alloc.eval_id = plan.eval_id;
        alloc.job_version = plan.job_version;
        alloc.job_create_index = plan.job_create_index;
        alloc.spec = plan.spec;
        alloc.allocated_resources = plan.allocated_resources.clone();
        alloc.metrics = plan.metrics.clone();
        alloc
            .desired_description
            .clone_from(&plan.desired_description);
        if alloc.deployment_id != plan.deployment_id {
            alloc.deployment_id = plan.deployment_id;
            alloc.deployment_status.clone_from(&plan.deployment_status);
        }
        alloc.followup_eval_id = plan.followup_eval_id;
        alloc
            .reschedule_tracker
            .clone_from(&plan.reschedule_tracker);
        alloc
            .preempted_allocations
            .clone_from(&plan.preempted_allocations);
        if alloc.allocated_resources != current.allocated_resources && !alloc.terminal() {
            // Its present share is its own to keep: taken out before the question is asked.
            let own = Usage::of(&current.allocated_resources);
            let room = self.room(&alloc, &own, snapshot_index, Readiness::NotReady);
            if let Err(reason) = room {
                reject(rejected, plan.node_id, reason);
                return Ok(());
            }
        }
        self.put_alloc(alloc, AllocTouch::Desired);
        Ok(())
    }

    fn place_alloc(
        &mut self,
        plan: &Arc<Allocation>,
        snapshot_index: u64,
        rejected: &mut BTreeMap<NodeId, NodeRejection>,
    ) -> Result<(), Refusal> {
        if self.tables.alloc(plan.id).is_some() {
            return Err(Refusal::DuplicateAlloc(plan.id));
        }
        if plan.terminal() || plan.client_status != ClientStatus::Pending {
            return Err(Refusal::AllocState(plan.id));
        }
        self.known_spec(plan)?;
        self.known_deployment(plan)?;
        let nothing = Usage::default();
        let room = self.room(plan, &nothing, snapshot_index, Readiness::Ready);
        if let Err(reason) = room {
            reject(rejected, plan.node_id, reason);
            return Ok(());
        }
        let mut alloc = Allocation::clone(plan);
        if let Some(record) = self.tables.node(alloc.node_id) {
            alloc.node_name.clone_from(&record.node.name);
        }
        if self.is_promoted(&alloc)
            && let Some(status) = &mut alloc.deployment_status
        {
            status.canary = false;
        }
        let previous = alloc
            .previous_allocation
            .and_then(|id| self.tables.alloc(id))
            .cloned();
        if let Some(previous) = previous {
            let mut previous = Allocation::clone(&previous);
            previous.next_allocation = Some(alloc.id);
            self.put_alloc(previous, AllocTouch::Known);
        }
        self.put_alloc(alloc, AllocTouch::Desired);
        Ok(())
    }

    fn known_spec(&self, alloc: &Allocation) -> Result<(), Refusal> {
        match self.tables.spec(alloc.spec) {
            Some(_) => Ok(()),
            None => Err(Refusal::UnknownSpec(alloc.spec)),
        }
    }

    fn known_deployment(&self, alloc: &Allocation) -> Result<(), Refusal> {
        match alloc.deployment_id {
            Some(id) if self.tables.deployment(id).is_none() => Err(Refusal::UnknownDeployment(id)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the plan that `ask` belongs to stopped `alloc`, which has not ended yet. One plan of
    /// a job is made at a time: what was stopped of the job after the plan's snapshot was stopped
    /// by the plan's own pieces. An allocation that `ask` displaces is waited for by its node.
    fn is_stopped_by(&self, ask: &Allocation, alloc: &Allocation, snapshot_index: u64) -> bool {
        let earlier_piece = snapshot_index != 0
            && alloc.alloc_modify_index > snapshot_index
            && alloc.job_id == ask.job_id
            && alloc.namespace == ask.namespace;
        alloc.server_terminal()
            && alloc.holds_room()
            && (alloc.alloc_modify_index == self.index
                || earlier_piece
                || ask.preempted_allocations.contains(&alloc.id))
    }

    /// Whether the allocation fits beside what its node has, `own` (its present share) left out. A
    /// new one needs a node that may be placed on; one that is there already needs a node that is
    /// alive.
    fn room(
        &self,
        alloc: &Allocation,
        own: &Usage,
        snapshot_index: u64,
        needs: Readiness,
    ) -> Result<(), NodeRejection> {
        let row = self
            .tables
            .columns
            .row(alloc.node_id)
            .ok_or(NodeRejection::Unknown)?;
        let alive = match needs {
            Readiness::Ready => row.readiness == Readiness::Ready,
            Readiness::NotReady => self.tables.node(alloc.node_id).is_some_and(|record| {
                matches!(
                    record.node.status,
                    NodeStatus::Ready | NodeStatus::Initializing
                )
            }),
        };
        if !alive {
            return Err(NodeRejection::NotReady);
        }
        let ask = Usage::of(&alloc.allocated_resources);
        let mut used = row.used.clone();
        used.subtract(own);
        if fits(&row.capacity, &used, &ask).is_ok() {
            return Ok(());
        }
        // Looked at only where it matters: a node may have hundreds of allocations.
        let on_node = self.tables.allocs_on_node(alloc.node_id);
        for leaving in on_node.filter(|it| self.is_stopped_by(alloc, it, snapshot_index)) {
            used.subtract(&Usage::of(&leaving.allocated_resources));
        }
        fits(&row.capacity, &used, &ask).map_err(NodeRejection::Exhausted)
    }
}

/// What a change of a deployment that is over already leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IfOver {
    /// Nothing: it was to end anyway.
    Ignore,
    /// A refusal.
    Refuse,
}

/// How many recorded changes of client status an allocation keeps: the newest decides, the rest
/// is for people.
const ALLOC_STATES_MAX: usize = 16;

pub(super) fn bound_states(states: &mut Vec<AllocState>) {
    if states.len() > ALLOC_STATES_MAX {
        states.drain(..states.len() - ALLOC_STATES_MAX);
    }
}

/// The first reason per node is the one that is told.
fn reject(rejected: &mut BTreeMap<NodeId, NodeRejection>, node: NodeId, reason: NodeRejection) {
    rejected.entry(node).or_insert(reason);
}

/// The nodes that a plan touches with placements or updates: what a plan queue checks apart.
impl PlanApply {
    /// See above.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.placed
            .iter()
            .chain(&self.updated)
            .map(|alloc| alloc.node_id)
            .collect()
    }
}
