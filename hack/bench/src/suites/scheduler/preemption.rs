//! Preemption in memory: every node is full of less important allocations, and a job is placed all
//! the same. [`schedule`] alone is measured, in one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use controlplane_scheduler::{Decision, Scratch, schedule};
use controlplane_state::command::{DaemonLife, JobRegister, JoinVerdict, NodeHello, NodeSynced};
use controlplane_state::{
    Command, Digest, Outcome, PreemptionConfig, SchedulerConfig, SessionEpoch,
};
use protocol_model::{
    DriverInfo, EvalId, EvalTrigger, Evaluation, Job, JobType, Node, NodeId, Resources, Task,
    TaskGroup,
};

use super::NAME;
use crate::row::Row;
use crate::suites::in_memory::InMemory;

/// Less important jobs, each with one allocation on every node. Together they fill it.
const LOW_JOBS: u32 = 10;
const NODE_MHZ: u32 = 4000;
const NODE_MIB: u32 = 8000;
/// Needs the room of three of their allocations.
const HIGH_MHZ: u32 = 1000;
/// Decisions about one placement, of which the median is printed.
const RUNS: usize = 11;
/// Placements of one larger decision.
const MANY: u32 = 100;

/// See the top of this file.
///
/// # Errors
/// If nodes are not filled, or a placement does not evict.
pub(super) fn measure(nodes: u32, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- in memory, {nodes} full nodes");
    let mut cluster = InMemory::new()?;
    for number in 0..nodes {
        join(&mut cluster, number)?;
    }
    let low_mhz = NODE_MHZ / LOW_JOBS;
    for number in 0..LOW_JOBS {
        let name = format!("low-{number}");
        let priority = 10 + i32::try_from(number)?;
        let eval = register(&mut cluster, &name, priority, nodes, low_mhz)?;
        let (decision, _) = decide(&cluster, &eval);
        must_place(&decision, nodes, 0)?;
        cluster.apply(Command::PlanApply(Box::new(decision.plan)))?;
    }
    let config = SchedulerConfig {
        preemption: PreemptionConfig {
            service: true,
            ..PreemptionConfig::default()
        },
        ..SchedulerConfig::default()
    };
    cluster.apply(Command::SchedulerConfigSet {
        config,
        enforce_index: None,
    })?;
    let figure = |what: &str| format!("preemption, {nodes} full nodes, in memory: {what}");
    let one = register(&mut cluster, "one", 80, 1, HIGH_MHZ)?;
    let mut samples = Vec::new();
    for _ in 0..RUNS {
        let (decision, took) = decide(&cluster, &one);
        must_place(&decision, 1, 1)?;
        samples.push(took);
    }
    samples.sort();
    let median = samples[RUNS / 2].as_secs_f64() * 1e3;
    rows.push(Row::new(NAME, figure("one placement, p50"), median, "ms"));
    let count = MANY.min(nodes);
    let many = register(&mut cluster, "many", 80, count, HIGH_MHZ)?;
    let (decision, took) = decide(&cluster, &many);
    must_place(&decision, count, count as usize)?;
    let rate = f64::from(count) / took.as_secs_f64();
    let figure = figure(&format!("placements of one decision about {count}"));
    rows.push(Row::new(NAME, figure, rate, "/s"));
    Ok(())
}

fn decide(cluster: &InMemory, eval: &Evaluation) -> (Decision, Duration) {
    let seed = u128::from(cluster.index()).to_be_bytes();
    let mut scratch = Scratch::new();
    let snapshot = cluster.snapshot();
    let begun = Instant::now();
    let decision = schedule(&snapshot, eval, seed, &mut scratch, cluster.now());
    (decision, begun.elapsed())
}

/// Whether all are placed, and how many evict others at the least.
fn must_place(decision: &Decision, count: u32, evicting: usize) -> anyhow::Result<()> {
    let placed = &decision.plan.placed;
    ensure!(
        placed.len() == count as usize,
        "{} of {count} are placed",
        placed.len()
    );
    let evict = placed
        .iter()
        .filter(|it| !it.preempted_allocations.is_empty());
    let evict = evict.count();
    ensure!(evict >= evicting, "{evict} of {count} evict an allocation");
    Ok(())
}

