//! How long decisions take: `cargo run --release -p controlplane-scheduler --example scale`.
//!
//! Prints a line per case: the median of several runs of [`schedule`] alone, on the same snapshot,
//! the log and the plan check aside; and the mean of the processor time that they took, which other
//! load on the host does not change. Sizes may be given: nodes, allocations.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures the pure crate from outside: clocks, arguments and what the kernel counts"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use controlplane_scheduler::{Scratch, schedule};
use controlplane_state::command::{
    DaemonLife, JobRegister, JoinVerdict, NodeHello, NodeSynced, PlanApply,
};
use controlplane_state::{Command, Digest, Outcome, SessionEpoch, Stamped, State};
use hack_testkit::{jobs, nodes};
use protocol_model::{
    Affinity, Constraint, EvalId, EvalTrigger, Evaluation, Incarnation, Job, JobType, NodeId,
    Spread, UnixNanos,
};

/// A state that is not checked after each command, as the tests' one is.
struct Cluster {
    state: State,
    index: u64,
}

const NOW: UnixNanos = UnixNanos(1_700_000_000_000_000_000);

impl Cluster {
    fn new(node_count: u32) -> Self {
        let state = State::new();
        let mut cluster = Self { state, index: 0 };
        let incarnation = Incarnation::from_u128(1);
        cluster.apply(Command::ClusterInit { incarnation });
        for number in 0..node_count {
            cluster.join(number);
        }
        cluster
    }

    fn apply(&mut self, command: Command) -> Outcome {
        self.index += 1;
        let stamped = Stamped {
            now: NOW,
            seed: u128::from(self.index).to_be_bytes(),
            command,
        };
        match self.state.apply(self.index, stamped).outcome {
            Outcome::Refused(refusal) => panic!("refused: {refusal}"),
            outcome => outcome,
        }
    }

    /// Twenty racks, each a class.
    fn join(&mut self, number: u32) {
        let mut node = nodes::node(1);
        node.id = NodeId::from_u128(0x4000_8000_0000_0000_0000 + u128::from(number));
        node.name = format!("node-{number}");
        let rack = format!("r{}", number % 20);
        node.meta.insert("rack".to_owned(), rack.clone());
        // Five of them, and a class has one zone.
        node.meta
            .insert("zone".to_owned(), format!("z{}", number % 5));
        node.computed_class = rack;
        let id = node.id;
        let hello = NodeHello {
            node: id,
            secret_hash: Digest([7; 32]),
            nonce: u128::from(self.index + 1).to_be_bytes(),
            last_epoch: SessionEpoch::NONE,
            boot_id: [1; 16],
            daemon: DaemonLife::Restarted,
            facts: Some(Arc::new(node)),
            join: JoinVerdict::Allowed,
        };
        let Outcome::Welcome(welcome) = self.apply(Command::NodeHello(Box::new(hello))) else {
            panic!("a hello was not welcome");
        };
        self.apply(Command::NodeSynced(Box::new(NodeSynced {
            node: id,
            epoch: welcome.epoch,
            watch_index: self.index,
            changed: Vec::new(),
            unchanged: Vec::new(),
            facts: None,
        })));
    }

    fn register(&mut self, mut job: Job) -> Evaluation {
        job.canonicalize();
        let id = EvalId::from_u128(u128::from(self.index) + 1);
        let (key, priority) = (job.key(), job.priority);
        let trigger = EvalTrigger::JobRegister;
        let eval = Evaluation::new(id, &key, job.job_type, priority, trigger, NOW);
        self.apply(Command::JobRegister(JobRegister {
            spec: job.spec_hash(),
            job: Arc::new(job),
            eval: Some(eval),
            enforce_index: None,
            submission: None,
        }));
        let stored = self.state.snapshot().eval(id).cloned();
        Evaluation::clone(&stored.expect("it was stored"))
    }

