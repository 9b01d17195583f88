//! Suite `start-here`: from a submitted job to running tasks, with the machine's own floor beside
//! it.
//!
//! Measured from outside, as a user's program would see it: a register request goes out, a blocking
//! query on the job's allocations comes back with `running`. Logs are on the disk that holds the
//! build, with fsync on. One job at a time: this is the latency of an idle cluster.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::floor::{self, Quantiles};
use super::row::Row;
use super::{Bench, Extent};
use crate::cluster::Cluster;
use crate::cluster::http::Http;
use crate::cluster::process::memory_kib;
use crate::stage::target_folder;

/// The name on the command line and in every row.
pub(super) const NAME: &str = "start-here";

/// The programs that are measured, as the release build leaves them.
const BINARIES: &[&str] = &["controlplane", "noded", "noded-keeper", "drover"];

const STARTS: usize = 200;
const REGISTRATIONS_PER_CLIENT: usize = 250;
const REGISTRATION_CLIENTS: usize = 8;
const IDLE_TASKS: usize = 200;
const RUNNING_TIMEOUT: Duration = Duration::from_secs(60);
/// Goals for one server, from submit to running.
const GOAL_P50_MS: f64 = 5.0;
const GOAL_P99_MS: f64 = 25.0;

/// Measures the floors and, unless only those were asked for, clusters of one and three servers.
///
/// # Errors
/// If a floor cannot be measured, or the clusters' figures were asked for and cannot be measured.
pub(super) fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let spawn = floor::spawn(&bench.scratch).context("measure the spawn floor")?;
    let durable =
        floor::durable_write(&bench.scratch).context("measure the durable-write floor")?;
    let mut rows = Vec::new();
    rows.extend(quantile_rows(
        "floor: posix_spawn of a static program, to its end",
        spawn,
    ));
    rows.extend(quantile_rows("floor: write 4 KiB and fdatasync", durable));
    if bench.extent == Extent::Everything {
        let binaries = target_folder(&bench.root).join("release");
        must_exist(&binaries)?;
        let floor = Quantiles {
            p50: spawn.p50 + durable.p50,
            p99: spawn.p99 + durable.p99,
        };
        for server_count in [1, 3] {
            let folder = bench.scratch.join(format!("servers-{server_count}"));
            let cluster = Cluster::start(&binaries, &folder, server_count)?;
            rows.extend(cluster_rows(&cluster, server_count, floor)?);
            cluster.stop()?;
        }
    }
    Ok(rows)
}

fn must_exist(binaries: &Path) -> anyhow::Result<()> {
    let missing: Vec<&str> = BINARIES
        .iter()
        .copied()
        .filter(|name| !binaries.join(name).is_file())
        .collect();
    ensure!(
        missing.is_empty(),
        "the figures of a cluster need {}; build them with `cargo build --release`, or ask for the \
         machine's own figures with --floor-only",
        missing.join(", ")
    );
    Ok(())
}

fn quantile_rows(figure: &str, quantiles: Quantiles) -> [Row; 2] {
    let Quantiles { p50, p99 } = quantiles;
    [(p50, "p50"), (p99, "p99")]
        .map(|(value, name)| Row::new(NAME, format!("{figure}, {name}"), milliseconds(value), "ms"))
}

fn cluster_rows(
    cluster: &Cluster,
    server_count: usize,
    floor: Quantiles,
) -> anyhow::Result<Vec<Row>> {
    let plural = if server_count == 1 {
        "server"
    } else {
        "servers"
    };
    let mut rows = memory_rows(cluster, &format!("idle, {server_count} {plural}"))?;
    let starts = measure_starts(cluster)?;
    let figure = format!("submit to running, {server_count} {plural}");
    let floors = [floor.p50, floor.p99];
    let goals = [GOAL_P50_MS, GOAL_P99_MS];
    for ((row, floor), goal) in quantile_rows(&figure, starts)
        .into_iter()
        .zip(floors)
        .zip(goals)
    {
        // Goals are promised for one server; three pay a round trip that no goal is set for.
        let goal = (server_count == 1).then_some(goal);
        let met = goal.map(|goal| row.value <= goal);
        rows.push(Row {
            floor_value: Some(milliseconds(floor)),
            goal,
            met,
            ..row
        });
    }
    let rate = measure_registrations(cluster)?;
    let figure = format!("registrations, {server_count} {plural}, {REGISTRATION_CLIENTS} clients");
    rows.push(Row::new(NAME, figure, rate, "/s"));
    if server_count == 1 {
        rows.extend(measure_idle_tasks(cluster)?);
    }
    Ok(rows)
}

