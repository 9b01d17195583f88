//! What leaders, operators and the other node do, whenever they like: the leader's clocks are not
//! part of this world, so it may take a node for silent at any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_leader::plan::{self, Commit};
use controlplane_scheduler::{Scratch, schedule};
use controlplane_state::command::{JobDeregister, JobRegister, NodeBatch, Purge};
use controlplane_state::{Command, SessionEpoch, UpdateClass};
use protocol_model::{
    AllocId, ClientStatus, EvalId, EvalStatus, EvalTrigger, Evaluation, Job, NodeStatus,
};
use protocol_wire::report::AllocReport;

use crate::ids::{NODE, OTHER, WINDOW, jobs};
use crate::log::Then;
use crate::world::World;

/// What an operator does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Registers both jobs, once there is a node for them.
    Register,
    /// Stops the job that does not tolerate a silent node.
    Stop,
}

impl World {
    /// The node's status, as it is committed.
    pub fn node_status(&self) -> Option<NodeStatus> {
        let record = self.log.state.tables().node(NODE);
        record.map(|record| record.node.status)
    }

    /// The session, as it is committed.
    pub fn node_epoch(&self) -> SessionEpoch {
        let record = self.log.state.tables().node(NODE);
        record.map_or(SessionEpoch::NONE, |record| record.session.epoch)
    }

    pub(crate) fn leader_doubts(&self) -> bool {
        self.log.pending.iter().any(|it| {
            matches!(
                *it.command,
                Command::HeartbeatMissed { .. }
                    | Command::SyncDeadline { .. }
                    | Command::WindowExpired { .. }
            )
        })
    }

    fn decide(&mut self, command: Command) {
        let digest = self.log.digest.with("the leader");
        self.propose(command, Then::Nothing, digest);
    }

    pub(crate) fn miss(&mut self) {
        let nodes = vec![(NODE, self.node_epoch())];
        self.decide(Command::HeartbeatMissed { nodes });
    }

    pub(crate) fn overdue(&mut self) {
        let nodes = vec![(NODE, self.node_epoch())];
        self.decide(Command::SyncDeadline { nodes });
    }

    pub(crate) fn end_window(&mut self) {
        let window = i64::try_from(WINDOW.as_nanos()).unwrap_or(i64::MAX);
        self.log.clock.0 += window + 60_000_000_000;
        self.log.digest.note("the window ends");
        let nodes = vec![(NODE, self.node_epoch())];
        self.decide(Command::WindowExpired { nodes });
    }

    /// The evaluation that is looked at next.
    pub(crate) fn due_eval(&self) -> Option<Arc<Evaluation>> {
        let due = |eval: &&Arc<Evaluation>| {
            eval.status == EvalStatus::Pending
                && eval.wait_until.is_none_or(|at| at <= self.log.clock)
        };
        let evals = self.log.state.tables().evals().filter(due);
        evals
            .min_by_key(|eval| (eval.create_index, eval.id))
            .cloned()
    }

    pub(crate) fn plan_is_pending(&self) -> bool {
        let mut pending = self.log.pending.iter();
        pending.any(|it| matches!(*it.command, Command::PlanApply(_)))
    }

    /// A scheduler looks at an evaluation; its plan may be committed on another state.
    pub(crate) fn schedule(&mut self) {
        let Some(eval) = self.due_eval() else {
            return;
        };
        let snapshot = self.log.state.snapshot();
        let seed = self.log.digest.with("schedule").seed();
        let mut scratch = Scratch::new();
        let decision = schedule(&snapshot, &eval, seed, &mut scratch, self.log.clock);
        let mut plan =
            plan::check(&snapshot, &BTreeMap::new(), decision.plan, Commit::Partial).plan;
        self.bend_plan(&eval.job_key(), &mut plan);
        self.decide(Command::PlanApply(Box::new(plan)));
    }

    fn other_reports_of(&self) -> Vec<(AllocId, ClientStatus)> {
        let allocs = self.log.state.tables().allocs_on_node(OTHER);
        let owed = allocs.filter_map(|alloc| {
            let status = if alloc.server_terminal() {
                ClientStatus::Complete
            } else {
                ClientStatus::Running
            };
            (!alloc.client_terminal() && alloc.client_status != status)
                .then_some((alloc.id, status))
        });
        owed.collect()
    }

    pub(crate) fn other_owes(&self) -> bool {
        !self.other_reports_of().is_empty()
    }

    /// The other node says what it runs; it is never late or wrong.
    pub(crate) fn other_reports(&mut self) {
        let revision = self.log.committed();
        let reports = self.other_reports_of().into_iter().map(|(id, status)| {
            let mut report = AllocReport::new(id, revision, status);
            let alloc = self.log.state.tables().alloc(id);
            report.desired_version = alloc.map_or(0, |alloc| alloc.alloc_modify_index);
            report
        });
        let reports = reports.collect();
        let epoch = self.log.state.tables().node(OTHER);
        let batch = NodeBatch {
            node: OTHER,
            epoch: epoch.map_or(SessionEpoch::NONE, |it| it.session.epoch),
            class: UpdateClass::Urgent,
            seq: revision,
            reports,
        };
        let batches = vec![batch];
        let digest = self.log.digest.with("other");
        self.append(Command::AllocUpdates { batches }, digest);
    }

    pub(crate) fn may_do(&self, op: Op) -> bool {
        op == Op::Stop || self.node_status() == Some(NodeStatus::Ready)
    }

    pub(crate) fn operate(&mut self, op: Op) {
        self.op = None;
        let jobs = jobs();
        match op {
            Op::Register => {
                for job in &jobs {
                    self.register(job);
                }
            }
            Op::Stop => {
                let eval = self.eval(&jobs[0], EvalTrigger::JobDeregister);
                let command = Command::JobDeregister(JobDeregister {
                    key: jobs[0].key(),
                    purge: Purge::Keep,
                    eval: Some(eval),
                    no_shutdown_delay: false,
                });
                let digest = self.log.digest.with("stop");
                self.append(command, digest);
            }
        }
    }

    pub(crate) fn register(&mut self, job: &Arc<Job>) {
        let eval = self.eval(job, EvalTrigger::JobRegister);
        let command = Command::JobRegister(JobRegister {
            job: Arc::clone(job),
            spec: job.spec_hash(),
            eval: Some(eval),
            enforce_index: None,
            submission: None,
        });
        let digest = self.log.digest.with("register");
        self.append(command, digest);
    }

    fn eval(&self, job: &Job, trigger: EvalTrigger) -> Evaluation {
        let id = EvalId::from_u128(u128::from_le_bytes(self.log.digest.with("eval").seed()));
        let now = self.log.clock;
        Evaluation::new(id, &job.key(), job.job_type, job.priority, trigger, now)
    }
}