    /// Decides `runs` times, prints how long that took, and commits the last decision.
    fn decide(&mut self, what: &str, eval: &Evaluation, runs: usize) {
        let mut scratch = Scratch::new();
        let mut took: Vec<Duration> = Vec::with_capacity(runs);
        let mut last: Option<PlanApply> = None;
        let seed = u128::from(self.index).to_be_bytes();
        let cpu_before = cpu_time();
        for _ in 0..runs {
            let begun = Instant::now();
            let snapshot = self.state.snapshot();
            let decision = schedule(&snapshot, eval, seed, &mut scratch, NOW);
            took.push(begun.elapsed());
            last = Some(decision.plan);
        }
        let cpu = cpu_time().saturating_sub(cpu_before);
        took.sort();
        let plan = last.expect("it ran");
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let runs_as_float = f64::from(u32::try_from(runs).unwrap_or(u32::MAX));
        println!(
            "{what:<42} {:>6} placed {:>12.1} us median {:>12.1} us of processor",
            plan.placed.len(),
            micros(took[runs / 2]),
            micros(cpu) / runs_as_float,
        );
        self.apply(Command::PlanApply(Box::new(plan)));
    }
}

/// What this thread had of a processor so far, to a few milliseconds; nothing where the kernel does
/// not count it.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().map(str::parse::<u64>);
    Duration::from_nanos(nanos.and_then(Result::ok).unwrap_or(0))
}

fn service(name: &str, count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, name, count);
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    let resources = resources.expect("the fixture has resources");
    (resources.cpu, resources.memory_mb) = (Some(20), Some(20));
    job
}

fn distinct(mut job: Job, property: &str, count: u32) -> Job {
    job.constraints.push(Constraint {
        l_target: property.to_owned(),
        operand: "distinct_property".to_owned(),
        r_target: count.to_string(),
    });
    job
}

/// Three constraints, all of which every node meets, and an affinity.
fn three_constraints(mut job: Job) -> Job {
    for (left, operand, right) in [
        ("${attr.kernel.name}", "=", "linux"),
        ("${meta.rack}", "regexp", "^r[0-9]+$"),
        ("${node.datacenter}", "set_contains_any", "dc1,dc2"),
    ] {
        job.constraints.push(Constraint {
            l_target: left.to_owned(),
            operand: operand.to_owned(),
            r_target: right.to_owned(),
        });
    }
    job.affinities.push(Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "r1".to_owned(),
        operand: "=".to_owned(),
        weight: Some(50),
    });
    job
}

fn spread(mut job: Job, property: &str) -> Job {
    job.spreads.push(Spread {
        attribute: property.to_owned(),
        ..Spread::default()
    });
    job
}

fn main() {
    let mut sizes = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let mut size = |otherwise| sizes.next().and_then(Result::ok).unwrap_or(otherwise);
    let (node_count, alloc_count) = (size(5000), size(50_000));
    let mut small = Cluster::new(1);
    let eval = small.register(service("one", 1));
    small.decide("count 1, 1 node", &eval, 20_001);
    let eval = small.register(service("one", 1));
    small.decide("count 1, 1 node, nothing to do", &eval, 20_001);

    let mut large = Cluster::new(node_count);
    let eval = large.register(service("one", 1));
    large.decide(&format!("count 1, {node_count} nodes"), &eval, 101);
    let mut preferring = service("preferring", alloc_count);
    preferring.affinities.push(Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "r1".to_owned(),
        operand: "=".to_owned(),
        weight: Some(50),
    });
    preferring.constraints.push(Constraint {
        l_target: "${attr.kernel.name}".to_owned(),
        operand: "=".to_owned(),
        r_target: "linux".to_owned(),
    });
    let eval = large.register(preferring);
    let what = format!("count {alloc_count}, {node_count} nodes, preferring");
    large.decide(&what, &eval, 3);
    let eval = large.register(three_constraints(service("narrowed", alloc_count)));
    let what = format!("count {alloc_count}, three constraints, affinity");
    large.decide(&what, &eval, 3);
    for (name, property) in [("zones", "${meta.zone}"), ("nodes", "${node.unique.name}")] {
        let eval = large.register(spread(service(name, alloc_count), property));
        large.decide(
            &format!("count {alloc_count}, spread over {name}"),
            &eval,
            3,
        );
    }
    let eval = large.register(distinct(
        service("apart", node_count),
        "${node.unique.name}",
        1,
    ));
    large.decide(&format!("one on each of {node_count} nodes"), &eval, 3);
    let of_rack = distinct(service("racks", 1000), "${meta.rack}", 50);
    let eval = large.register(of_rack);
    large.decide("50 in each of 20 racks", &eval, 3);
    let mut agent = service("agent", 1);
    agent.job_type = JobType::System;
    let eval = large.register(agent);
    large.decide(&format!("system job on {node_count} nodes"), &eval, 3);
}
