//! Suite `sessions`: three servers and a thousand nodes with real QUIC sessions, simulated by one
//! process (`nodesim`), whose cables are pulled, whose weather turns bad, and whose servers are cut
//! off from each other and killed. All of it is in a network namespace of its own where the host
//! has them.
//!
//! Everything runs on this host: a thousand nodes heartbeat eight times a second each while
//! anything is in doubt, twice where nothing is, and their processor time is taken from the
//! servers. What it costs is printed with the rest. Nodes are watched through the API: whatever
//! left `ready`, even for a moment, has another `ModifyIndex`. Where sessions are made anew every
//! node runs something, so that its report says something.

mod echo;
mod failover;
mod links;
mod load;
mod outage;
mod part;
mod reconnect;
mod rest;
mod restarts;
mod silence;
mod simulated;
mod storm;
mod weather;

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{ArgMatches, Args as _, FromArgMatches as _};
use hack_cluster::procfs::{cpu, memory_kib};
use hack_cluster::{Cluster, OwnNet};
use serde_json::{Value, json};

use self::load::Load;
use self::part::Part;
use self::storm::Force;
use super::Suite;
use super::parts::chosen;
use crate::fleet::nodesim::{Fleet, Nodesim};
use crate::fleet::{self, look, servers};
use crate::floor::Quantiles;
use crate::http::{Ask as _, wait};
use crate::row::Row;
use crate::{Bench, Extent};

/// The name on the command line and in every row.
const NAME: &str = "sessions";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "a thousand real sessions: silence, bad weather, storms, servers cut off or killed",
    options: Options::augment_args,
    run,
};
const NODES: usize = 1000;
const SERVERS: usize = 3;
/// Registrations that tell what one commit takes.
const COMMITS: usize = 50;
/// How long costs are counted while nothing happens.
const QUIET: Duration = Duration::from_secs(10);
/// How long is waited for what servers know to be gone: sessions whose node is elsewhere. What is
/// measured goes on all the same.
const CALM_TIMEOUT: Duration = Duration::from_secs(15);
/// How long everything gets to come to rest: a node that is ready makes its other connections
/// within six seconds.
const SETTLE: Duration = Duration::from_secs(6);

#[derive(Debug, clap::Args)]
struct Options {
    /// For how long 30 % of all packets are lost and others up to 300 ms late
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    weather_seconds: u64,
    /// The storms of part `storm`: NODES/SHARE, where servers and nodes have one SHARE-th of a
    /// processor each
    #[arg(long, value_name = "NODES/SHARE", value_delimiter = ',')]
    storms: Vec<Force>,
    /// Measure only these parts, separated by commas
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
}

/// What is measured.
struct Scene {
    /// Before the servers, whose folder it writes to.
    nodes: Nodesim,
    servers: Cluster,
    /// What a registration that changes nothing else takes.
    commit: Quantiles,
}

/// Measures the disk's floor and, unless only that was asked for, everything else.
///
/// # Errors
/// If something cannot be measured.
fn run(bench: &Bench, matches: &ArgMatches, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let options = Options::from_arg_matches(matches)?;
    // As soon as that: the program may begin again here, with the same scratch folder.
    let net = match bench.extent {
        Extent::FloorOnly => None,
        Extent::Everything => OwnNet::enter()?,
    };
    let Some(durable) = fleet::begin(bench, NAME, &["controlplane", "nodesim"], rows)? else {
        return Ok(());
    };
    let wanted = chosen(&options.only).any(|part| part == Part::Simulated);
    let simulator = wanted
        .then(|| simulated::program(&bench.programs))
        .transpose()?;
    if chosen(&options.only).any(Part::needs_scene) {
        measure_scene(bench, &durable, net.as_ref(), &options, rows)?;
    }
    if chosen(&options.only).any(|part| part == Part::Rest) {
        rest::run(bench, rows).context("part Rest")?;
    }
    if chosen(&options.only).any(|part| part == Part::Storm) {
        storm::run(bench, &options.storms, rows).context("part Storm")?;
    }
    // Beside nothing: it is about promises, and about this processor's time.
    if let Some(simulator) = simulator {
        rows.extend(simulated::rows(&simulator)?);
    }
    Ok(())
}

