//! What every node runs while sessions are made anew: reports of nodes that run nothing are empty,
//! and would cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{NODES, Scene, look};
use crate::http::{Ask, Http};

/// Two services with one instance on each node: one goes on while its node is silent, the other is
/// given up then.
pub(super) const PATIENT: &str = "patient";
const HASTY: &str = "hasty";
/// Allocations of each node.
pub(super) const PER_NODE: usize = 2;
/// Until everything runs that should.
pub(super) const RUN_TIMEOUT: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longer than anything here takes.
const WINDOW_NANOS: u64 = 3_600_000_000_000;

/// As soon as a task may be called healthy.
const HEALTHY_AFTER_NANOS: u64 = 1_000_000;

/// A task that goes on, as its node says: its allocation, where, and which run of it.
pub(super) type Run = (String, String, u64);

/// Whether nodes run something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    None,
    TwoEach,
}

impl Load {
    /// Sees to it that nodes run as much as `wanted`, and nothing else of these jobs.
    ///
    /// # Errors
    /// If they do not get there.
    pub(super) fn become_like(&mut self, wanted: Self, scene: &mut Scene) -> anyhow::Result<()> {
        match (*self, wanted) {
            (Self::None, Self::TwoEach) => start(scene)?,
            (Self::TwoEach, Self::None) => stop(scene)?,
            (Self::None, Self::None) | (Self::TwoEach, Self::TwoEach) => {}
        }
        *self = wanted;
        Ok(())
    }
}

fn start(scene: &mut Scene) -> anyhow::Result<()> {
    eprintln!("-- each of {NODES} nodes begins to run {PER_NODE} allocations");
    let http = scene.servers.http()?;
    for (id, tolerated) in [(PATIENT, true), (HASTY, false)] {
        http.put("/v1/jobs", &everywhere(id, tolerated))
            .with_context(|| format!("register {id}"))?;
    }
    all_run(scene)?;
    wait_healthy(scene)
}

/// Waits until the deployments of both jobs are over: all of it has been reported healthy then, and
/// what is measured finds nothing else in the log.
fn wait_healthy(scene: &mut Scene) -> anyhow::Result<()> {
    let begun = Instant::now();
    for id in [PATIENT, HASTY] {
        loop {
            let path = format!("/v1/job/{id}/deployment");
            let deployment = scene.servers.http()?.get(&path)?;
            match deployment["Status"].as_str() {
                Some("successful") => break,
                Some("running") if begun.elapsed() < RUN_TIMEOUT => {}
                other => bail!("the deployment of {id} should be successful by now: {other:?}"),
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

fn stop(scene: &mut Scene) -> anyhow::Result<()> {
    for id in [PATIENT, HASTY] {
        let path = format!("/v1/job/{id}?purge=true");
        scene.servers.http()?.delete(&path)?;
    }
    let begun = Instant::now();
    while !listed(scene)?.is_empty() {
        ensure!(begun.elapsed() < RUN_TIMEOUT, "some tasks do not end");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// A service without a process, one instance on each node.
fn everywhere(id: &str, tolerated: bool) -> Value {
    let mut job = look::service(id, NODES);
    job["Job"]["Constraints"] = json!([{"Operand": "distinct_hosts"}]);
    // What starts is reported once more when it is healthy, which is at once: ten seconds later, as
    // is usual, that would be in the log while another node comes back.
    let healthy = json!({
        "MaxParallel": 1,
        "HealthCheck": "task_states",
        "MinHealthyTime": HEALTHY_AFTER_NANOS,
        "HealthyDeadline": WINDOW_NANOS,
    });
    for strategy in ["Update", "Migrate"] {
        job["Job"]["TaskGroups"][0][strategy] = healthy.clone();
    }
    job["Job"]["TaskGroups"][0]["Update"]["ProgressDeadline"] = json!(2 * WINDOW_NANOS);
    if tolerated {
        let window = json!({"LostAfter": WINDOW_NANOS, "Replace": false});
        job["Job"]["TaskGroups"][0]["Disconnect"] = window;
    }
    job
}

/// Waits until what runs is what is wanted: of both jobs one on each node, and nothing else.
///
/// # Errors
/// If it is not in time.
pub(super) fn all_run(scene: &mut Scene) -> anyhow::Result<BTreeSet<Run>> {
    let begun = Instant::now();
    loop {
        let http = scene.servers.http()?;
        let jobs = [wanted(&http, PATIENT)?, wanted(&http, HASTY)?];
        let now = runs(scene)?;
        let placed: BTreeSet<(&String, &String)> =
            now.iter().map(|(alloc, node, _)| (alloc, node)).collect();
        let expected: BTreeSet<(&String, &String)> = jobs.iter().flatten().collect();
        let spread = |job: &BTreeMap<String, String>| {
            job.len() == NODES && job.values().collect::<BTreeSet<_>>().len() == NODES
        };
        if placed == expected && now.len() == expected.len() && jobs.iter().all(spread) {
            return Ok(now);
        }
        ensure!(
            begun.elapsed() < RUN_TIMEOUT,
            "{} run; {} and {} are wanted",
            now.len(),
            jobs[0].len(),
            jobs[1].len()
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The allocations of a job that should run and do, as the API shows them, and where.
///
/// # Errors
/// If the API does not tell.
pub(super) fn wanted(http: &Http, job: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let path = format!("/v1/job/{job}/allocations");
    let answer = http.get(&path)?;
    let allocs = answer.as_array().context("no list of allocations")?.iter();
    let running = allocs
        .filter(|alloc| alloc["ClientStatus"] == "running" && alloc["DesiredStatus"] == "run");
    Ok(running
        .map(|alloc| (text(&alloc["ID"]), text(&alloc["NodeID"])))
        .collect())
}

/// What runs, as nodes say.
///
/// # Errors
/// If they do not tell.
pub(super) fn runs(scene: &mut Scene) -> anyhow::Result<BTreeSet<Run>> {
    Ok(listed(scene)?.into_iter().collect())
}

/// The same, each as often as it runs.
///
/// # Errors
/// As there.
pub(super) fn listed(scene: &mut Scene) -> anyhow::Result<Vec<Run>> {
    let answer = scene.nodes.tell("running")?;
    let runs = answer["running"].as_array().context("no list of runs")?;
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    Ok(runs
        .iter()
        .map(|run| (text(&run["alloc"]), text(&run["node"]), number(&run["run"])))
        .collect())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
