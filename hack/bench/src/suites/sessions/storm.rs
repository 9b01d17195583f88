//! Many new nodes at once, where servers and nodes have a share of a processor each: whether all of
//! them get a session, and what it costs.
//!
//! One server is pinned to one processor and `nodesim` to another; busy loops on both leave them a
//! share. The ideal is the busier side's processor time for one session, the least of the storms so
//! far, times the nodes, by the share.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, ensure};
use hack_cluster::Cluster;
use hack_cluster::procfs::{cpu, peak_memory_kib, resident_kib};
use serde_json::Value;

use super::{NAME, count, number};
use crate::Bench;
use crate::fleet::look;
use crate::fleet::nodesim::{Fleet, Nodesim};
use crate::http::{Ask as _, Http, wait};
use crate::processors::{Busy, Pinned, allowed};
use crate::row::Row;

/// New nodes in a second.
const RATE: u32 = 1_000;
/// Until memory is what it is at rest.
const SETTLE: Duration = Duration::from_secs(8);
/// All nodes live after this many times the ideal.
const GOAL_IDEALS: f64 = 2.0;
/// Sessions that are made for one node.
const GOAL_SESSIONS: f64 = 1.1;
/// The most memory of the server by its memory at rest.
const GOAL_PEAK: f64 = 1.2;
/// Of storms that nobody asked for.
const SHARES: [u32; 4] = [1, 2, 4, 8];
const NODES: [usize; 3] = [500, 1_000, 2_000];

/// One storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Force {
    nodes: usize,
    /// Servers and nodes have one part in so many of a processor each.
    share: u32,
}

impl FromStr for Force {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (nodes, share) = text.split_once('/').context("write NODES/SHARE")?;
        let (nodes, share) = (nodes.parse()?, share.parse()?);
        ensure!(nodes > 0, "a storm needs nodes");
        ensure!((1..=32).contains(&share), "SHARE is 1 to 32");
        Ok(Self { nodes, share })
    }
}

/// The result of a storm.
struct Storm {
    /// From the first node's first packet until the last was live; `None` = some were not in time.
    took: Option<Duration>,
    missing: u64,
    sessions: u64,
    expired: u64,
    peak_kib: u64,
    rest_kib: u64,
    /// Processor time of the busier side, each session.
    cost: Duration,
    reasons: Value,
}

/// Measures `storms`, or all where none is named.
///
/// # Errors
/// If there are not two processors, or a program does not start.
pub(super) fn run(bench: &Bench, storms: &[Force], rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let each = |share| NODES.map(|nodes| Force { nodes, share });
    let all: Vec<Force> = match storms {
        [] => SHARES.into_iter().flat_map(each).collect(),
        some => some.to_vec(),
    };
    let processors = allowed()?;
    let [servers_on, nodes_on, ..] = *processors.as_slice() else {
        rows.push(Row::not_measured(
            NAME,
            "storms of new nodes",
            "servers and nodes need a processor each",
        ));
        return Ok(());
    };
    let mut cost = Duration::MAX;
    for force in all {
        let Force { nodes, share } = force;
        eprintln!("-- a storm of {nodes} new nodes, both sides with 1/{share} of a processor");
        let storm = measure(bench, force, [servers_on, nodes_on])?;
        cost = cost.min(storm.cost);
        rows.extend(rows_of(force, &storm, cost)?);
    }
    Ok(())
}

fn measure(
    bench: &Bench,
    force: Force,
    [servers_on, nodes_on]: [usize; 2],
) -> anyhow::Result<Storm> {
    let servers = {
        let _pinned = Pinned::to(servers_on)?;
        wait(Cluster::start(bench.settings(1)))?
    };
    let server = servers.id(0)?;
    let loops = (force.share - 1) as usize;
    let busy = [Busy::on(servers_on, loops)?, Busy::on(nodes_on, loops)?];
    let before = cpu(server)?;
    let fleet = Fleet {
        nice: 0,
        ..Fleet::only(force.nodes)
    };
    let started = {
        let _pinned = Pinned::to(nodes_on)?;
        Nodesim::begin(&servers, fleet, &RATE.to_string())
    };
    let (mut nodes, begun) = started?;
    let spent = [cpu(server)?.saturating_sub(before), cpu(nodes.id()?)?];
    let peak_kib = peak_memory_kib(server)?;
    drop(busy);
    let missing = begun["missing"].as_u64().context("no count of nodes")?;
    let ways = &begun["stats"]["ways"];
    let sessions = ways["synced"].as_u64().unwrap_or(0) + ways["resumed"].as_u64().unwrap_or(0);
    let expired = expired(&servers.http()?)?;
    if missing > 0 {
        // How it goes on with whole processors says what the collapse left behind.
        eprintln!(
            "   {missing} without a session: {}",
            nodes.tell("live 60")?["missing"]
        );
    }
    std::thread::sleep(SETTLE);
    Ok(Storm {
        took: (missing == 0)
            .then(|| number(&ways["since_mark_ms"]["max"]))
            .transpose()?
            .map(|millis| Duration::from_secs_f64(millis / 1e3)),
        missing,
        sessions,
        expired,
        peak_kib,
        rest_kib: resident_kib(server)?,
        cost: spent[0].max(spent[1]) / u32::try_from(sessions.max(1))?,
        reasons: ways["reasons"].clone(),
    })
}