/// The parts that share three servers and a thousand nodes.
fn measure_scene(
    bench: &Bench,
    durable: &Quantiles,
    net: Option<&OwnNet>,
    options: &Options,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let mut scene = set_the_scene(bench, durable, rows)?;
    let mut load = Load::None;
    for part in chosen(&options.only).filter(|part| part.needs_scene()) {
        load.become_like(part.load(), &mut scene)?;
        let measured = measure(part, &mut scene, net, options);
        rows.extend(measured.with_context(|| format!("part {part:?}"))?);
    }
    Ok(())
}

/// Starts servers and nodes, and measures what both are like while nothing happens.
fn set_the_scene(bench: &Bench, durable: &Quantiles, rows: &mut Vec<Row>) -> anyhow::Result<Scene> {
    eprintln!("-- {SERVERS} servers");
    let servers = wait(Cluster::start(bench.settings(SERVERS)))?;
    let commit = measure_commits(&servers)?;
    rows.push(Row {
        floor_value: Some(millis(durable.p50)),
        ..Row::new(
            NAME,
            "one commit, through the API, p50",
            millis(commit.p50),
            "ms",
        )
    });
    let (nodes, begun) = Nodesim::start(&servers, Fleet::only(NODES))?;
    let mut scene = Scene {
        servers,
        nodes,
        commit,
    };
    look::all_ready(&scene.servers, NODES)?;
    rows.extend(cost_rows(&mut scene, &begun)?);
    Ok(scene)
}

fn measure(
    part: Part,
    scene: &mut Scene,
    net: Option<&OwnNet>,
    options: &Options,
) -> anyhow::Result<Vec<Row>> {
    match (part, net) {
        (Part::Silence, _) => silence::rows(scene),
        (Part::Weather, _) => weather::rows(scene, Duration::from_secs(options.weather_seconds)),
        (Part::Reconnect, _) => reconnect::rows(scene),
        (Part::Restarts, _) => restarts::rows(scene),
        (Part::Outage, _) => outage::rows(scene),
        (Part::Links, Some(net)) => links::rows(scene, net),
        (Part::Links, None) => Ok(vec![Row::not_measured(
            NAME,
            links::FIGURE,
            "there is no network namespace here in which links can be cut; what is missing was \
             said at the start",
        )]),
        (Part::Failover, _) => failover::rows(scene),
        // Later, on their own.
        (Part::Rest | Part::Storm | Part::Simulated, _) => Ok(Vec::new()),
    }
}

/// Jobs that want no instance, one after the other.
fn measure_commits(servers: &Cluster) -> anyhow::Result<Quantiles> {
    let leader = servers.leads()?;
    let http = servers.http_of(leader)?;
    let mut samples = Vec::new();
    for number in 0..COMMITS {
        let job = look::service(&format!("commit-{number}"), 0);
        let begun = Instant::now();
        http.put("/v1/jobs", &job)?;
        samples.push(begun.elapsed());
    }
    Quantiles::of(samples).context("no samples")
}

