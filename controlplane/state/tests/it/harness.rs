//! A state, the index and time it is at, and short ways to say what happens to it. Every command is
//! followed by a check of all invariants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{
    AllocChange, Change, DaemonLife, JobDeregister, JobRegister, JoinVerdict, NodeBatch, NodeHello,
    NodeSynced, PlanApply, Purge,
};
use controlplane_state::{
    Applied, BatchResult, ClientTokens, Command, Digest, Outcome, SessionEpoch, Signal, Stamped,
    State, Tables, UpdateClass, Welcome, invariants,
};
use hack_testkit::allocs;
use protocol_model::{
    AllocId, AllocatedCpuResources, AllocatedMemoryResources, AllocatedResources,
    AllocatedTaskResources, Allocation, ClientStatus, EvalId, EvalStatus, EvalTrigger, Evaluation,
    Incarnation, Job, JobKey, JobType, Node, NodeId, NodeStatus, ReschedulePolicy, TaskGroup,
    UnixNanos,
};
use protocol_wire::report::AllocReport;
use sha2::{Digest as _, Sha256};

pub(crate) const SECOND: i64 = 1_000_000_000;

pub(crate) struct Harness {
    pub(crate) state: State,
    pub(crate) index: u64,
    pub(crate) now: UnixNanos,
    pub(crate) log: Vec<(u64, Stamped)>,
    /// The checkpoint of the restore that began last.
    pub(crate) saved: Vec<u8>,
    ids: u128,
}

impl Harness {
    /// A cluster that was just begun.
    pub(crate) fn new() -> Self {
        let mut harness = Self::empty();
        let incarnation = Incarnation::from_u128(0xc1);
        assert_eq!(
            harness.apply(Command::ClusterInit { incarnation }).outcome,
            Outcome::Done
        );
        harness
    }

