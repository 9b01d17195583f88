//! `kill -9` of each server: whether a node leaves `ready`, and how soon a new leader places.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::{
    NAME, NODES, Scene, give_share, look, millis, none_row, number, register, say, wait_calm,
};
use crate::fleet::servers;
use crate::floor::Quantiles;
use crate::http::Ask as _;
use crate::row::Row;
use hack_cluster::Cluster;

/// Longer than a silent node is waited for, with everything that is added to that where somebody
/// has led for as long as nodes need to come back.
const AFTERMATH: Duration = Duration::from_secs(8);
/// A connection to a server that was killed is known to be gone by then: the transport's idle
/// timeout is twelve seconds. Until then a node may stand by at a server that no longer knows it,
/// and this is about one server that dies, not two.
const FORGOTTEN: Duration = Duration::from_secs(13);
/// How often the leader is killed.
const LEADERS: usize = 5;
/// From the leader's death to the first placement by the next one.
const GOAL: Duration = Duration::from_secs(2);
const PLACED_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How the next leader took over; all since the death of the one before.
#[derive(Debug, Clone, Copy)]
struct Takeover {
    /// A server says that it leads.
    leads: Duration,
    /// A job that was submitted to it then is placed.
    able: Duration,
    /// A job that was submitted the moment the leader died, to a server that did not know it yet,
    /// is in the log.
    accepted: Duration,
    /// It is placed.
    placed: Duration,
}

/// Kills one follower after the other, then the leader again and again.
///
/// # Errors
/// If the cluster does not recover.
pub(super) fn rows(scene: &mut Scene) -> anyhow::Result<Vec<Row>> {
    wait_calm(scene)?;
    let mut rows = Vec::new();
    let leader = scene.servers.leads()?;
    for follower in (0..scene.servers.len()).filter(|number| *number != leader) {
        eprintln!("-- kill -9 of a follower, with {NODES} sessions");
        let death = kill(scene, follower, |_, _| Ok(()))?;
        let figure = "kill -9 of a follower, nodes that left ready";
        rows.push(none_row(figure, death.left_ready)?);
    }
    let (mut takeovers, mut moved, mut left_ready) = (Vec::new(), Vec::new(), 0);
    for round in 1..=LEADERS {
        let leader = scene.servers.leads()?;
        eprintln!("-- kill -9 of the leader, {round} of {LEADERS}, with {NODES} sessions");
        let id = format!("after-leader-{round}");
        let death = kill(scene, leader, |scene, since| {
            take_over(scene, leader, &id, since)
        })?;
        eprintln!("   next leader: {:?}", death.watched);
        takeovers.push(death.watched);
        moved.push(death.moved_ms);
        left_ready += death.left_ready;
    }
    rows.extend(takeover_rows(scene, &takeovers)?);
    rows.push(Row::new(
        NAME,
        "kill -9 of the leader, its last session elsewhere",
        moved.into_iter().fold(0.0, f64::max),
        "ms",
    ));
    let figure = format!("kill -9 of the leader, {LEADERS} times, nodes that left ready");
    rows.push(none_row(figure, left_ready)?);
    Ok(rows)
}

/// What came of the death of a server.
struct Death<T> {
    /// Nodes that left `ready` until all was calm again.
    left_ready: usize,
    /// When the last of the sessions that moved had moved; 0 where none had to.
    moved_ms: f64,
    /// What was watched meanwhile.
    watched: T,
}