/// What sessions cost while nothing happens.
fn cost_rows(scene: &mut Scene, begun: &Value) -> anyhow::Result<Vec<Row>> {
    eprintln!("-- {NODES} idle sessions");
    std::thread::sleep(SETTLE);
    let leader = scene.servers.leads()?;
    let ids = (0..SERVERS).map(|number| scene.servers.id(number));
    let ids = ids.collect::<anyhow::Result<Vec<_>>>()?;
    let sim = scene.nodes.id()?;
    let all = || ids.iter().copied().chain([sim]).map(cpu);
    let before = all().collect::<anyhow::Result<Vec<_>>>()?;
    let entries = look::log_index(&scene.servers)?;
    std::thread::sleep(QUIET);
    let after = all().collect::<anyhow::Result<Vec<_>>>()?;
    let entries = look::log_index(&scene.servers)? - entries;
    let shares: Vec<f64> = before
        .iter()
        .zip(&after)
        .map(|(before, after)| (*after - *before).as_secs_f64() / QUIET.as_secs_f64() * 100.0)
        .collect();
    let followers = shares[..SERVERS].iter().enumerate();
    let follower = followers.filter(|(number, _)| *number != leader);
    let follower = follower.map(|(_, share)| *share).fold(0.0, f64::max);
    let kib = f64::from(u32::try_from(memory_kib(ids[leader])?)?);
    let row = |figure: &str, value: f64, unit| {
        Row::new(
            NAME,
            format!("{NODES} idle sessions, {figure}"),
            value,
            unit,
        )
    };
    let took = &begun["stats"]["ways"]["whole_ms"];
    Ok(vec![
        row("a new node to ready, p50", number(&took["p50"])?, "ms"),
        row("a new node to ready, p99", number(&took["p99"])?, "ms"),
        row("processor, leader", shares[leader], "%"),
        row("processor, the busier follower", follower, "%"),
        row("processor, all nodes together", shares[SERVERS], "%"),
        row("memory, leader", kib / 1024.0, "MiB"),
        row(
            "memory of the simulator, each node",
            number(&begun["stats"]["cost"]["per_node_kib"])?,
            "KiB",
        ),
        row("log entries in 10 s", count(entries)?, "").at_most(0.0),
    ])
}

fn number(value: &Value) -> anyhow::Result<f64> {
    value
        .as_f64()
        .with_context(|| format!("{value} is no number"))
}

fn count(value: u64) -> anyhow::Result<f64> {
    Ok(f64::from(u32::try_from(value)?))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Registers a job that anything may run, and waits for nothing.
fn register(scene: &Scene, server: usize, id: &str) -> anyhow::Result<()> {
    let http = scene.servers.http_of(server)?;
    let job = look::service(id, 1);
    http.put("/v1/jobs", &job)
        .with_context(|| format!("register {id}"))?;
    Ok(())
}

/// A row that counts what should not be.
fn none_row(figure: impl Into<String>, value: usize) -> anyhow::Result<Row> {
    let value = f64::from(u32::try_from(value)?);
    Ok(Row::new(NAME, figure, value, "nodes").at_most(0.0))
}

/// Sees to it that a server has its share of the sessions, so that it is felt when it goes: one
/// that was cut off or killed a moment ago has none, and all daemons restart to choose anew.
fn give_share(scene: &mut Scene, server: usize) -> anyhow::Result<()> {
    let all = servers::all(&scene.servers);
    let own = all.iter().find(|(number, _)| *number == server);
    let sessions = own.map_or(0, |(_, own)| own.sessions);
    if sessions < (NODES / SERVERS / 2) as u64 {
        eprintln!("   server-{server} has {sessions} sessions: all daemons restart");
        scene.nodes.tell(&format!("restart 0..{NODES}"))?;
        wait_calm(scene)?;
    }
    Ok(())
}

/// Waits until servers agree, every node is ready and has one session, and the second connections
/// of nodes had the time to be made.
fn wait_calm(scene: &mut Scene) -> anyhow::Result<()> {
    servers::wait_in_sync(&mut scene.servers)?;
    scene.nodes.wait_live()?;
    look::all_ready(&scene.servers, NODES)?;
    let begun = Instant::now();
    let sessions = |scene: &Scene| {
        let all = servers::all(&scene.servers).into_iter();
        all.map(|(_, own)| own.sessions).sum::<u64>()
    };
    while sessions(scene) != NODES as u64 && begun.elapsed() < CALM_TIMEOUT {
        std::thread::sleep(SETTLE / 10);
    }
    std::thread::sleep(SETTLE);
    Ok(())
}

/// Lines that only explain, for those who watch.
fn say(what: &str, value: &Value) {
    eprintln!("   {what}: {}", json!(value));
}
