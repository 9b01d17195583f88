//! A cluster's state, changed only through its log.

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{
    DaemonLife, DrainMarks, JobDeregister, JobRegister, JoinVerdict, NodeBatch, NodeDrainSet,
    NodeHello, NodeSynced, Purge,
};
use controlplane_state::{
    Applied, Command, Digest, Outcome, SessionEpoch, Snapshot, Stamped, State, UpdateClass,
    invariants,
};
use protocol_model::{
    AllocId, ClientStatus, DesiredTransition, DrainSpec, Eligibility, EvalId, EvalStatus,
    EvalTrigger, Evaluation, Incarnation, Job, JobKey, Node, NodeId, TaskRunState, TaskState,
    UnixNanos,
};
use protocol_wire::report::{AllocReport, ReportedHealth};

/// See the top of this file.
#[derive(Debug)]
pub struct World {
    state: State,
    index: u64,
    now: UnixNanos,
    ids: u64,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// An initialized cluster without nodes.
    pub fn new() -> Self {
        let mut world = Self {
            state: State::new(),
            index: 0,
            now: UnixNanos(1_700_000_000_000_000_000),
            ids: 0,
        };
        world.apply(Command::ClusterInit {
            incarnation: Incarnation::from_u128(1),
        });
        world
    }

    /// The state as it is now.
    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// The time that the next command is stamped with.
    pub fn now(&self) -> UnixNanos {
        self.now
    }

    /// Lets time pass.
    pub fn wait(&mut self, duration: Duration) {
        self.now = self.now.saturating_add(duration);
    }

