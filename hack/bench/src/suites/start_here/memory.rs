//! What the daemons need of memory: idle, and for each task that does nothing.

use hack_cluster::procfs::memory_kib;

use super::jobs::{purge, register, wait_running};
use super::nomad::Nomad;
use super::ours::Ours;
use super::{Contest, IDLE_TASKS, NAME, RIVAL};
use crate::row::Row;

/// The rival starts a helper process for each task; on two cores, starts beyond this many at once
/// run into its own time limits.
const RIVAL_IDLE_TASKS: usize = 50;

/// Rows of every daemon, right after the start.
///
/// # Errors
/// If the kernel does not tell.
pub(super) fn idle_rows(contest: &Contest<'_>, when: &str) -> anyhow::Result<Vec<Row>> {
    let daemons = of_daemons(contest.ours)?;
    let all: f64 = daemons.iter().map(|(_, kib)| kib).sum();
    let row = |(name, kib): (&str, f64)| {
        Row::new(NAME, format!("memory {when}, {name}"), kib / 1024.0, "MiB")
    };
    let mut rows: Vec<Row> = daemons.into_iter().map(row).collect();
    if let Some(rival) = contest.rival {
        rows.push(Row {
            rival: Some(RIVAL),
            rival_value: Some(of_rival(rival)? / 1024.0),
            ..row(("all daemons", all))
        });
    }
    Ok(rows)
}

/// Rows of what each daemon needs more for each task that does nothing.
///
/// # Errors
/// If the tasks do not start.
pub(super) fn task_rows(contest: &Contest<'_>) -> anyhow::Result<Vec<Row>> {
    let tasks = f64::from(u32::try_from(IDLE_TASKS)?);
    let before = of_daemons(contest.ours)?;
    let http = contest.ours.http()?;
    register(&http, "idle", IDLE_TASKS)?;
    wait_running(&http, "idle", IDLE_TASKS)?;
    let after = of_daemons(contest.ours)?;
    purge(&http, "idle")?;
    let more = |(name, kib): &(&'static str, f64)| {
        // A daemon that came with the tasks is needed for them as a whole.
        let earlier = before.iter().find(|(other, _)| other == name);
        let earlier = earlier.map_or(0.0, |(_, kib)| *kib);
        (*name, (kib - earlier) / tasks)
    };
    let more: Vec<(&str, f64)> = after.iter().map(more).collect();
    let figure = |name: &str| format!("memory per idle task of {IDLE_TASKS}, {name}");
    let row = |name: &str, kib: f64| Row::new(NAME, figure(name), kib, "KiB");
    let mut rows: Vec<Row> = more.iter().map(|(name, kib)| row(name, *kib)).collect();
    if let Some(rival) = contest.rival {
        rows.push(Row {
            rival: Some(RIVAL),
            rival_value: Some(of_rival_task(rival)?),
            ..row("all daemons", more.iter().map(|(_, kib)| kib).sum())
        });
    }
    Ok(rows)
}

/// Proportional set size by daemon, in KiB; the largest server stands for all of them.
fn of_daemons(ours: &Ours) -> anyhow::Result<Vec<(&'static str, f64)>> {
    let mut memory: Vec<(&'static str, f64)> = Vec::new();
    for (pid, name) in ours.daemons()? {
        let kib = f64::from(u32::try_from(memory_kib(pid)?)?);
        match memory.iter_mut().find(|(other, _)| *other == name) {
            Some((_, largest)) => *largest = largest.max(kib),
            None => memory.push((name, kib)),
        }
    }
    Ok(memory)
}

fn of_rival(rival: &Nomad) -> anyhow::Result<f64> {
    let mut sum = 0;
    for pid in rival.processes()? {
        sum += memory_kib(pid)?;
    }
    Ok(f64::from(u32::try_from(sum)?))
}

/// What the rival needs more for each task, in KiB.
fn of_rival_task(rival: &Nomad) -> anyhow::Result<f64> {
    let before = of_rival(rival)?;
    let http = rival.http()?;
    register(&http, "idle", RIVAL_IDLE_TASKS)?;
    wait_running(&http, "idle", RIVAL_IDLE_TASKS)?;
    let after = of_rival(rival)?;
    purge(&http, "idle")?;
    Ok((after - before) / f64::from(u32::try_from(RIVAL_IDLE_TASKS)?))
}
