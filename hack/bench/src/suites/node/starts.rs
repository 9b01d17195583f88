//! Part `starts`: an `exec` task in a network namespace of its own, through keeper, beside the
//! kernel's floor, `crun run` and `runc run` of the same program, in turn.
//!
//! ```text
//! ours   [network namespace, cgroup, plan, request to keeper .. exec] first byte .. end, removed
//! rival  [runtime starts, all namespaces, cgroup .............. exec] first byte .. end, removed
//! ```
//!
//! The program writes one byte into a pipe as soon as it runs. Nothing is made before the clock
//! starts, so the price of a new network namespace is in every figure.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use noded_keeper::protocol::ExitStatus;

use super::floor::{self, Birth};
use super::keeper::{self, Keeper};
use super::rivals::{self, Rival, Rivals};
use super::sandbox::Sandbox;
use super::{NAME, folder, milliseconds, quantile_rows};
use crate::Bench;
use crate::floor::Quantiles;
use crate::programs::Program;
use crate::row::Row;

/// Starts of each side that fill caches and are no sample.
const WARM_UP: usize = 10;
/// Our start, as a share of the rival's whole run.
const GOALS: [(&str, f64); 2] = [("crun", 1.0 / 5.0), ("runc", 1.0 / 15.0)];

/// The samples of one side.
#[derive(Debug, Default)]
struct Samples {
    request: Vec<Duration>,
    first_byte: Vec<Duration>,
    end: Vec<Duration>,
}

/// Both quantiles of one side.
#[derive(Debug, Clone, Copy)]
struct Side {
    request: Quantiles,
    first_byte: Quantiles,
    end: Quantiles,
}

/// See the top of this file. `rivals` is the reason where they are wanted and not there.
///
/// # Errors
/// Ours or the floor cannot be measured.
pub(super) fn measure(
    bench: &Bench,
    starts: usize,
    rivals: Option<anyhow::Result<Rivals>>,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    ensure!(starts > 0, "--starts is 0: there is nothing to measure");
    let bundles = bundles(bench, rivals);
    let there = bundles.as_ref().map_or(&[][..], Vec::as_slice);
    for rival in there {
        eprintln!("-- rival: {} {}", rival.name, rival.version);
    }
    eprintln!("-- {starts} starts of each side, in turn");
    let mut keeper = Keeper::start(bench, "starts")?;
    let sides = std::thread::scope(|scope| {
        let measured = scope.spawn(|| in_turn(bench, &mut keeper, starts, there));
        measured
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))?
    })?;
    let [floor, ours, theirs @ ..] = &sides[..] else {
        unreachable!("the floor and our side are always measured");
    };
    push_own(floor, ours, rows);
    match &bundles {
        Ok(bundles) => push_rivals(ours, bundles, theirs, rows),
        Err(error) => {
            for (name, _) in GOALS {
                let figure = format!("exec start p50, of a whole {name} run");
                rows.push(Row::not_measured(NAME, figure, format!("{error:#}")));
            }
        }
    }
    Ok(())
}

fn bundles(bench: &Bench, rivals: Option<anyhow::Result<Rivals>>) -> anyhow::Result<Vec<Rival>> {
    let rivals = rivals.context("the rivals are measured only with --rival")??;
    GOALS
        .iter()
        .map(|(name, _)| rivals.bundle(bench, name))
        .collect()
}

/// The floor, ours, and each rival.
fn in_turn(
    bench: &Bench,
    keeper: &mut Keeper,
    starts: usize,
    rivals: &[Rival],
) -> anyhow::Result<Vec<Side>> {
    if !rivals.is_empty() {
        rivals::enter_own_mounts().context("enter mounts for the rivals")?;
    }
    let sandbox = Sandbox::make(&folder(bench, "starts")?, Program::FirstByte)?;
    let program = floor::program(&bench.scratch)?;
    let mut all: Vec<Samples> = Vec::new();
    all.resize_with(2 + rivals.len(), Samples::default);
    for number in 0..WARM_UP + starts {
        let births = [
            floor::birth(&program).context("the floor"),
            ours(keeper, number as u64, &sandbox).context("ours"),
        ];
        let theirs = rivals.iter().map(Rival::run);
        for (samples, birth) in all.iter_mut().zip(births.into_iter().chain(theirs)) {
            let Birth {
                request,
                first_byte,
                end,
            } = birth?;
            if number >= WARM_UP {
                samples.request.push(request);
                samples.first_byte.push(first_byte);
                samples.end.push(end);
            }
        }
    }
    let sides = all.into_iter().map(|samples| {
        let of = |part| Quantiles::of(part).context("no samples");
        Ok(Side {
            request: of(samples.request)?,
            first_byte: of(samples.first_byte)?,
            end: of(samples.end)?,
        })
    });
    sides.collect()
}