    /// Applies a command; every invariant of the state must hold afterwards.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn apply(&mut self, command: Command) -> Applied {
        self.index += 1;
        self.now = self.now.saturating_add(Duration::from_millis(1));
        let seed = u128::from(self.index).to_be_bytes();
        let applied = self.state.apply(
            self.index,
            Stamped {
                now: self.now,
                seed,
                command,
            },
        );
        let broken = invariants::check(self.state.tables());
        assert!(
            broken.is_empty(),
            "after log entry {}: {broken:?}",
            self.index
        );
        applied
    }

    /// Applies a command that must not be refused.
    ///
    /// # Panics
    /// When it is.
    pub fn expect(&mut self, command: Command) -> Outcome {
        match self.apply(command).outcome {
            Outcome::Refused(refusal) => panic!("refused: {refusal}"),
            outcome => outcome,
        }
    }

    /// A node joins and becomes ready.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        let id = node.id;
        let epoch = self.greet(node);
        self.sync(id, epoch);
        id
    }

    /// A node says hello; it owes its report then.
    pub fn greet(&mut self, node: Node) -> SessionEpoch {
        let hello = NodeHello {
            node: node.id,
            secret_hash: Digest([7; 32]),
            nonce: u128::from(self.index + 1).to_be_bytes(),
            last_epoch: SessionEpoch::NONE,
            boot_id: [1; 16],
            daemon: DaemonLife::Restarted,
            facts: Some(Arc::new(node)),
            join: JoinVerdict::Allowed,
        };
        match self.expect(Command::NodeHello(Box::new(hello))) {
            Outcome::Welcome(welcome) => welcome.epoch,
            other => panic!("a hello was answered with {other:?}"),
        }
    }

    /// A node reports that everything is as the state has it.
    pub fn sync(&mut self, node: NodeId, epoch: SessionEpoch) {
        let unchanged = self
            .snapshot()
            .allocs_on_node(node)
            .map(|alloc| alloc.id)
            .collect::<Vec<_>>();
        self.expect(Command::NodeSynced(Box::new(NodeSynced {
            node,
            epoch,
            watch_index: self.index,
            changed: Vec::new(),
            unchanged,
            facts: None,
        })));
    }

    /// A node's heartbeats stop.
    pub fn silence(&mut self, node: NodeId) {
        let epoch = self.epoch(node);
        self.expect(Command::HeartbeatMissed {
            nodes: vec![(node, epoch)],
        });
    }

    /// The session of a node.
    pub fn epoch(&self, node: NodeId) -> SessionEpoch {
        self.snapshot()
            .node(node)
            .map_or(SessionEpoch::NONE, |record| record.session.epoch)
    }

    /// Registers a job with its evaluation, and answers the evaluation.
    pub fn register(&mut self, job: Job) -> Evaluation {
        let eval = self.eval(&job.key(), &job, EvalTrigger::JobRegister);
        let spec = job.spec_hash();
        self.expect(Command::JobRegister(JobRegister {
            job: Arc::new(job),
            spec,
            eval: Some(eval.clone()),
            enforce_index: None,
            submission: None,
        }));
        self.stored(eval.id)
    }

    /// Stops a job, and answers the evaluation.
    pub fn deregister(&mut self, key: &JobKey) -> Evaluation {
        let job = Arc::clone(self.snapshot().job(key).expect("the job is registered"));
        let eval = self.eval(key, &job, EvalTrigger::JobDeregister);
        self.expect(Command::JobDeregister(JobDeregister {
            key: key.clone(),
            purge: Purge::Keep,
            eval: Some(eval.clone()),
            no_shutdown_delay: false,
        }));
        self.stored(eval.id)
    }

    /// An operator stops an allocation (as the API does it).
    pub fn stop_alloc(&mut self, alloc: AllocId) {
        let job = self.snapshot().alloc(alloc).map(|it| it.job_key());
        let key = job.expect("the allocation is known");
        let job = Arc::clone(self.snapshot().job(&key).expect("its job is registered"));
        let eval = self.eval(&key, &job, EvalTrigger::AllocStop);
        let wish = DesiredTransition {
            migrate: Some(true),
            ..DesiredTransition::default()
        };
        self.expect(Command::AllocsStop {
            allocs: vec![(alloc, wish)],
            evals: vec![eval],
        });
    }

    /// An operator drains a node, in so many nanoseconds (0 = no deadline, negative = now).
    pub fn drain(&mut self, node: NodeId, deadline: i64) {
        let spec = DrainSpec {
            deadline,
            ignore_system_jobs: false,
        };
        self.set_drain(node, Some(spec), Eligibility::Ineligible);
    }

    /// An operator begins, changes or ends a node's drain (as the API does it).
    pub fn set_drain(&mut self, node: NodeId, drain: Option<DrainSpec>, after: Eligibility) {
        self.expect(Command::NodeDrainSet(NodeDrainSet {
            node,
            drain,
            eligibility_after: after,
            accessor_id: String::new(),
            meta: None,
        }));
    }

    /// Asks every allocation of a draining node to leave, as a leader would that never waits: the
    /// state takes those marks alone that hold.
    pub fn mark_drained(&mut self, node: NodeId) -> Outcome {
        let snapshot = self.snapshot();
        let record = snapshot.node(node).expect("the node is registered");
        let strategy = record.node.drain_strategy.expect("it drains");
        let on_node = snapshot.allocs_on_node(node);
        let marks = on_node.filter_map(|alloc| {
            let mark = snapshot.drain_mark(alloc, strategy, self.now)?;
            Some((alloc.id, mark))
        });
        let marks = DrainMarks {
            node,
            drain_index: record.drain_index,
            marks: marks.collect(),
        };
        self.expect(Command::AllocsMigrate { nodes: vec![marks] })
    }

    /// The newest pending evaluation of a job.
    pub fn pending(&self, key: &JobKey) -> Option<Evaluation> {
        self.snapshot()
            .evals_by_job(key)
            .filter(|eval| eval.status == EvalStatus::Pending)
            .max_by_key(|eval| eval.create_index)
            .map(|eval| Evaluation::clone(eval))
    }

    /// A node reports an allocation's status; its one task is in the state that goes with it.
    pub fn report(&mut self, alloc: AllocId, status: ClientStatus) -> Applied {
        self.report_with(alloc, status, None, None)
    }

    /// A node reports that an allocation runs, and since when its one task does.
    pub fn report_running_since(&mut self, alloc: AllocId, started_at: UnixNanos) {
        self.report_with(alloc, ClientStatus::Running, None, Some(started_at));
    }

    /// A node reports that an allocation runs and is healthy, or that it is not.
    pub fn report_health(&mut self, alloc: AllocId, healthy: bool) {
        let snapshot = self.snapshot();
        let stored = snapshot.alloc(alloc).expect("the allocation exists");
        let health = ReportedHealth {
            healthy,
            at: self.now,
            judged_for: stored.deployment_id.into(),
        };
        self.report_with(alloc, ClientStatus::Running, Some(health), None);
    }

    fn report_with(
        &mut self,
        alloc: AllocId,
        status: ClientStatus,
        health: Option<ReportedHealth>,
        started_at: Option<UnixNanos>,
    ) -> Applied {
        let stored = Arc::clone(self.snapshot().alloc(alloc).expect("the allocation exists"));
        let epoch = self.epoch(stored.node_id);
        self.ids += 1;
        let mut report = AllocReport::new(alloc, self.ids, status);
        report.health = health;
        let finished = status.is_terminal().then_some(self.now);
        let state = TaskState {
            state: match status {
                ClientStatus::Pending | ClientStatus::Unknown => TaskRunState::Pending,
                ClientStatus::Running => TaskRunState::Running,
                ClientStatus::Complete | ClientStatus::Failed | ClientStatus::Lost => {
                    TaskRunState::Dead
                }
            },
            failed: status == ClientStatus::Failed,
            started_at,
            finished_at: finished,
            ..TaskState::default()
        };
        report.task_states.insert("task".to_owned(), state);
        let batch = NodeBatch {
            node: stored.node_id,
            epoch,
            class: UpdateClass::Urgent,
            seq: self.ids,
            reports: vec![report],
        };
        let applied = self.apply(Command::AllocUpdates {
            batches: vec![batch],
        });
        let refused = matches!(applied.outcome, Outcome::Refused(_));
        assert!(!refused, "{:?}", applied.outcome);
        applied
    }

    fn eval(&mut self, key: &JobKey, job: &Job, trigger: EvalTrigger) -> Evaluation {
        self.ids += 1;
        let id = EvalId::from_u128(0xe0_0000_0000_4000_8000_0000_0000_0000 + u128::from(self.ids));
        Evaluation::new(id, key, job.job_type, job.priority, trigger, self.now)
    }

    fn stored(&self, id: EvalId) -> Evaluation {
        Evaluation::clone(self.snapshot().eval(id).expect("the evaluation was stored"))
    }
}
