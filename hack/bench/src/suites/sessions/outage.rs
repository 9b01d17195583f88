//! Every node runs something when all of them are cut off at once, and come back at once: what goes
//! on where it was, what is done again, and that nothing runs twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::load::{self, PER_NODE, RUN_TIMEOUT, Run};
use super::silence::wait_noticed;
use super::{NAME, NODES, Scene, look, millis, none_row, say, wait_calm};
use crate::http::Ask as _;
use crate::row::Row;

const ROUNDS: usize = 2;
/// How long everybody stays away once all are noticed: nodes try again ever more rarely.
const AWAY: Duration = Duration::from_secs(10);
/// From the last word of a node until the API shows that it is silent, beside one commit.
const GOAL: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What one outage came to.
struct Round {
    noticed: Duration,
    ready: Duration,
    run: Duration,
    /// Runs that were tolerated and did not go on.
    killed: usize,
    /// Allocations that were seen to run twice at a time.
    twice: usize,
}

/// Outages.
///
/// # Errors
/// If some node does not come back, or something that should run does not.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    eprintln!(
        "-- {ROUNDS} times all of {NODES} nodes are cut off, with {PER_NODE} allocations each"
    );
    load::all_run(scene)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        wait_calm(scene)?;
        rounds.push(one(scene)?);
    }
    let slowest = |of: fn(&Round) -> Duration| rounds.iter().map(of).max().unwrap_or_default();
    let sum = |of: fn(&Round) -> usize| rounds.iter().map(of).sum::<usize>();
    let figure = |what: &str| format!("{NODES} nodes cut off and back at once, {what}");
    let row = |what: &str, value| Row::new(NAME, figure(what), millis(value), "ms");
    let noticed = slowest(|round| round.noticed);
    let goal = GOAL + scene.commit.p50;
    Ok(vec![
        Row {
            floor_value: Some(millis(scene.commit.p50)),
            ..row("the last noticed", noticed).at_most(millis(goal))
        },
        row("all ready again", slowest(|round| round.ready)),
        row("everything runs again", slowest(|round| round.run)),
        runs_row(
            figure("tolerated runs that did not go on"),
            sum(|round| round.killed),
        )?,
        runs_row(
            figure("allocations that ran twice"),
            sum(|round| round.twice),
        )?,
    ])
}

fn runs_row(figure: String, runs: usize) -> anyhow::Result<Row> {
    Ok(Row {
        unit: "runs",
        ..none_row(figure, runs)?
    })
}

fn one(scene: &mut Scene) -> anyhow::Result<Round> {
    let before = load::runs(scene)?;
    let patient = load::wanted(&scene.servers.http()?, load::PATIENT)?;
    let begun = Instant::now();
    let answer = scene.nodes.tell(&format!("cut 0..{NODES}"))?;
    let ids: Vec<String> = serde_json::from_value(answer["ids"].clone())?;
    let (noticed, _) = wait_noticed(scene, &ids, begun)?;
    let noticed = noticed.into_iter().max().unwrap_or_default();
    eprintln!("   all noticed after {} ms", noticed.as_millis());
    std::thread::sleep(AWAY);
    let healed = Instant::now();
    scene.nodes.tell("heal")?;
    let twice = beside(scene, healed)?;
    let stats = scene.nodes.wait_live()?;
    say("ways back", &stats["ways"]);
    look::all_ready(&scene.servers, NODES)?;
    let ready = healed.elapsed();
    let after = load::all_run(scene)?;
    let run = healed.elapsed();
    let went_on = |run: &&Run| after.contains(run);
    let tolerated = before.iter().filter(|run| patient.contains_key(&run.0));
    Ok(Round {
        noticed,
        ready,
        run,
        killed: NODES - tolerated.filter(went_on).count(),
        twice,
    })
}

/// Looks at what runs until every node is back; answers how many allocations were seen to run
/// twice.
fn beside(scene: &mut Scene, healed: Instant) -> anyhow::Result<usize> {
    let mut twice = BTreeSet::new();
    loop {
        let listed = load::listed(scene)?;
        let mut seen = BTreeSet::new();
        let again = listed.into_iter().filter(|run| !seen.insert(run.0.clone()));
        twice.extend(again.map(|run| run.0).collect::<Vec<_>>());
        let (nodes, _) = look::nodes(&scene.servers.http()?, 0)?;
        let ready = nodes.values().filter(|node| node.status == "ready");
        if ready.count() == NODES {
            return Ok(twice.len());
        }
        ensure!(healed.elapsed() < RUN_TIMEOUT, "some nodes did not return");
        std::thread::sleep(LOOK_EVERY);
    }
}
