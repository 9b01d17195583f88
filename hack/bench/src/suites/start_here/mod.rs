//! Suite `start-here`: from a submitted job to running tasks, with the machine's own floor beside
//! it, and a rival where one was named.
//!
//! Measured from outside, as a user's program would see it: a register request goes out, a blocking
//! query on the job's allocations comes back with `running`. Logs are on the disk that holds the
//! build, with fsync on. Tasks are `raw_exec`, of both sides: no sandbox is part of a figure. One
//! job at a time, blocks of ours and of the rival's in turn: this is the
//! latency of an idle cluster, and whatever else the machine does meanwhile falls on both.
//!
//! A machine that slept wakes slowly: its caches are cold and its processors are parked. So starts
//! follow each other at once within a block, and starts after a second of quiet are a figure of
//! their own.

mod jobs;
mod memory;
mod nomad;
mod ours;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{ArgMatches, Args as _, FromArgMatches as _};

use self::jobs::{purge, register, wait_ended, wait_running};
use self::nomad::Nomad;
use self::ours::Ours;
use super::Suite;
use crate::floor::{self, Quantiles};
use crate::http::Http;
use crate::row::Row;
use crate::{Bench, Extent};

/// The name on the command line and in every row.
const NAME: &str = "start-here";
/// See the top of this file.
pub(super) const SUITE: Suite = Suite {
    name: NAME,
    about: "submit to running, registrations per second, memory of the daemons",
    options: Options::augment_args,
    run,
};
const RIVAL: &str = "nomad";

const STARTS: usize = 200;
/// Starts of one side before it is the other's turn.
const STARTS_IN_BLOCK: usize = 20;
/// Between the end of one job and the start of the next.
const SETTLE: Duration = Duration::from_millis(20);
const QUIET_STARTS: usize = 30;
const QUIET: Duration = Duration::from_secs(1);
const REGISTRATIONS_PER_CLIENT: usize = 250;
const REGISTRATION_CLIENTS: usize = 8;
const IDLE_TASKS: usize = 200;
/// Goals for one server, from submit to running.
const GOAL_P50_MS: f64 = 5.0;
const GOAL_P99_MS: f64 = 25.0;

#[derive(Debug, clap::Args)]
struct Options {
    /// A `nomad` program to measure beside ours, in turn
    #[arg(long, value_name = "PROGRAM")]
    rival: Option<PathBuf>,
}

/// Our cluster and, where there is one, the rival's.
struct Contest<'a> {
    ours: &'a Ours,
    rival: Option<&'a Nomad>,
}

/// The floors of the machine.
#[derive(Clone, Copy)]
struct Floors {
    spawn: Quantiles,
    durable: Quantiles,
}

/// Measures the floors and, unless only those were asked for, clusters of one and three servers.
///
/// # Errors
/// If a floor cannot be measured, or the clusters' figures were asked for and cannot be measured.
fn run(bench: &Bench, matches: &ArgMatches, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let options = Options::from_arg_matches(matches)?;
    bench.must_have(&["controlplane", "noded", "noded-jail", "noded-keeper"])?;
    let floors = Floors {
        spawn: floor::spawn(&bench.scratch).context("measure the spawn floor")?,
        durable: floor::durable_write(&bench.scratch).context("measure the durable-write floor")?,
    };
    rows.extend(quantile_rows(
        "floor: posix_spawn of a static program, to its end",
        floors.spawn,
    ));
    rows.extend(quantile_rows(
        "floor: write 4 KiB and fdatasync",
        floors.durable,
    ));
    if bench.extent == Extent::FloorOnly {
        return Ok(());
    }
    for server_count in [1, 3] {
        eprintln!("-- {server_count} server(s): starting");
        let ours = Ours::start(bench, server_count)?;
        // A rival of one server is compared with one of ours.
        let program = options.rival.as_deref().filter(|_| server_count == 1);
        let rival = program
            .map(|program| Nomad::start(program, &bench.scratch.join("rival")))
            .transpose()?;
        let contest = Contest {
            ours: &ours,
            rival: rival.as_ref(),
        };
        cluster_rows(&contest, server_count, floors, rows)?;
    }
    Ok(())
}

fn quantile_rows(figure: &str, quantiles: Quantiles) -> [Row; 2] {
    let Quantiles { p50, p99, max: _ } = quantiles;
    [(p50, "p50"), (p99, "p99")]
        .map(|(value, name)| Row::new(NAME, format!("{figure}, {name}"), milliseconds(value), "ms"))
}