/// One job after the other, from the request to the answer that says `running`.
fn measure_starts(cluster: &Cluster) -> anyhow::Result<Quantiles> {
    let mut http = cluster.http()?;
    let mut samples = Vec::with_capacity(STARTS);
    for number in 0..STARTS {
        let id = format!("start-{number}");
        let start = Instant::now();
        register(&mut http, &id, 1)?;
        wait_running(&mut http, &id, 1)?;
        samples.push(start.elapsed());
        http.ask("DELETE", &format!("/v1/job/{id}?purge=true"), None)?
            .json()?;
    }
    Quantiles::of(samples).context("no samples")
}

/// Jobs that want no instance: the price of accepting one, not of placing it.
fn measure_registrations(cluster: &Cluster) -> anyhow::Result<f64> {
    let mut connections = (0..REGISTRATION_CLIENTS)
        .map(|_| cluster.http())
        .collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = connections
            .iter_mut()
            .enumerate()
            .map(|(client, http)| {
                scope.spawn(move || {
                    (0..REGISTRATIONS_PER_CLIENT)
                        .try_for_each(|number| register(http, &format!("r-{client}-{number}"), 0))
                })
            })
            .collect();
        clients.into_iter().try_for_each(|client| {
            client
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))?
        })
    })?;
    let count = u32::try_from(REGISTRATION_CLIENTS * REGISTRATIONS_PER_CLIENT)?;
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// What each daemon needs more for each task that does nothing.
fn measure_idle_tasks(cluster: &Cluster) -> anyhow::Result<Vec<Row>> {
    let before = memory(cluster)?;
    let mut http = cluster.http()?;
    register(&mut http, "idle", IDLE_TASKS)?;
    wait_running(&mut http, "idle", IDLE_TASKS)?;
    let after = memory(cluster)?;
    let tasks = f64::from(u32::try_from(IDLE_TASKS)?);
    let rows = after.iter().filter_map(|(name, kib)| {
        let (_, earlier) = before.iter().find(|(other, _)| other == name)?;
        let figure = format!("memory per idle task of {IDLE_TASKS}, {name}");
        Some(Row::new(NAME, figure, (kib - earlier) / tasks, "KiB"))
    });
    let rows = rows.collect();
    http.ask("DELETE", "/v1/job/idle?purge=true", None)?
        .json()?;
    Ok(rows)
}

fn memory_rows(cluster: &Cluster, when: &str) -> anyhow::Result<Vec<Row>> {
    let row = |(name, kib): (&str, f64)| {
        Row::new(NAME, format!("memory {when}, {name}"), kib / 1024.0, "MiB")
    };
    Ok(memory(cluster)?.into_iter().map(row).collect())
}

/// Proportional set size by daemon; the largest server stands for all of them.
fn memory(cluster: &Cluster) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut memory: Vec<(&'static str, f64)> = Vec::new();
    for (pid, name) in cluster.daemons()? {
        let kib = f64::from(u32::try_from(memory_kib(pid)?)?);
        match memory.iter_mut().find(|(other, _)| *other == name) {
            Some((_, largest)) => *largest = largest.max(kib),
            None => memory.push((name, kib)),
        }
    }
    Ok(memory)
}

fn register(http: &mut Http, id: &str, count: usize) -> anyhow::Result<()> {
    let job = json!({"Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group", "Count": count,
            "Tasks": [{
                "Name": "sleep", "Driver": "raw_exec",
                "Config": {"command": "/bin/sleep", "args": ["3600"]},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            }],
        }],
    }});
    http.ask("PUT", "/v1/jobs", Some(&job))?
        .json()
        .with_context(|| format!("register {id}"))?;
    Ok(())
}

/// Blocks on the job's allocations until `count` of them run.
fn wait_running(http: &mut Http, id: &str, count: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + RUNNING_TIMEOUT;
    let mut index = 0;
    loop {
        let path = format!("/v1/job/{id}/allocations?index={index}&wait=5s");
        let answer = http.ask("GET", &path, None)?;
        let allocs = answer.json()?;
        let status = |wanted: &str| {
            let is = |alloc: &&Value| alloc["ClientStatus"] == wanted;
            allocs
                .as_array()
                .map_or(0, |allocs| allocs.iter().filter(is).count())
        };
        if status("running") >= count {
            return Ok(());
        }
        ensure!(
            status("failed") == 0,
            "an allocation of {id} failed: {allocs}"
        );
        ensure!(Instant::now() < deadline, "{id} does not run: {allocs}");
        index = answer.index;
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
