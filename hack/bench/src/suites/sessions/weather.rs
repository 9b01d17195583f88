//! Bad weather between all nodes and the servers: a third of all packets is lost, the others are
//! late and overtake each other, in both directions. Nodes that are well are watched for a while;
//! then some of them fall silent.

use std::time::{Duration, Instant};

use anyhow::Context;
use hack_cluster::procfs::cpu;

use super::silence::wait_noticed;
use super::{NAME, NODES, Scene, count, look, millis, none_row, say};
use crate::fleet::servers;
use crate::floor::Quantiles;
use crate::http::Ask as _;
use crate::row::Row;

/// Of a hundred packets so many are lost.
const LOSS_PERCENT: u32 = 30;
/// The others are late by up to this.
const JITTER: Duration = Duration::from_millis(300);
/// How often it is told how it goes.
const TELL_EVERY: Duration = Duration::from_secs(10);
const ROUNDS: usize = 3;
/// Nodes that fall silent at a time.
const SILENT: usize = 10;

/// Makes the weather bad for `span` and as long as nodes fall silent in it, then calm again.
///
/// # Errors
/// If nodes that fall silent are not noticed at all, or some do not come back.
pub(super) fn rows(scene: &mut Scene, span: Duration) -> anyhow::Result<Vec<Row>> {
    let (jitter, seconds) = (JITTER.as_millis(), span.as_secs());
    let weather = format!("{LOSS_PERCENT} % loss and {jitter} ms jitter");
    eprintln!("-- {weather} for {seconds} s, with {NODES} sessions");
    let mut rows = watch_the_well(scene, &weather, span)?;
    eprintln!("-- {weather}: {ROUNDS} times {SILENT} of {NODES} nodes fall silent");
    rows.extend(watch_the_silent(scene, &weather)?);
    scene.nodes.tell("weather 0 0")?;
    scene.nodes.tell("heal")?;
    scene.nodes.wait_live()?;
    look::all_ready(&scene.servers, NODES)?;
    Ok(rows)
}

/// Whether a node that lives is taken for silent, and what it costs that none is.
fn watch_the_well(scene: &mut Scene, weather: &str, span: Duration) -> anyhow::Result<Vec<Row>> {
    let before = look::all_ready(&scene.servers, NODES)?;
    let leader = scene.servers.leads()?;
    let processes = [scene.servers.id(leader)?, scene.nodes.id()?];
    let cpu_now = || processes.map(cpu);
    scene.nodes.tell("mark")?;
    scene
        .nodes
        .tell(&format!("weather {LOSS_PERCENT} {}", JITTER.as_millis()))?;
    let (begun, cpu_before) = (Instant::now(), cpu_now());
    while begun.elapsed() < span {
        std::thread::sleep(TELL_EVERY.min(span.saturating_sub(begun.elapsed())));
        let (seen, _) = look::nodes(&scene.servers.http()?, 0)?;
        let gone = look::left(&before, &seen, &[]);
        let seconds = begun.elapsed().as_secs();
        let servers = servers::describe(&scene.servers);
        eprintln!("   {seconds} s: {gone} nodes left ready; {servers}");
    }
    let (took, cpu_after) = (begun.elapsed(), cpu_now());
    let (after, _) = look::nodes(&scene.servers.http()?, 0)?;
    let mut answer = scene.nodes.tell("stats")?;
    let stats = answer["stats"].take();
    say("packets", &stats["weather"]);
    say("sessions", &stats["ways"]);
    let moved = stats["ways"]["resumed"].as_u64().context("no sessions")?;
    let again = stats["ways"]["synced"].as_u64().context("no sessions")?;
    let row =
        |figure: &str, value, unit| Row::new(NAME, format!("{weather}, {figure}"), value, unit);
    let mut shares = Vec::new();
    for (before, after) in cpu_before.into_iter().zip(cpu_after) {
        shares.push((after? - before?).as_secs_f64() / took.as_secs_f64() * 100.0);
    }
    Ok(vec![
        none_row(
            format!(
                "{weather}, {} s, nodes suspected that were well",
                span.as_secs()
            ),
            look::left(&before, &after, &[]),
        )?,
        row("sessions that moved in that time", count(moved)?, ""),
        row("sessions that began anew in that time", count(again)?, ""),
        row("processor, leader", shares[0], "%"),
        row("processor, all nodes together", shares[1], "%"),
    ])
}

/// How soon it is noticed there that a node is gone. No goal: what a node said last may arrive as
/// late as the weather makes it, and the promise counts from there.
fn watch_the_silent(scene: &mut Scene, weather: &str) -> anyhow::Result<Vec<Row>> {
    let (mut noticed, mut suspected, mut cut) = (Vec::new(), 0, Vec::new());
    for round in 0..ROUNDS {
        let (before, _) = look::nodes(&scene.servers.http()?, 0)?;
        let range = format!("{}..{}", round * SILENT, (round + 1) * SILENT);
        let begun = Instant::now();
        let answer = scene.nodes.tell(&format!("cut {range}"))?;
        let ids: Vec<String> = serde_json::from_value(answer["ids"].clone())?;
        cut.extend(ids.iter().cloned());
        let was_ready = |id: &String| before.get(id).is_some_and(|node| node.status == "ready");
        let ids: Vec<String> = ids.into_iter().filter(was_ready).collect();
        let (took, after) = wait_noticed(scene, &ids, begun)?;
        noticed.extend(took);
        suspected += look::left(&before, &after, &cut);
    }
    let figure = |what: &str| format!("{weather}, silent node noticed, {what}");
    let slowest = noticed.iter().max().copied().unwrap_or_default();
    let Quantiles { p50, .. } = Quantiles::of(noticed).context("no node was ready")?;
    Ok(vec![
        Row::new(NAME, figure("p50"), millis(p50), "ms"),
        Row::new(NAME, figure("slowest"), millis(slowest), "ms"),
        none_row(figure("nodes suspected that were well"), suspected)?,
    ])
}
