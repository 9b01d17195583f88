//! At keeper directly: each task gets a network namespace and a cgroup, starts, is stopped by a
//! signal, and is forgotten.
//!
//! ```text
//! prepare -> [16] -> connection: Spawn, Started, Stop, Exited, Acknowledge -> [64] -> remove
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use noded_keeper::client::Connection;
use noded_keeper::protocol::{Event, TaskKey};

use super::super::census::Place;
use super::super::keeper::{self, Keeper, Prepared, Tasks};
use super::super::sandbox::Sandbox;
use super::super::{NAME, floor, folder};
use crate::Bench;
use crate::programs::Program;
use crate::row::Row;

/// Starts and stops a second.
const GOAL: f64 = 600.0;
/// Threads that make namespaces and cgroups, as noded's blocking threads do.
const PREPARERS: usize = 3;
/// Tasks between request and end.
const RUNNING_MAX: usize = 16;
/// Tasks that are prepared, and those whose cgroup is not removed yet.
const PREPARED_MAX: usize = 16;
const ENDED_MAX: usize = 64;
/// Before anything is counted: keeper has opened what it keeps open.
const WARM_UP: u64 = 50;
/// How long one look for events takes while fewer than [`RUNNING_MAX`] tasks run.
const LOOK: Duration = Duration::from_millis(1);
/// The floor needs less time to come to rest.
const FLOOR_MAX: Duration = Duration::from_secs(10);

/// When the last task is started.
#[derive(Debug, Clone, Copy)]
enum Until {
    Count(u64),
    Time(Instant),
}

/// See the top of this file.
///
/// # Errors
/// keeper refuses or fails a task.
pub(super) fn measure(bench: &Bench, span: Duration, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let floor = floor::births_per_second(&bench.scratch, span.min(FLOOR_MAX))?;
    let sandbox = Sandbox::make(&folder(bench, "sustained")?, Program::Pause)?;
    let mut keeper = Keeper::start(bench, "sustained")?;
    let place = Place {
        daemons: vec![(keeper.id(), "keeper")],
        cgroups: keeper.cgroups().to_owned(),
        folders: vec![bench.scratch.clone()],
    };
    let number = AtomicU64::new(0);
    cycle(&mut keeper, &sandbox, &number, Until::Count(WARM_UP))?;
    let before = place.at_rest()?;
    eprintln!("-- starts and stops at keeper for {} s", span.as_secs());
    let begun = Instant::now();
    let done = cycle(&mut keeper, &sandbox, &number, Until::Time(begun + span))?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    rows.push(Row {
        floor_value: Some(floor),
        ..Row::new(
            NAME,
            "starts and stops at keeper, a network namespace each",
            rate,
            "/s",
        )
        .at_least(GOAL)
    });
    rows.extend(place.leaks(&before, "at keeper")?);
    Ok(())
}

/// Starts and stops tasks; answers how many. Returns when everything of them is removed.
fn cycle(
    keeper: &mut Keeper,
    sandbox: &Sandbox,
    number: &AtomicU64,
    until: Until,
) -> anyhow::Result<u64> {
    let (tasks, connection) = keeper.parts();
    let (ready, prepared) = sync_channel(PREPARED_MAX);
    let (gone, ended) = sync_channel(ENDED_MAX);
    let until = match until {
        Until::Count(count) => Until::Count(number.load(Ordering::Relaxed) + count),
        time @ Until::Time(_) => time,
    };
    std::thread::scope(|scope| {
        for _ in 0..PREPARERS {
            let ready = ready.clone();
            scope.spawn(move || prepare(tasks, sandbox, number, until, &ready));
        }
        drop(ready);
        let remover = scope.spawn(move || remove(tasks, &ended));
        let done = converse(connection, &prepared, &gone);
        drop((prepared, gone));
        let removed = remover
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))?;
        let done = done?;
        removed?;
        Ok(done)
    })
}

/// Makes tasks until it is enough, or until nobody takes them: the connection failed.
fn prepare(
    tasks: &Tasks,
    sandbox: &Sandbox,
    number: &AtomicU64,
    until: Until,
    ready: &SyncSender<anyhow::Result<Prepared>>,
) {
    loop {
        let next = number.fetch_add(1, Ordering::Relaxed);
        let over = match until {
            Until::Count(count) => next >= count,
            Until::Time(end) => Instant::now() >= end,
        };
        if over || ready.send(tasks.prepare(next, sandbox)).is_err() {
            break;
        }
    }
}

fn remove(tasks: &Tasks, ended: &Receiver<TaskKey>) -> anyhow::Result<()> {
    ended.iter().try_for_each(|key| tasks.remove(key.alloc()))
}

/// The one thread at the connection.
fn converse(
    connection: &mut Connection,
    prepared: &Receiver<anyhow::Result<Prepared>>,
    gone: &SyncSender<TaskKey>,
) -> anyhow::Result<u64> {
    let (mut running, mut done, mut over) = (0, 0, false);
    while !over || running > 0 {
        while !over && running < RUNNING_MAX {
            let next = match running {
                // No event comes without a task.
                0 => prepared.recv().map_err(|_| TryRecvError::Disconnected),
                _ => prepared.try_recv(),
            };
            match next {
                Ok(task) => {
                    keeper::spawn(connection, &task?, None)?;
                    running += 1;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => over = true,
            }
        }
        match keeper::event(connection, LOOK)? {
            Some(Event::Started { key, .. }) => keeper::stop(connection, key)?,
            Some(Event::Exited { key, .. }) => {
                keeper::forget(connection, &key)?;
                gone.send(key)
                    .ok()
                    .context("a cgroup could not be removed")?;
                running -= 1;
                done += 1;
            }
            Some(Event::SpawnFailed { .. }) | None => {}
        }
    }
    ensure!(done > 0, "no task was started");
    Ok(done)
}
