//! One node that comes back: how long, in how many round trips, for how many entries of the log.
//!
//! ```text
//!   healed ..the node's own wait.. first packet --QUIC's handshake, Hello, report--> ready
//!   break ---Hello on the connection that stood by--> ready
//! ```
//!
//! Round trips are counted by making them long: the same way is gone once as the network is, and
//! once with every packet to the node late. What the second takes longer is so many round trips.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hack_cluster::eventually;
use protocol_client::Query;
use serde_json::Value;

use super::load::{self, PER_NODE};
use super::{NAME, NODES, SETTLE, Scene, count, number, say};
use crate::fleet::look;
use crate::http::wait;
use crate::row::Row;

/// A node is seen to be gone, or back, by then.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
const ROUNDS: usize = 5;
/// Some rounds tell only the whole time.
const TRIES_MAX: usize = 4 * ROUNDS;
/// How much longer a node is cut off than until it is noticed, a round more than the last.
const LONGER: Duration = Duration::from_millis(900);
/// Long beside everything else on the way; short beside what a silent server is given up after.
const LATE: Duration = Duration::from_millis(200);
/// Hello and its Welcome, the complete report and its answer: Hello goes with QUIC's first flight
/// where the node keeps a ticket of the server (0-RTT), so that the handshake is none of its own.
const RECONNECT_TRIPS: f64 = 2.0;
/// Hello and its Welcome, on a connection that stands.
const RESUME_TRIPS: f64 = 1.0;
/// Half a round trip is what everything else on the way may take longer by chance.
const TRIPS_SLACK: f64 = 0.5;
/// One for Hello, one for the report.
const RECONNECT_ENTRIES: f64 = 2.0;
const RESUME_ENTRIES: f64 = 0.0;
/// The log does not move for so long: what a node that was given up led to is done.
const STILL: Duration = Duration::from_millis(300);
const STILL_TIMEOUT: Duration = Duration::from_secs(30);

/// How a node comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It was cut off and given up: it owes a complete report.
    Reconnect,
    /// Only its connection broke: its session goes on, on the connection that stood by.
    Resume,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Reconnect => "reconnect of a node that was given up",
            Self::Resume => "resume of a broken connection",
        }
    }
}

/// What one return took, in milliseconds and in entries of the log.
#[derive(Debug, Clone, Copy)]
struct Took {
    /// From the first packet; from the break, where a connection stood by. `None`: the first
    /// packets left before the way was healed, and were lost; or a second connection was being made
    /// just then, and the node came back by that, in fewer round trips.
    way_ms: Option<f64>,
    since_healed_ms: f64,
    /// Attempts since then that came to nothing.
    failed: f64,
    /// Until the node was ready.
    entries: f64,
    /// What followed from that: evaluations, and what they placed.
    entries_after: f64,
}

/// Brings one node back, again and again, near and far.
///
/// # Errors
/// If it does not come back.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for way in [Way::Reconnect, Way::Resume] {
        let name = way.name();
        eprintln!("-- {name}, {PER_NODE} allocations on each, {ROUNDS} times near and far");
        let near = bring_back_often(scene, way)?;
        scene.nodes.tell(&format!("delay {}", LATE.as_millis()))?;
        let far = bring_back_often(scene, way)?;
        scene.nodes.tell("delay 0")?;
        let commit_ms = super::millis(scene.commit.p50);
        rows.extend(rows_of(way, &near, &far, commit_ms)?);
    }
    Ok(rows)
}

