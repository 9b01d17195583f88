//! A world with a scheduler: decides an evaluation and commits the plan, as the leader's loop
//! would.

use std::collections::BTreeMap;

use controlplane_scheduler::{Decision, Scratch, schedule};
use controlplane_state::command::GcCollect;
use controlplane_state::{Command, Outcome};
use hack_testkit::{World, nodes};
use protocol_model::{
    AllocId, Allocation, ClientStatus, Deployment, EvalStatus, Evaluation, JobKey, NodeId,
};

pub(crate) struct Scene {
    pub(crate) world: World,
    scratch: Scratch,
    seed: u8,
}

impl Scene {
    /// A cluster of that many equal nodes.
    pub(crate) fn new(node_count: u8) -> Self {
        let mut world = World::new();
        for number in 1..=node_count {
            world.add_node(nodes::node(number));
        }
        Self {
            world,
            scratch: Scratch::new(),
            seed: 0,
        }
    }

    /// Decides without committing.
    pub(crate) fn decide(&mut self, eval: &Evaluation) -> Decision {
        self.seed += 1;
        let snapshot = self.world.snapshot();
        schedule(
            &snapshot,
            eval,
            [self.seed; 16],
            &mut self.scratch,
            self.world.now(),
        )
    }

    /// Decides and commits. The plan check's promise is tested with it: a plan that was computed on
    /// a state holds on that state.
    pub(crate) fn run(&mut self, eval: &Evaluation) -> Decision {
        let decision = self.decide(eval);
        let command = Command::PlanApply(Box::new(decision.plan.clone()));
        let outcome = self.world.apply(command).outcome;
        assert_eq!(
            outcome,
            Outcome::PlanApplied,
            "a plan was refused by the very state that it was made from"
        );
        decision
    }

    /// Carries out every pending evaluation of a job, until there is none that is due.
    pub(crate) fn settle(&mut self, key: &JobKey) {
        for _ in 0..20 {
            let now = self.world.now();
            let due = self
                .world
                .snapshot()
                .evals_by_job(key)
                .find(|eval| {
                    eval.status == EvalStatus::Pending && eval.wait_until.is_none_or(|at| at <= now)
                })
                .map(|eval| Evaluation::clone(eval));
            let Some(eval) = due else { return };
            self.run(&eval);
        }
        panic!("evaluations of {key} never end");
    }

    /// As the broker where several of a job's evaluations are due: the newest is carried out, and
    /// the others, which it makes needless, are written off after it.
    pub(crate) fn run_newest(&mut self, key: &JobKey) {
        let now = self.world.now();
        let snapshot = self.world.snapshot();
        let due = snapshot.evals_by_job(key).filter(|eval| {
            eval.status == EvalStatus::Pending && eval.wait_until.is_none_or(|at| at <= now)
        });
        let mut due: Vec<Evaluation> = due.map(|eval| Evaluation::clone(eval)).collect();
        due.sort_by_key(|eval| eval.create_index);
        let newest = due.pop().expect("one is due");
        assert!(!due.is_empty(), "it makes none needless");
        self.run(&newest);
        for eval in &mut due {
            eval.status = EvalStatus::Cancelled;
        }
        self.world.expect(Command::EvalsUpsert { evals: due });
    }

    /// Allocations that neither side is done with, by name.
    pub(crate) fn live(&self, key: &JobKey) -> BTreeMap<String, Allocation> {
        let snapshot = self.world.snapshot();
        let live = snapshot
            .allocs_by_job(key)
            .filter(|alloc| !alloc.terminal());
        live.map(|alloc| (alloc.name.clone(), Allocation::clone(alloc)))
            .collect()
    }

    pub(crate) fn live_count(&self, key: &JobKey) -> usize {
        let snapshot = self.world.snapshot();
        snapshot
            .allocs_by_job(key)
            .filter(|alloc| !alloc.terminal())
            .count()
    }

    /// Every live allocation reports that it runs.
    pub(crate) fn start_all(&mut self, key: &JobKey) {
        for alloc in self.live(key).into_values() {
            if alloc.client_status == ClientStatus::Pending {
                self.world.report(alloc.id, ClientStatus::Running);
            }
        }
    }

    /// Every live allocation of the newest version that is not judged yet is healthy from now on.
    pub(crate) fn make_healthy(&mut self, key: &JobKey) {
        let version = self.world.snapshot().job(key).map(|job| job.version);
        for alloc in self.live(key).into_values() {
            let judged = alloc
                .deployment_status
                .is_some_and(|status| status.healthy.is_some());
            if Some(alloc.job_version) == version && !judged {
                self.world.report_health(alloc.id, true);
            }
        }
    }

    /// All that may be collected is, as long after everything that its age does not matter.
    pub(crate) fn collect(&mut self) {
        let snapshot = self.world.snapshot();
        let names = GcCollect {
            evals: snapshot.evals().map(|eval| eval.id).collect(),
            allocs: snapshot.allocs().map(|alloc| alloc.id).collect(),
            jobs: snapshot.jobs().map(|(key, _)| key.clone()).collect(),
            deployments: snapshot.deployments().map(|it| it.id).collect(),
            nodes: snapshot.nodes().map(|record| record.node.id).collect(),
        };
        self.world.expect(Command::GcCollect(names));
    }

    /// A job's newest deployment.
    pub(crate) fn deployment(&self, key: &JobKey) -> Option<Deployment> {
        let snapshot = self.world.snapshot();
        snapshot
            .latest_deployment(key)
            .map(|deployment| Deployment::clone(deployment))
    }

    pub(crate) fn node_of(&self, alloc: AllocId) -> NodeId {
        self.world
            .snapshot()
            .alloc(alloc)
            .expect("the allocation exists")
            .node_id
    }
}

pub(crate) fn key(name: &str) -> JobKey {
    JobKey::new("default", name)
}