/// One start and end, with everything that noded does for it at keeper.
fn ours(keeper: &mut Keeper, number: u64, sandbox: &Sandbox) -> anyhow::Result<Birth> {
    let (tasks, connection) = keeper.parts();
    let begun = Instant::now();
    let prepared = tasks.prepare(number, sandbox)?;
    let (mut output, writer) = std::io::pipe()?;
    let request = begun.elapsed();
    let writer = OwnedFd::from(writer);
    keeper::spawn(connection, &prepared, Some(&writer))?;
    // Without it a failed start is the end of the output.
    drop(writer);
    let read = output.read(&mut [0])?;
    let first_byte = begun.elapsed();
    let exit = keeper::exit(connection, &prepared.key)?;
    ensure!(
        read == 1 && exit.status == ExitStatus::Code(0),
        "the task ended so: {exit:?}"
    );
    keeper::forget(connection, &prepared.key)?;
    tasks.remove(prepared.key.alloc())?;
    drop(prepared);
    let end = begun.elapsed();
    Ok(Birth {
        request,
        first_byte,
        end,
    })
}

fn push_own(floor: &Side, ours: &Side, rows: &mut Vec<Row>) {
    let to_byte = "six namespaces, exec, to the first byte";
    let to_end = "six namespaces, exec, to the end";
    rows.extend(quantile_rows(
        &format!("floor: {to_byte}"),
        floor.first_byte,
    ));
    rows.extend(quantile_rows(&format!("floor: {to_end}"), floor.end));
    let beside = |figure: &str, ours: Quantiles, floor: Quantiles| {
        let floors = [floor.p50, floor.p99];
        let rows = quantile_rows(figure, ours).into_iter().zip(floors);
        let rows = rows.map(|(row, floor)| Row {
            floor_value: Some(milliseconds(floor)),
            ..row
        });
        rows.collect::<Vec<Row>>()
    };
    let figure = "exec start in a new network namespace, to its first byte";
    rows.extend(beside(figure, ours.first_byte, floor.first_byte));
    let figure = "of that: network namespace, cgroup and plan, before the request to keeper";
    rows.extend(quantile_rows(figure, ours.request));
    let figure = "the same, to its end, everything removed";
    rows.extend(beside(figure, ours.end, floor.end));
}

fn push_rivals(ours: &Side, rivals: &[Rival], theirs: &[Side], rows: &mut Vec<Row>) {
    let of = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    for ((rival, theirs), (name, goal)) in rivals.iter().zip(theirs).zip(GOALS) {
        let run = format!("{name} {} run of the same", rival.version);
        rows.extend(quantile_rows(
            &format!("{run}, to its first byte"),
            theirs.first_byte,
        ));
        rows.extend(quantile_rows(&format!("{run}, whole"), theirs.end));
        let figures = [
            (
                "to the first byte",
                ours.first_byte.p50,
                theirs.first_byte.p50,
            ),
            (
                "to the end, everything removed",
                ours.end.p50,
                theirs.end.p50,
            ),
        ];
        for (what, ours, theirs) in figures {
            let figure = format!("{what}: p50 of ours, of {name}'s");
            rows.push(Row::new(NAME, figure, of(ours, theirs), ""));
        }
        let figure = format!("exec start p50, of a whole {name} run");
        let ratio = of(ours.first_byte.p50, theirs.end.p50);
        rows.push(Row {
            rival: Some(name),
            rival_value: Some(1.0),
            ..Row::new(NAME, figure, ratio, "").at_most(goal)
        });
    }
}