/// Kills a server, and starts it again when what comes of it is over.
fn kill<T>(
    scene: &mut Scene,
    server: usize,
    watch: impl FnOnce(&Scene, Instant) -> anyhow::Result<T>,
) -> anyhow::Result<Death<T>> {
    give_share(scene, server)?;
    let before = look::all_ready(&scene.servers, NODES)?;
    eprintln!("   before: {}", servers::describe(&scene.servers));
    scene.nodes.tell("mark")?;
    scene.servers.kill(server)?;
    let killed = Instant::now();
    let watched = watch(scene, killed)?;
    std::thread::sleep(AFTERMATH.saturating_sub(killed.elapsed()));
    let stats = scene.nodes.wait_live()?;
    eprintln!("   after:  {}", servers::describe(&scene.servers));
    say("sessions", &stats["ways"]);
    scene.servers.spawn(server)?;
    std::thread::sleep(FORGOTTEN.saturating_sub(killed.elapsed()));
    wait_calm(scene)?;
    let after = look::all_ready(&scene.servers, NODES)?;
    Ok(Death {
        left_ready: look::left(&before, &after, &[]),
        moved_ms: number(&stats["ways"]["since_mark_ms"]["max"])?,
        watched,
    })
}

/// Who leads next, and a job that is submitted the moment the leader dies.
fn take_over(scene: &Scene, killed: usize, id: &str, since: Instant) -> anyhow::Result<Takeover> {
    let servers = &scene.servers;
    let other = (killed + 1) % servers.len();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| {
            let leads = until(since, || Ok(servers.leads().is_ok()))?;
            let leader = servers.leads().unwrap_or(other);
            let id = format!("{id}-soon");
            until(since, || register(scene, leader, &id).map(|()| true))?;
            let able = until(since, || is_placed(servers, leader, &id))?;
            anyhow::Ok((leads, able))
        });
        let accepted = until(since, || register(scene, other, id).map(|()| true))?;
        let placed = until(since, || is_placed(servers, other, id))?;
        let Ok(next) = next.join() else {
            bail!("the search for a leader panicked");
        };
        let (leads, able) = next?;
        Ok(Takeover {
            leads,
            able,
            accepted,
            placed,
        })
    })
}

fn is_placed(servers: &Cluster, through: usize, id: &str) -> anyhow::Result<bool> {
    let path = format!("/v1/job/{id}/allocations");
    let allocs = servers.http_of(through)?.get(&path)?;
    Ok(allocs.as_array().is_some_and(|allocs| !allocs.is_empty()))
}

/// How long after `since` something first held. Errors are waited out: nobody leads for a while.
fn until(since: Instant, holds: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<Duration> {
    loop {
        match holds() {
            Ok(true) => return Ok(since.elapsed()),
            Ok(false) => ensure!(since.elapsed() < PLACED_TIMEOUT, "no new leader does it"),
            Err(error) if since.elapsed() >= PLACED_TIMEOUT => return Err(error),
            Err(_) => {}
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The whole way, and where its time goes.
fn takeover_rows(scene: &Scene, takeovers: &[Takeover]) -> anyhow::Result<Vec<Row>> {
    let row = |figure: &str, value| {
        Row::new(
            NAME,
            format!("kill -9 of the leader, {figure}"),
            millis(value),
            "ms",
        )
    };
    let mut rows = Vec::new();
    let mut push = |figure: &str, of: fn(&Takeover) -> Duration, goal: Option<Duration>| {
        let samples: Vec<Duration> = takeovers.iter().map(of).collect();
        let slowest = samples.iter().max().copied().unwrap_or_default();
        let Quantiles { p50, .. } = Quantiles::of(samples).context("no samples")?;
        rows.push(row(&format!("{figure}, p50"), p50));
        let slowest = row(&format!("{figure}, slowest"), slowest);
        rows.push(match goal {
            Some(goal) => Row {
                floor_value: Some(millis(scene.commit.p50)),
                ..slowest.at_most(millis(goal))
            },
            None => slowest,
        });
        anyhow::Ok(())
    };
    push("the next one leads", |it| it.leads, None)?;
    push(
        "from there to the placement of a job that it is asked for",
        |it| it.able.saturating_sub(it.leads),
        None,
    )?;
    push(
        "from there to a job in the log that was submitted at once",
        |it| it.accepted.saturating_sub(it.leads),
        None,
    )?;
    push(
        "from there to the placement of that",
        |it| it.placed.saturating_sub(it.accepted.max(it.leads)),
        None,
    )?;
    push("first placement by the next", |it| it.placed, Some(GOAL))?;
    Ok(rows)
}
