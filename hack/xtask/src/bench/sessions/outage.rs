//! Every node runs something when all of them are cut off at once, and come back at once: what goes
//! on where it was, what is done again, and that nothing runs twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::silence::wait_noticed;
use super::{NAME, NODES, Scene, look, millis, none_row, say, wait_calm};
use crate::bench::row::Row;
use crate::cluster::http::Http;

const ROUNDS: usize = 2;
/// How long everybody stays away once all are noticed: nodes try again ever more rarely.
const AWAY: Duration = Duration::from_secs(10);
/// From the last word of a node until the API shows that it is silent, beside one commit.
const GOAL: Duration = Duration::from_secs(3);
/// Until everything runs that should.
const RUN_TIMEOUT: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longer than anything here takes.
const WINDOW_NANOS: u64 = 3_600_000_000_000;

/// A task that goes on, as its node says: its allocation, where, and which run of it.
type Run = (String, String, u64);

/// What one outage came to.
struct Round {
    noticed: Duration,
    ready: Duration,
    run: Duration,
    /// Runs that were tolerated and did not go on.
    killed: usize,
    /// Allocations that were seen to run twice at a time.
    twice: usize,
}

/// Outages.
///
/// # Errors
/// If some node does not come back, or something that should run does not.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    eprintln!("-- {ROUNDS} times all of {NODES} nodes are cut off, each with two allocations");
    let mut http = scene.servers.http()?;
    for (id, tolerated) in [("patient", true), ("hasty", false)] {
        http.ask("PUT", "/v1/jobs", Some(&everywhere(id, tolerated)))?
            .json()
            .with_context(|| format!("register {id}"))?;
    }
    drop(http);
    all_run(scene)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        wait_calm(scene)?;
        rounds.push(one(scene)?);
    }
    for id in ["patient", "hasty"] {
        let path = format!("/v1/job/{id}?purge=true");
        scene.servers.http()?.ask("DELETE", &path, None)?.json()?;
    }
    let slowest = |of: fn(&Round) -> Duration| rounds.iter().map(of).max().unwrap_or_default();
    let sum = |of: fn(&Round) -> usize| rounds.iter().map(of).sum::<usize>();
    let figure = |what: &str| format!("{NODES} nodes cut off and back at once, {what}");
    let row = |what: &str, value| Row::new(NAME, figure(what), millis(value), "ms");
    let noticed = slowest(|round| round.noticed);
    let goal = GOAL + scene.commit.p99;
    Ok(vec![
        Row {
            floor_value: Some(millis(scene.commit.p50)),
            goal: Some(millis(goal)),
            met: Some(noticed <= goal),
            ..row("the last noticed", noticed)
        },
        row("all ready again", slowest(|round| round.ready)),
        row("everything runs again", slowest(|round| round.run)),
        runs_row(
            figure("tolerated runs that did not go on"),
            sum(|round| round.killed),
        )?,
        runs_row(
            figure("allocations that ran twice"),
            sum(|round| round.twice),
        )?,
    ])
}

fn runs_row(figure: String, runs: usize) -> anyhow::Result<Row> {
    Ok(Row {
        unit: "runs",
        ..none_row(figure, runs)?
    })
}

/// A service without a process, one instance on each node.
fn everywhere(id: &str, tolerated: bool) -> Value {
    let mut job = look::service(id, NODES);
    job["Job"]["Constraints"] = json!([{"Operand": "distinct_hosts"}]);
    if tolerated {
        let window = json!({"LostAfter": WINDOW_NANOS, "Replace": false});
        job["Job"]["TaskGroups"][0]["Disconnect"] = window;
    }
    job
}

fn one(scene: &mut Scene) -> anyhow::Result<Round> {
    let before = runs(scene)?;
    let patient = wanted(&mut scene.servers.http()?, "patient")?;
    let begun = Instant::now();
    let answer = scene.nodes.tell(&format!("cut 0..{NODES}"))?;
    let ids: Vec<String> = serde_json::from_value(answer["ids"].clone())?;
    let (noticed, _) = wait_noticed(scene, &ids, begun)?;
    let noticed = noticed.into_iter().max().unwrap_or_default();
    eprintln!("   all noticed after {} ms", noticed.as_millis());
    std::thread::sleep(AWAY);
    let healed = Instant::now();
    scene.nodes.tell("heal")?;
    let twice = beside(scene, healed)?;
    let stats = scene.nodes.wait_live()?;
    say("ways back", &stats["ways"]);
    look::all_ready(&scene.servers, NODES)?;
    let ready = healed.elapsed();
    let after = all_run(scene)?;
    let run = healed.elapsed();
    let went_on = |run: &&Run| after.contains(run);
    let tolerated = before.iter().filter(|run| patient.contains_key(&run.0));
    Ok(Round {
        noticed,
        ready,
        run,
        killed: NODES - tolerated.filter(went_on).count(),
        twice,
    })
}

/// Looks at what runs until every node is back; answers how many allocations were seen to run
/// twice.
fn beside(scene: &mut Scene, healed: Instant) -> anyhow::Result<usize> {
    let mut twice = BTreeSet::new();
    loop {
        let listed = listed(scene)?;
        let mut seen = BTreeSet::new();
        let again = listed.into_iter().filter(|run| !seen.insert(run.0.clone()));
        twice.extend(again.map(|run| run.0).collect::<Vec<_>>());
        let (nodes, _) = look::nodes(&mut scene.servers.http()?, 0)?;
        let ready = nodes.values().filter(|node| node.status == "ready");
        if ready.count() == NODES {
            return Ok(twice.len());
        }
        ensure!(healed.elapsed() < RUN_TIMEOUT, "some nodes did not return");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until what runs is what is wanted: of both jobs one on each node, and nothing else.
fn all_run(scene: &mut Scene) -> anyhow::Result<BTreeSet<Run>> {
    let begun = Instant::now();
    loop {
        let mut http = scene.servers.http()?;
        let jobs = [wanted(&mut http, "patient")?, wanted(&mut http, "hasty")?];
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
fn wanted(http: &mut Http, job: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let path = format!("/v1/job/{job}/allocations");
    let answer = http.ask("GET", &path, None)?.json()?;
    let allocs = answer.as_array().context("no list of allocations")?.iter();
    let running = allocs
        .filter(|alloc| alloc["ClientStatus"] == "running" && alloc["DesiredStatus"] == "run");
    Ok(running
        .map(|alloc| (text(&alloc["ID"]), text(&alloc["NodeID"])))
        .collect())
}

fn runs(scene: &mut Scene) -> anyhow::Result<BTreeSet<Run>> {
    Ok(listed(scene)?.into_iter().collect())
}

fn listed(scene: &mut Scene) -> anyhow::Result<Vec<Run>> {
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