fn register(
    cluster: &mut InMemory,
    name: &str,
    priority: i32,
    count: u32,
    mhz: u32,
) -> anyhow::Result<Evaluation> {
    let mut job = job(name, priority, count, mhz);
    job.canonicalize();
    let id = EvalId::from_u128(u128::from(cluster.index()) + 1);
    let trigger = EvalTrigger::JobRegister;
    let (key, kind) = (job.key(), job.job_type);
    let eval = Evaluation::new(id, &key, kind, priority, trigger, cluster.now());
    cluster.apply(Command::JobRegister(JobRegister {
        spec: job.spec_hash(),
        job: Arc::new(job),
        eval: Some(eval),
        enforce_index: None,
        submission: None,
    }))?;
    let stored = cluster.snapshot().eval(id).cloned();
    Ok(stored.context("no evaluation")?.as_ref().clone())
}

fn job(name: &str, priority: i32, count: u32, mhz: u32) -> Job {
    let task = Task {
        name: "task".to_owned(),
        driver: "raw_exec".to_owned(),
        config: [("command".to_owned(), "/bin/sleep".into())].into(),
        resources: Some(Resources {
            cpu: Some(u64::from(mhz)),
            memory_mb: Some(u64::from(NODE_MIB * mhz / NODE_MHZ)),
            ..Resources::default()
        }),
        ..Task::default()
    };
    Job {
        id: name.to_owned(),
        name: name.to_owned(),
        job_type: JobType::Service,
        priority,
        task_groups: vec![TaskGroup {
            name: "group".to_owned(),
            count: Some(count),
            tasks: vec![task],
            ..TaskGroup::default()
        }],
        ..Job::default()
    }
}

/// A node of [`NODE_MHZ`] and [`NODE_MIB`] becomes ready.
fn join(cluster: &mut InMemory, number: u32) -> anyhow::Result<()> {
    let id = NodeId::from_u128(0x4000_8000_0000_0000_0000 + u128::from(number));
    let mut node = Node::new(id, format!("node-{number}"), "dc1");
    let kernel = ("kernel.name".to_owned(), "linux".to_owned());
    node.attributes.extend([kernel]);
    node.computed_class = "linux".to_owned();
    let driver = DriverInfo {
        detected: true,
        healthy: true,
        ..DriverInfo::default()
    };
    node.drivers.insert("raw_exec".to_owned(), driver);
    let resources = &mut node.node_resources;
    resources.cpu.cpu_shares = i64::from(NODE_MHZ);
    resources.cpu.total_cpu_cores = 4;
    resources.memory.memory_mb = i64::from(NODE_MIB);
    resources.disk.disk_mb = 100 * 1024;
    let hello = NodeHello {
        node: id,
        secret_hash: Digest([7; 32]),
        nonce: u128::from(cluster.index() + 1).to_be_bytes(),
        last_epoch: SessionEpoch::NONE,
        boot_id: [1; 16],
        daemon: DaemonLife::Restarted,
        facts: Some(Arc::new(node)),
        join: JoinVerdict::Allowed,
    };
    let welcome = match cluster.apply(Command::NodeHello(Box::new(hello)))? {
        Outcome::Welcome(welcome) => welcome,
        other => bail!("a hello was answered with {other:?}"),
    };
    cluster.apply(Command::NodeSynced(Box::new(NodeSynced {
        node: id,
        epoch: welcome.epoch,
        watch_index: cluster.index(),
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    })))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_on_full_nodes_are_measured() {
        let mut rows = Vec::new();
        measure(4, &mut rows).unwrap();
        let values: Vec<_> = rows.iter().filter_map(|row| row.value).collect();
        assert_eq!(values.len(), 2);
        assert!(values.iter().all(|value| *value > 0.0), "{rows:?}");
    }
}