fn cluster_rows(
    contest: &Contest<'_>,
    server_count: usize,
    floors: Floors,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let plural = if server_count == 1 {
        "server"
    } else {
        "servers"
    };
    let when = format!("idle, {server_count} {plural}");
    rows.extend(memory::idle_rows(contest, &when)?);
    eprintln!("-- {server_count} {plural}: {STARTS} starts, one after the other");
    rows.extend(start_rows(contest, server_count, plural, floors)?);
    eprintln!("-- {server_count} {plural}: registrations");
    let ours = measure_registrations(|| contest.ours.http())?;
    let theirs = contest
        .rival
        .map(|rival| measure_registrations(|| rival.http()))
        .transpose()?;
    let figure = format!("registrations, {server_count} {plural}, {REGISTRATION_CLIENTS} clients");
    rows.push(Row {
        rival: contest.rival.map(|_| RIVAL),
        rival_value: theirs,
        // One durable write each, one after the other; clients that share one are faster.
        floor_value: Some(1.0 / floors.durable.p50.as_secs_f64()),
        ..Row::new(NAME, figure, ours, "/s")
    });
    if server_count == 1 {
        rows.extend(quiet_rows(contest)?);
        eprintln!("-- {server_count} {plural}: {IDLE_TASKS} idle tasks");
        rows.extend(memory::task_rows(contest)?);
    }
    Ok(())
}

fn start_rows(
    contest: &Contest<'_>,
    server_count: usize,
    plural: &str,
    floors: Floors,
) -> anyhow::Result<Vec<Row>> {
    let (ours, theirs) = measure_starts(contest)?;
    let figure = format!("submit to running, {server_count} {plural}");
    let floor = [
        floors.spawn.p50 + floors.durable.p50,
        floors.spawn.p99 + floors.durable.p99,
    ];
    let goals = [GOAL_P50_MS, GOAL_P99_MS];
    let theirs = theirs.map(|theirs| [theirs.p50, theirs.p99]);
    let rows = quantile_rows(&figure, ours).into_iter().enumerate();
    let rows = rows.map(|(number, row)| {
        // Goals are promised for one server; three pay a round trip that no goal is set for.
        let row = Row {
            rival: theirs.map(|_| RIVAL),
            rival_value: theirs.map(|theirs| milliseconds(theirs[number])),
            floor_value: Some(milliseconds(floor[number])),
            ..row
        };
        match server_count {
            1 => row.at_most(goals[number]),
            _ => row,
        }
    });
    Ok(rows.collect())
}

/// One job after the other, from the request to the answer that says `running`.
fn measure_starts(contest: &Contest<'_>) -> anyhow::Result<(Quantiles, Option<Quantiles>)> {
    let ours = contest.ours.http()?;
    let theirs = contest.rival.map(Nomad::http).transpose()?;
    let (mut own_samples, mut their_samples) = (Vec::new(), Vec::new());
    for block in 0..STARTS / STARTS_IN_BLOCK {
        let name = format!("start-{block}");
        own_samples.extend(measure_block(&ours, &name, STARTS_IN_BLOCK, SETTLE)?);
        if let Some(theirs) = &theirs {
            let block = measure_block(theirs, &name, STARTS_IN_BLOCK, SETTLE);
            their_samples.extend(block.context("the rival")?);
        }
    }
    let own = Quantiles::of(own_samples).context("no samples")?;
    Ok((own, Quantiles::of(their_samples)))
}

/// The same for a cluster, and a machine, that did nothing for a while.
fn quiet_rows(contest: &Contest<'_>) -> anyhow::Result<[Row; 2]> {
    eprintln!("-- {QUIET_STARTS} starts after a second of quiet each");
    let http = contest.ours.http()?;
    let samples = measure_block(&http, "quiet", QUIET_STARTS, QUIET)?;
    let quantiles = Quantiles::of(samples).context("no samples")?;
    let figure = "submit to running after 1 s of quiet, 1 server";
    Ok(quantile_rows(figure, quantiles))
}

fn measure_block(
    http: &Http,
    name: &str,
    starts: usize,
    pause: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let numbers = 0..starts;
    let samples = numbers.map(|number| {
        std::thread::sleep(pause);
        measure_start(http, &format!("{name}-{number}"))
    });
    samples.collect()
}

fn measure_start(http: &Http, id: &str) -> anyhow::Result<Duration> {
    let start = Instant::now();
    register(http, id, 1)?;
    wait_running(http, id, 1)?;
    let took = start.elapsed();
    purge(http, id)?;
    // The end of one is not to be measured with the start of the next.
    wait_ended(http, id, 1)?;
    Ok(took)
}

/// Jobs that want no instance: the price of accepting one, not of placing it.
fn measure_registrations(connect: impl Fn() -> anyhow::Result<Http>) -> anyhow::Result<f64> {
    let connections = (0..REGISTRATION_CLIENTS)
        .map(|_| connect())
        .collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = connections
            .iter()
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

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
