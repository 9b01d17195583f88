//! Every node's daemon restarts at the same moment: all sessions are made anew at once, beside as
//! many bare QUIC handshakes from the same sockets to the same servers. Each node reports what it
//! runs; its tasks go on.

use anyhow::Context;

use super::load::{self, PER_NODE};
use super::{NAME, NODES, SETTLE, Scene, count, number, say};
use crate::fleet::look;
use crate::http::Ask as _;
use crate::row::Row;

const ROUNDS: usize = 5;
/// Bare handshakes at a time: enough to keep every processor busy, and no more, since what waits
/// behind others runs out of its time.
const AT_ONCE: usize = 64;
/// How much longer than bare handshakes a storm may take.
const GOAL: f64 = 1.5;

/// Storms and handshakes in turn.
///
/// # Errors
/// If some node does not come back.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    eprintln!(
        "-- {ROUNDS} storms of {NODES} reconnects with {PER_NODE} allocations each, and as many \
         bare handshakes beside each"
    );
    load::all_run(scene)?;
    let (mut bare, mut storms, mut bytes, mut entries) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let answer = scene.nodes.tell(&format!("handshakes {NODES} {AT_ONCE}"))?;
        say("bare handshakes", &answer["handshakes"]);
        bare.push(number(&answer["handshakes"]["took_ms"])?);
        std::thread::sleep(SETTLE);
        let leader = scene.servers.leads()?;
        let log = scene.servers.data_dir(leader);
        let (index_before, before) = (look::log_index(&scene.servers)?, look::log_bytes(&log)?);
        scene.nodes.tell(&format!("restart 0..{NODES}"))?;
        let stats = scene.nodes.wait_live()?;
        say("storm", &stats["ways"]);
        look::all_ready(&scene.servers, NODES)?;
        storms.push(number(&stats["ways"]["since_mark_ms"]["max"])?);
        let nodes = f64::from(u32::try_from(NODES)?);
        let after = look::log_bytes(&log)?;
        // Segments that a snapshot made needless are gone: then nothing can be said.
        if let Some(more) = after.checked_sub(before) {
            bytes.push(count(more)? / nodes);
        }
        let index = look::log_index(&scene.servers)?;
        entries.push(count(index - index_before)? / nodes);
        std::thread::sleep(SETTLE);
    }
    // Nothing that was asked of the nodes changed what they run.
    load::all_run(scene)?;
    let moved = slowest(&bare) / bare.iter().copied().fold(f64::INFINITY, f64::min);
    let last = slowest(&storms);
    let (bare, storm) = (median(bare)?, median(storms)?);
    let figure = |what: &str| format!("storm of {NODES} reconnects, {what}");
    let row = |what: &str, value, unit| Row::new(NAME, figure(what), value, unit);
    let floor = format!("floor: {NODES} bare handshakes, {AT_ONCE} at a time");
    Ok(vec![
        Row::new(NAME, floor.as_str(), bare, "ms"),
        // Where the machine does not stand still, the comparison with it says little.
        Row::new(
            NAME,
            format!("{floor}, slowest round by fastest"),
            moved,
            "",
        ),
        Row {
            floor_value: Some(bare),
            ..row("first restart to the last ready", storm, "ms").at_most(GOAL * bare)
        },
        row("first restart to the last ready, slowest round", last, "ms"),
        row("log entries for each node", median(entries)?, ""),
        match median(bytes) {
            Ok(bytes) => row("log bytes for each node", bytes, "B"),
            Err(_) => Row::not_measured(
                NAME,
                figure("log bytes for each node"),
                "segments of the log went in every round, since a snapshot held what they do",
            ),
        },
    ])
}

fn slowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn median(mut values: Vec<f64>) -> anyhow::Result<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().context("no samples")
}
