//! `kill -9` of each server: whether a node leaves `ready`, and how soon a new leader places.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{NAME, NODES, SETTLE, Scene, millis, none_row, register, say};
use crate::bench::fleet::look;
use crate::bench::row::Row;

/// Longer than a silent node is waited for, with everything that is added to that.
const AFTERMATH: Duration = Duration::from_secs(8);
/// From the leader's death to the first placement by the next one.
const GOAL: Duration = Duration::from_secs(2);
const PLACED_TIMEOUT: Duration = Duration::from_secs(30);

/// Kills one server after the other, the leader last.
///
/// # Errors
/// If the cluster does not recover.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let leader = scene.servers.leader().context("nobody leads")?;
    let mut order: Vec<usize> = (0..scene.servers.len()).collect();
    order.sort_by_key(|number| *number == leader);
    for number in order {
        let leads = scene.servers.leader() == Some(number);
        let role = if leads { "the leader" } else { "a follower" };
        eprintln!("-- kill -9 of {role}, with {NODES} sessions");
        let before = look::all_ready(&scene.servers, NODES)?;
        scene.nodes.tell("mark")?;
        scene.servers.kill(number);
        let killed = Instant::now();
        if leads {
            rows.push(placement_row(scene, number, killed)?);
        }
        std::thread::sleep(AFTERMATH.saturating_sub(killed.elapsed()));
        let stats = scene.nodes.wait_live()?;
        say("sessions", &stats["ways"]);
        let after = look::all_ready(&scene.servers, NODES)?;
        let figure = format!("kill -9 of {role}, nodes that left ready");
        rows.push(none_row(figure, look::left(&before, &after, &[]))?);
        scene.servers.spawn(number)?;
        wait_for_server(scene, number)?;
        std::thread::sleep(SETTLE);
    }
    Ok(rows)
}

/// A job that is submitted the moment the leader dies.
fn placement_row(scene: &Scene, killed: usize, since: Instant) -> anyhow::Result<Row> {
    let other = (killed + 1) % scene.servers.len();
    let place = || -> anyhow::Result<bool> {
        register(scene, other, "after-the-leader")?;
        let path = "/v1/job/after-the-leader/allocations";
        let allocs = scene.servers.http_of(other)?.get(path)?;
        Ok(allocs.as_array().is_some_and(|allocs| !allocs.is_empty()))
    };
    loop {
        match place() {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => ensure!(since.elapsed() < PLACED_TIMEOUT, "{error:#}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = since.elapsed();
    Ok(Row {
        floor_value: Some(millis(scene.commit.p50)),
        goal: Some(millis(GOAL)),
        met: Some(took <= GOAL),
        ..Row::new(
            NAME,
            "kill -9 of the leader, first placement by the next",
            millis(took),
            "ms",
        )
    })
}

fn wait_for_server(scene: &mut Scene, number: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + PLACED_TIMEOUT;
    loop {
        scene.servers.must_run()?;
        let mut answer = scene.servers.http_of(number);
        let leader = answer
            .as_mut()
            .ok()
            .and_then(|http| http.get("/v1/status/leader").ok());
        if leader.is_some_and(|leader| leader.as_str().is_some_and(|it| !it.is_empty())) {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "server {number} does not come back"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}