fn rows_of(way: Way, near: &[Took], far: &[Took], commit_ms: f64) -> anyhow::Result<Vec<Row>> {
    let row = |figure: &str, value, unit| {
        let figure = format!("{}, {NODES} sessions, {figure}", way.name());
        Row::new(NAME, figure, value, unit)
    };
    let near_ms = Spread::of(ways(near)).context("no way was gone near")?;
    let far_ms = Spread::of(ways(far)).context("no way was gone far")?;
    let trips = |far_ms: f64| (far_ms - near_ms.p50) / (LATE.as_secs_f64() * 1e3);
    let (what, trips_goal, entries_goal) = match way {
        Way::Reconnect => ("first packet to ready", RECONNECT_TRIPS, RECONNECT_ENTRIES),
        Way::Resume => ("break to ready", RESUME_TRIPS, RESUME_ENTRIES),
    };
    let most = |of: fn(&Took) -> f64| near.iter().map(of).fold(0.0, f64::max);
    let gone = trips(far_ms.p50);
    let mut rows = vec![
        Row {
            floor_value: Some(entries_goal * commit_ms),
            ..row(&format!("{what}, p50"), near_ms.p50, "ms")
        },
        row(&format!("{what}, slowest"), near_ms.max, "ms"),
        row(&format!("round trips, {what}"), gone, "")
            .judged(trips_goal, gone < trips_goal + TRIPS_SLACK),
        row("round trips, slowest round", trips(far_ms.max), ""),
        row(
            "log entries until ready, at most",
            most(|it| it.entries),
            "",
        )
        .at_most(entries_goal),
        row(
            "log entries after that, at most",
            most(|it| it.entries_after),
            "",
        ),
    ];
    if way == Way::Reconnect {
        let healed = Spread::of(near.iter().map(|it| it.since_healed_ms)).context("no samples")?;
        let waited = near
            .iter()
            .filter_map(|it| Some(it.since_healed_ms - it.way_ms?));
        let waited = Spread::of(waited).context("no samples")?;
        let on_its_way = near.iter().filter(|it| it.way_ms.is_none()).count();
        let own = "of that the node's own wait until it tries again";
        rows.extend([
            row("cut healed to ready, p50", healed.p50, "ms"),
            row("cut healed to ready, slowest", healed.max, "ms"),
            // Nobody tells a node that its cable is back: it asks every now and then.
            row(&format!("{own}, p50"), waited.p50, "ms"),
            row(&format!("{own}, slowest"), waited.max, "ms"),
            row(
                "attempts that failed meanwhile, at most",
                most(|it| it.failed),
                "",
            ),
            row(
                "rounds that began in the middle of an attempt",
                count(on_its_way as u64)?,
                "",
            ),
        ]);
    }
    Ok(rows)
}

fn ways(took: &[Took]) -> impl Iterator<Item = f64> {
    took.iter().filter_map(|it| it.way_ms)
}

/// The middle one and the largest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    p50: f64,
    max: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            p50: *values.get(values.len() / 2)?,
            max: *values.last()?,
        })
    }
}

/// Until the whole way of a node was seen [`ROUNDS`] times; answers all rounds.
fn bring_back_often(scene: &mut Scene, way: Way) -> anyhow::Result<Vec<Took>> {
    let mut took: Vec<Took> = Vec::new();
    for round in 0..TRIES_MAX {
        took.push(bring_back(scene, way, round)?);
        if ways(&took).count() == ROUNDS {
            break;
        }
    }
    ensure!(
        ways(&took).count() > 0,
        "no node came back by a connection of its own, {TRIES_MAX} times"
    );
    let each = took.iter().map(|it| match it.way_ms {
        Some(way_ms) => format!("{way_ms:.0} of {:.0}", it.since_healed_ms),
        None => format!("? of {:.0}", it.since_healed_ms),
    });
    eprintln!("   {} ms", each.collect::<Vec<_>>().join(", "));
    Ok(took)
}