    /// A state before its first entry.
    pub(crate) fn empty() -> Self {
        let now = UnixNanos(1_700_000_000 * SECOND);
        Self {
            state: State::new(),
            index: 0,
            now,
            log: Vec::new(),
            saved: Vec::new(),
            ids: 0,
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        self.state.tables()
    }

    /// Carries out a command one index and one second later.
    pub(crate) fn apply(&mut self, command: Command) -> Applied {
        self.index += 1;
        self.now = self.now.saturating_add(Duration::from_secs(1));
        let seed = u128::from(self.index).to_be_bytes();
        let stamped = Stamped {
            now: self.now,
            seed,
            command,
        };
        self.log.push((self.index, stamped.clone()));
        let before = self.state.snapshot();
        let applied = self.state.apply(self.index, stamped);
        let violations = invariants::check(self.tables());
        assert!(
            violations.is_empty(),
            "{violations:#?}\nafter {:#?}",
            self.log.last()
        );
        if matches!(applied.outcome, Outcome::Refused(_)) {
            assert!(applied.signals.is_empty());
            assert!(
                same_but_for_the_log(&before, self.tables()),
                "{:?}",
                applied.outcome
            );
        }
        applied
    }

    pub(crate) fn done(&mut self, command: Command) -> Applied {
        let applied = self.apply(command);
        assert!(
            !matches!(applied.outcome, Outcome::Refused(_)),
            "{:?}",
            applied.outcome
        );
        applied
    }

    pub(crate) fn draw(&mut self) -> u128 {
        self.ids += 1;
        0xabcd_0000_0000_0000_0000_0000_0000_0000 | self.ids
    }

    pub(crate) fn pass(&mut self, duration: Duration) {
        self.now = self.now.saturating_add(duration);
    }

    // --- restores ---

    pub(crate) fn checkpoint(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let snapshot = self.state.snapshot();
        snapshot.write_checkpoint(&mut bytes).expect("a checkpoint");
        bytes
    }

    /// The first command of a restore of the state as it is now.
    pub(crate) fn begin_of_restore(&mut self, incarnation: Incarnation) -> Command {
        // What is on its way is kept: a second beginning is refused.
        let bytes = self.checkpoint();
        if self.tables().pending_restore().is_none() {
            self.saved.clone_from(&bytes);
        }
        begin_of_restore(incarnation, &bytes)
    }

    /// Restores a checkpoint, in pieces of `piece` bytes.
    pub(crate) fn restore(
        &mut self,
        checkpoint: &[u8],
        incarnation: Incarnation,
        piece: usize,
    ) -> Applied {
        self.done(begin_of_restore(incarnation, checkpoint));
        let mut offset = 0;
        for bytes in checkpoint.chunks(piece) {
            self.done(Command::RestoreChunk {
                incarnation,
                offset,
                bytes: bytes.to_vec().into(),
            });
            offset += bytes.len() as u64;
        }
        self.apply(Command::RestoreCommit { incarnation })
    }

    // --- jobs ---

    pub(crate) fn eval_of(&mut self, job: &Job) -> Evaluation {
        let id = EvalId::from_u128(self.draw());
        let trigger = EvalTrigger::JobRegister;
        Evaluation::new(
            id,
            &job.key(),
            job.job_type,
            job.priority,
            trigger,
            self.now,
        )
    }

    pub(crate) fn register(&mut self, job: &Job) -> EvalId {
        let eval = self.eval_of(job);
        let id = eval.id;
        let spec = job.spec_hash();
        let job = Arc::new(job.clone());
        self.done(Command::JobRegister(JobRegister {
            job,
            spec,
            eval: Some(eval),
            enforce_index: None,
            submission: None,
        }));
        id
    }

    pub(crate) fn deregister(&mut self, key: &JobKey, purge: Purge) -> Applied {
        self.done(Command::JobDeregister(JobDeregister {
            key: key.clone(),
            purge,
            eval: None,
            no_shutdown_delay: false,
        }))
    }

    pub(crate) fn finished(&self, id: EvalId) -> Evaluation {
        let mut eval = Evaluation::clone(self.tables().eval(id).expect("the evaluation"));
        eval.status = EvalStatus::Complete;
        eval
    }

    // --- allocations ---

    /// An allocation of the job as it is registered, on `node`, taking `cpu` MHz and `cpu` MiB.
    pub(crate) fn alloc_for(&mut self, key: &JobKey, node: NodeId, cpu: i64) -> Allocation {
        let id = AllocId::from_u128(self.draw());
        Allocation {
            id,
            allocated_resources: resources(cpu).into(),
            ..allocs::allocation(self.tables(), key, node)
        }
    }

    pub(crate) fn plan(&mut self, plan: PlanApply) -> Applied {
        self.apply(Command::PlanApply(Box::new(plan)))
    }

    /// Places one allocation and says which.
    pub(crate) fn place(&mut self, key: &JobKey, node: NodeId) -> AllocId {
        let alloc = self.alloc_for(key, node, 100);
        let id = alloc.id;
        let plan = PlanApply {
            placed: vec![Arc::new(alloc)],
            ..PlanApply::default()
        };
        assert_eq!(self.plan(plan).outcome, Outcome::PlanApplied);
        id
    }

    pub(crate) fn change(&mut self, id: AllocId, change: Change) -> Applied {
        let changed = vec![AllocChange { id, change }];
        self.plan(PlanApply {
            changed,
            ..PlanApply::default()
        })
    }

    pub(crate) fn stop(&mut self, id: AllocId) {
        let change = Change::Stop {
            description: "alloc not needed".to_owned(),
            client_status: None,
            followup_eval: None,
        };
        assert_eq!(self.change(id, change).outcome, Outcome::PlanApplied);
    }

    pub(crate) fn alloc(&self, id: AllocId) -> Allocation {
        Allocation::clone(self.tables().alloc(id).expect("the allocation"))
    }

    // --- nodes ---

    pub(crate) fn hello(&mut self, hello: NodeHello) -> Applied {
        self.apply(Command::NodeHello(Box::new(hello)))
    }

    pub(crate) fn welcome(&mut self, hello: NodeHello) -> Welcome {
        match self.hello(hello).outcome {
            Outcome::Welcome(welcome) => welcome,
            other => panic!("no welcome: {other:?}"),
        }
    }

    /// A node that joins, and reports that it runs nothing.
    pub(crate) fn join(&mut self, number: u128) -> NodeId {
        let hello = registration(number);
        let node = hello.node;
        let epoch = self.welcome(hello).epoch;
        self.sync(node, epoch, Vec::new());
        node
    }

    pub(crate) fn epoch(&self, node: NodeId) -> SessionEpoch {
        self.tables().node(node).expect("the node").session.epoch
    }

    pub(crate) fn status(&self, node: NodeId) -> NodeStatus {
        self.tables().node(node).expect("the node").node.status
    }

    pub(crate) fn sync(
        &mut self,
        node: NodeId,
        epoch: SessionEpoch,
        changed: Vec<AllocReport>,
    ) -> Applied {
        let synced = NodeSynced {
            node,
            epoch,
            watch_index: self.index,
            changed,
            unchanged: Vec::new(),
            facts: None,
        };
        self.apply(Command::NodeSynced(Box::new(synced)))
    }

    /// A complete report in which nothing of these allocations is news.
    pub(crate) fn sync_unchanged(
        &mut self,
        node: NodeId,
        epoch: SessionEpoch,
        allocs: Vec<AllocId>,
    ) -> Applied {
        let synced = NodeSynced {
            node,
            epoch,
            watch_index: self.index,
            changed: Vec::new(),
            unchanged: allocs,
            facts: None,
        };
        self.done(Command::NodeSynced(Box::new(synced)))
    }

    pub(crate) fn silent(&mut self, node: NodeId) -> Applied {
        let epoch = self.epoch(node);
        self.apply(Command::HeartbeatMissed {
            nodes: vec![(node, epoch)],
        })
    }

    /// The node's next urgent batch.
    pub(crate) fn report(&mut self, node: NodeId, reports: Vec<AllocReport>) -> BatchResult {
        let session = self.tables().node(node).expect("the node").session;
        let batch = NodeBatch {
            node,
            epoch: session.epoch,
            class: UpdateClass::Urgent,
            seq: session.applied_urgent_seq + 1,
            reports,
        };
        self.batch(batch)
    }

    pub(crate) fn batch(&mut self, batch: NodeBatch) -> BatchResult {
        match self
            .apply(Command::AllocUpdates {
                batches: vec![batch],
            })
            .outcome
        {
            Outcome::Updates(mut results) => results.remove(0),
            other => panic!("no results: {other:?}"),
        }
    }

    /// The job's evaluations that wait for a scheduler, by trigger.
    pub(crate) fn pending(&self, key: &JobKey) -> Vec<EvalTrigger> {
        let mut triggers: Vec<EvalTrigger> = self
            .tables()
            .evals_by_job(key)
            .filter(|eval| eval.status == EvalStatus::Pending)
            .map(|eval| eval.triggered_by)
            .collect();
        triggers.sort();
        triggers
    }
}

pub(crate) fn begin_of_restore(incarnation: Incarnation, checkpoint: &[u8]) -> Command {
    Command::RestoreBegin {
        incarnation,
        bytes: checkpoint.len() as u64,
        sha256: Digest(Sha256::digest(checkpoint).into()),
        client_tokens: ClientTokens::Restored,
    }
}

fn same_but_for_the_log(before: &Tables, after: &Tables) -> bool {
    !matches!(
        invariants::difference(before, after),
        Some(name) if name != "index" && name != "time"
    ) && before.table_index(&controlplane_state::Table::ALL)
        == after.table_index(&controlplane_state::Table::ALL)
}

pub(crate) fn resources(cpu: i64) -> AllocatedResources {
    let task = AllocatedTaskResources {
        cpu: AllocatedCpuResources {
            cpu_shares: cpu,
            reserved_cores: Vec::new(),
        },
        memory: AllocatedMemoryResources {
            memory_mb: cpu,
            memory_max_mb: 0,
        },
        ..AllocatedTaskResources::default()
    };
    AllocatedResources {
        tasks: BTreeMap::from([("main".to_owned(), task)]),
        ..AllocatedResources::default()
    }
}

/// A job with one group.
pub(crate) fn job(id: &str, job_type: JobType) -> Job {
    let group = TaskGroup {
        name: "group".to_owned(),
        count: Some(2),
        reschedule_policy: Some(ReschedulePolicy {
            unlimited: Some(true),
            ..ReschedulePolicy::default()
        }),
        ..TaskGroup::default()
    };
    Job {
        id: id.to_owned(),
        name: id.to_owned(),
        namespace: "default".to_owned(),
        job_type,
        priority: 50,
        datacenters: vec!["dc*".to_owned()],
        node_pool: "default".to_owned(),
        task_groups: vec![group],
        ..Job::default()
    }
}

/// The same with a disconnect window.
pub(crate) fn tolerant_job(id: &str, window: Duration) -> Job {
    let mut job = job(id, JobType::Service);
    job.task_groups[0].max_client_disconnect = Some(window);
    job
}

pub(crate) fn node_id(number: u128) -> NodeId {
    NodeId::from_u128(0x9000_0000_0000_0000_0000_0000_0000_0000 | number)
}

/// What a node of 1000 MHz and 1000 MiB says about itself.
pub(crate) fn facts(number: u128) -> Node {
    let mut node = Node::new(node_id(number), format!("node-{number}"), "dc1");
    node.node_resources.cpu.cpu_shares = 1000;
    node.node_resources.memory.memory_mb = 1000;
    node.node_resources.disk.disk_mb = 1000;
    node.computed_class = "v1:plain".to_owned();
    node
}

/// A node's first knock.
pub(crate) fn registration(number: u128) -> NodeHello {
    NodeHello {
        node: node_id(number),
        secret_hash: Digest([7; 32]),
        nonce: [1; 16],
        last_epoch: SessionEpoch::NONE,
        boot_id: [3; 16],
        daemon: DaemonLife::Restarted,
        facts: Some(Arc::new(facts(number))),
        join: JoinVerdict::Allowed,
    }
}

/// A known node's knock with a nonce of its own.
pub(crate) fn knock(number: u128, nonce: u8, last_epoch: SessionEpoch) -> NodeHello {
    NodeHello {
        nonce: [nonce; 16],
        last_epoch,
        facts: None,
        daemon: DaemonLife::Continued,
        join: JoinVerdict::Denied,
        ..registration(number)
    }
}

pub(crate) fn says(id: AllocId, revision: u64, status: ClientStatus) -> AllocReport {
    AllocReport::new(id, revision, status)
}

pub(crate) fn has_signal(applied: &Applied, wanted: impl Fn(&Signal) -> bool) -> bool {
    applied.signals.iter().any(wanted)
}
