//! One node that comes back: how long, in how many round trips, for how many entries of the log.
//!
//! Round trips are counted by making them long: the same way is gone once as the network is, and
//! once with every packet to the node late. What the second takes longer is so many round trips.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{NAME, NODES, SETTLE, Scene, count, number, say};
use crate::bench::fleet::look;
use crate::bench::row::Row;

const ROUNDS: u64 = 5;
/// Some rounds measure nothing.
const TRIES_MAX: u64 = 4 * ROUNDS;
/// How much longer a node is cut off than until it is noticed, a round more than the last.
const LONGER: Duration = Duration::from_millis(900);
/// Long beside everything else on the way; short beside what a silent server is given up after.
const LATE: Duration = Duration::from_millis(200);

/// How a node comes back.
#[derive(Clone, Copy)]
enum Way {
    /// It was cut off and is down: it owes a complete report.
    Reconnect,
    /// Only its connection broke: its session goes on, on the connection that stood by.
    Resume,
}

/// What it took, in milliseconds and in entries of the log.
struct Took {
    /// From the first packet; from the break, where a connection stood by.
    way_ms: f64,
    since_healed_ms: f64,
    entries: f64,
}

/// Brings one node back, again and again, near and far.
///
/// # Errors
/// If it does not come back.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (way, name, trips, entries) in [
        (
            Way::Reconnect,
            "reconnect of a node that was down",
            3.0,
            2.0,
        ),
        (Way::Resume, "resume of a broken connection", 1.0, 0.0),
    ] {
        eprintln!("-- {name}, {ROUNDS} times near and far");
        let near = median(scene, way)?;
        scene.nodes.tell(&format!("delay {}", LATE.as_millis()))?;
        let far = median(scene, way)?;
        scene.nodes.tell("delay 0")?;
        let row = |figure: &str, value, unit| {
            Row::new(
                NAME,
                format!("{name}, {NODES} sessions, {figure}"),
                value,
                unit,
            )
        };
        let what = match way {
            Way::Reconnect => "first packet to ready",
            Way::Resume => "break to ready",
        };
        rows.push(row(what, near.way_ms, "ms"));
        if let Way::Reconnect = way {
            rows.push(row("cut healed to ready", near.since_healed_ms, "ms"));
        }
        let gone = (far.way_ms - near.way_ms) / (LATE.as_secs_f64() * 1e3);
        rows.push(Row {
            // One of a reconnect's is QUIC's own handshake.
            goal: Some(trips),
            met: Some(gone < trips + 0.5),
            ..row("round trips", gone, "")
        });
        rows.push(Row {
            goal: Some(entries),
            met: Some(near.entries <= entries),
            ..row("log entries", near.entries, "")
        });
    }
    Ok(rows)
}

fn median(scene: &mut Scene, way: Way) -> anyhow::Result<Took> {
    let mut took = Vec::new();
    for round in 0..TRIES_MAX {
        took.extend(bring_back(scene, way, round)?);
        if took.len() as u64 == ROUNDS {
            break;
        }
    }
    ensure!(
        !took.is_empty(),
        "no node came back by a connection of its own, {TRIES_MAX} times"
    );
    let each: Vec<String> = took.iter().map(|it| format!("{:.0}", it.way_ms)).collect();
    eprintln!("   {} ms", each.join(", "));
    let middle = |of: fn(&Took) -> f64| {
        let mut values: Vec<f64> = took.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok(Took {
        way_ms: middle(|took| took.way_ms),
        since_healed_ms: middle(|took| took.since_healed_ms),
        entries: middle(|took| took.entries),
    })
}

/// `None`: the second connection was being made when the way was healed, and the node came back by
/// that, in fewer round trips; or its first connection was, and its first packets were lost.
fn bring_back(scene: &mut Scene, way: Way, round: u64) -> anyhow::Result<Option<Took>> {
    let which = format!("{round}..{}", round + 1);
    let entries = match way {
        Way::Reconnect => {
            let answer = scene.nodes.tell(&format!("cut {which}"))?;
            let id = answer["ids"][0].as_str().context("no id")?;
            wait_down(scene, id)?;
            // What the node tries meanwhile is at another point each time.
            std::thread::sleep(LONGER * u32::try_from(round % 4)?);
            let entries = look::log_index(&scene.servers)?;
            scene.nodes.tell("heal")?;
            entries
        }
        Way::Resume => {
            // A second connection is made a while after the first.
            std::thread::sleep(SETTLE);
            let entries = look::log_index(&scene.servers)?;
            scene.nodes.tell(&format!("lose {which}"))?;
            entries
        }
    };
    // A node that lost its connection does not know it at once.
    let stats = wait_for_one(scene)?;
    let after = look::log_index(&scene.servers)?;
    let ways = &stats["ways"];
    if ways["refusals"] != 0 {
        say("not at the first attempt", ways);
    }
    let since_healed_ms = number(&ways["since_mark_ms"]["max"])?;
    let way_ms = match way {
        Way::Reconnect => number(&ways["whole_ms"]["max"])?,
        Way::Resume => since_healed_ms,
    };
    let is_whole = way_ms > 0.0 && way_ms <= since_healed_ms;
    Ok(is_whole.then_some(Took {
        way_ms,
        since_healed_ms,
        entries: count(after - entries)?,
    }))
}

fn wait_down(scene: &mut Scene, id: &str) -> anyhow::Result<()> {
    scene.servers.wait_until("a silent node noticed", |http| {
        let node = http.get(&format!("/v1/node/{id}"))?;
        Ok(node["Status"] == "down")
    })
}

/// Waits until one way to a live session was gone, and it has settled.
fn wait_for_one(scene: &mut Scene) -> anyhow::Result<Value> {
    for _ in 0..600 {
        let mut answer = scene.nodes.tell("stats")?;
        let ways = &answer["stats"]["ways"];
        if ways["resumed"] != 0 || ways["synced"] != 0 {
            scene.nodes.wait_live()?;
            std::thread::sleep(SETTLE / 10);
            return Ok(answer["stats"].take());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("the node does not come back")
}