/// How often a node that lives was taken for silent.
fn expired(http: &Http) -> anyhow::Result<u64> {
    let (nodes, _) = look::nodes(http, 0)?;
    let mut sum = 0;
    for id in nodes.keys() {
        let node = http.get(&format!("/v1/node/{id}"))?;
        let events = node["Events"].as_array().context("no events of a node")?;
        let messages = events.iter().filter_map(|event| event["Message"].as_str());
        sum += messages
            .filter(|text| text.contains("heartbeat missed"))
            .count() as u64;
    }
    Ok(sum)
}

fn rows_of(force: Force, storm: &Storm, cost: Duration) -> anyhow::Result<Vec<Row>> {
    let Force { nodes, share } = force;
    let row = |what: &str, value, unit| {
        let figure = format!("storm of {nodes} new nodes, 1/{share} of a processor, {what}");
        Row::new(NAME, figure, value, unit)
    };
    eprintln!("   ended: {}", reasons(&storm.reasons));
    let nodes = count(nodes as u64)?;
    let arrivals = nodes / f64::from(RATE);
    let ideal = (cost.as_secs_f64() * nodes * f64::from(share)).max(arrivals);
    let mut rows = vec![match storm.took {
        Some(took) => Row {
            floor_value: Some(ideal),
            ..row("all live", took.as_secs_f64(), "s").at_most(GOAL_IDEALS * ideal)
        },
        None => row(
            "without a session after 120 s",
            count(storm.missing)?,
            "nodes",
        )
        .at_most(0.0),
    }];
    let peak = count(storm.peak_kib)? / count(storm.rest_kib)?;
    rows.extend([
        row("sessions made for each", count(storm.sessions)? / nodes, "").at_most(GOAL_SESSIONS),
        row("taken for silent", count(storm.expired)?, "times").at_most(0.0),
        row(
            "memory of the server at rest",
            count(storm.rest_kib)? / 1024.0,
            "MiB",
        ),
        row("its peak, by that", peak, "").at_most(GOAL_PEAK),
    ]);
    Ok(rows)
}

/// The most frequent ends first.
fn reasons(reasons: &Value) -> String {
    let all = reasons.as_object().into_iter().flatten();
    let mut by_count: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (reason, times) in all {
        by_count
            .entry(times.as_u64().unwrap_or(0))
            .or_default()
            .push(reason);
    }
    let lines = by_count.iter().rev().flat_map(|(times, reasons)| {
        reasons
            .iter()
            .map(move |reason| format!("{times} x {reason}"))
    });
    lines.take(6).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_named_by_its_nodes_and_the_share() {
        let force: Force = "2000/4".parse().unwrap();
        assert_eq!((force.nodes, force.share), (2000, 4));
        for wrong in ["2000", "0/1", "1/0", "1/33", "a/1"] {
            wrong.parse::<Force>().unwrap_err();
        }
    }

    #[test]
    fn a_storm_without_end_misses_its_goal() {
        let storm = Storm {
            took: None,
            missing: 7,
            sessions: 300,
            expired: 2,
            peak_kib: 300,
            rest_kib: 200,
            cost: Duration::from_millis(2),
            reasons: Value::Null,
        };
        let force = Force {
            nodes: 100,
            share: 2,
        };
        let rows = rows_of(force, &storm, storm.cost).unwrap();
        let met: Vec<Option<bool>> = rows.iter().map(|row| row.met).collect();
        let no = Some(false);
        assert_eq!(met, [no, no, no, None, no]);
    }
}