fn bring_back(scene: &mut Scene, way: Way, round: usize) -> anyhow::Result<Took> {
    let which = format!("{round}..{}", round + 1);
    // What the round before led to is over.
    load::all_run(scene)?;
    let (entries, id) = match way {
        Way::Reconnect => {
            let answer = scene.nodes.tell(&format!("cut {which}"))?;
            let id = answer["ids"][0].as_str().context("no id")?.to_owned();
            wait_given_up(scene, &id)?;
            // What the node tries meanwhile is at another point each time.
            std::thread::sleep(LONGER * u32::try_from(round % 4)?);
            let entries = still_log(scene)?;
            scene.nodes.tell("heal")?;
            (entries, Some(id))
        }
        Way::Resume => {
            // A second connection is made a while after the first.
            std::thread::sleep(SETTLE);
            let entries = still_log(scene)?;
            scene.nodes.tell(&format!("lose {which}"))?;
            (entries, None)
        }
    };
    // A node that lost its connection does not know it at once.
    let stats = wait_for_one(scene)?;
    let ready = match id {
        Some(id) => ready_index(scene, &id)?,
        None => look::log_index(&scene.servers)?,
    };
    let after = still_log(scene)?;
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
    Ok(Took {
        way_ms: is_whole.then_some(way_ms),
        since_healed_ms,
        failed: number(&ways["refusals"])? + number(&ways["breaks"])?,
        entries: count(ready.saturating_sub(entries))?,
        entries_after: count(after.saturating_sub(ready))?,
    })
}

/// Waits until a silent node is known to be; where one of its allocations goes on meanwhile the API
/// says `disconnected`.
fn wait_given_up(scene: &Scene, id: &str) -> anyhow::Result<()> {
    node_until(scene, id, "a silent node noticed", |node| {
        node["Status"] == "disconnected" || node["Status"] == "down"
    })?;
    Ok(())
}

/// The entry with which a node became ready: nothing else changes it.
fn ready_index(scene: &Scene, id: &str) -> anyhow::Result<u64> {
    let ready = |node: &Value| node["Status"] == "ready";
    let node = node_until(scene, id, "a node that is ready", ready)?;
    node["ModifyIndex"].as_u64().context("no index")
}

/// Waits until something holds for a node; answers how it is seen then.
fn node_until(
    scene: &Scene,
    id: &str,
    what: &str,
    holds: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let path = format!("/v1/node/{id}");
    wait(eventually(what, SEEN_WITHIN, async || {
        let node = scene.servers.get(&path, &Query::new()).await?;
        Ok(holds(&node).then_some(node))
    }))
}

/// The last index of the log, once nothing is added to it for a while.
fn still_log(scene: &Scene) -> anyhow::Result<u64> {
    let begun = Instant::now();
    let mut before = look::log_index(&scene.servers)?;
    loop {
        std::thread::sleep(STILL);
        let now = look::log_index(&scene.servers)?;
        if now == before {
            return Ok(now);
        }
        ensure!(
            begun.elapsed() < STILL_TIMEOUT,
            "the log does not come to rest"
        );
        before = now;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn took(way_ms: Option<f64>, since_healed_ms: f64) -> Took {
        Took {
            way_ms,
            since_healed_ms,
            failed: 0.0,
            entries: 2.0,
            entries_after: 1.0,
        }
    }

    fn row<'a>(rows: &'a [Row], figure: &str) -> &'a Row {
        let found = rows.iter().find(|row| row.figure.ends_with(figure));
        found.unwrap_or_else(|| panic!("no row {figure}"))
    }

    #[test]
    fn three_round_trips_are_one_too_many_for_a_reconnect_and_two_are_not() {
        let near = [took(Some(20.0), 500.0)];
        let judged = |far_ms| {
            let far = [took(Some(far_ms), 900.0)];
            let rows = rows_of(Way::Reconnect, &near, &far, 5.0).unwrap();
            let row = row(&rows, "round trips, first packet to ready").clone();
            (row.goal, row.met)
        };
        assert_eq!(judged(420.0), (Some(2.0), Some(true)));
        assert_eq!(judged(620.0), (Some(2.0), Some(false)));
    }

    #[test]
    fn a_round_whose_first_packets_were_lost_counts_for_the_whole_time_only() {
        let near = [took(Some(20.0), 500.0), took(None, 1500.0)];
        let far = [took(Some(420.0), 900.0)];
        let rows = rows_of(Way::Reconnect, &near, &far, 5.0).unwrap();
        let value = |figure| row(&rows, figure).value;
        assert_eq!(value("cut healed to ready, slowest"), Some(1500.0));
        assert_eq!(value("until it tries again, slowest"), Some(480.0));
        assert_eq!(value("in the middle of an attempt"), Some(1.0));
    }
}
