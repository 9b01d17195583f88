//! Nodes that fall silent: how soon the API shows it, and whether anybody else is suspected.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::look::{self, Seen};
use super::{NAME, NODES, Scene, millis, none_row};
use crate::floor::Quantiles;
use crate::http::Ask as _;
use crate::row::Row;

const ROUNDS: usize = 5;
/// Nodes that fall silent at a time.
const SILENT: usize = 10;
/// From the last heartbeat until the API shows it, beside one commit.
const GOAL: Duration = Duration::from_secs(3);
/// Beyond that nobody waits.
const NOTICED_TIMEOUT: Duration = Duration::from_secs(20);

/// Pulls the cables of a few nodes, again and again.
///
/// # Errors
/// If they are not noticed at all, or do not come back.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    eprintln!("-- {ROUNDS} times {SILENT} of {NODES} nodes fall silent");
    let (mut noticed, mut suspected) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let before = look::all_ready(&scene.servers, NODES)?;
        let range = format!("{}..{}", round * SILENT, (round + 1) * SILENT);
        let begun = Instant::now();
        let answer = scene.nodes.tell(&format!("cut {range}"))?;
        let ids: Vec<String> = serde_json::from_value(answer["ids"].clone())?;
        let (took, after) = wait_noticed(scene, &ids, begun)?;
        noticed.extend(took);
        suspected += look::left(&before, &after, &ids);
        scene.nodes.tell("heal")?;
        scene.nodes.wait_live()?;
    }
    let slowest = noticed.iter().max().copied().unwrap_or_default();
    let goal = millis(GOAL + scene.commit.p50);
    let figure = |what: &str| format!("silent node noticed, {NODES} sessions, {what}");
    let mut rows = Vec::new();
    if let Some(Quantiles { p50, .. }) = Quantiles::of(noticed) {
        rows.push(Row::new(NAME, figure("p50"), millis(p50), "ms"));
    }
    rows.push(Row {
        floor_value: Some(millis(scene.commit.p50)),
        ..Row::new(NAME, figure("slowest"), millis(slowest), "ms").at_most(goal)
    });
    rows.push(none_row(
        figure("nodes suspected that were well"),
        suspected,
    )?);
    Ok(rows)
}

/// When each of these was first seen not to be ready; and how all are seen then.
///
/// # Errors
/// If they are not noticed in time.
pub(super) fn wait_noticed(
    scene: &Scene,
    ids: &[String],
    begun: Instant,
) -> anyhow::Result<(Vec<Duration>, BTreeMap<String, Seen>)> {
    let http = scene.servers.http()?;
    let mut took: BTreeMap<&String, Duration> = BTreeMap::new();
    let mut index = 0;
    loop {
        let (seen, newer) = look::nodes(&http, index)?;
        index = newer;
        for id in ids {
            if seen.get(id).is_none_or(|node| node.status != "ready") {
                took.entry(id).or_insert_with(|| begun.elapsed());
            }
        }
        if took.len() == ids.len() {
            return Ok((took.into_values().collect(), seen));
        }
        ensure!(
            begun.elapsed() < NOTICED_TIMEOUT,
            "{} of {} silent nodes were noticed",
            took.len(),
            ids.len()
        );
    }
}
