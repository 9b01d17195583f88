//! Requests through the sockets of tasks: in a second of processor time of noded and the server,
//! and their waits at half of the most that were answered.
//!
//! This process speaks for the tasks (`peers = "any"`), so that they cost nothing. The floor is an
//! echo of a request's size over a Unix socket, in a thread of its own.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hack_cluster::procfs::cpu;

use super::NAME;
use super::scene::Scene;
use crate::Bench;
use crate::row::Row;
use crate::suites::in_memory::cpu_time;
use crate::suites::load::{Answers, Load, Requests, Share, Target, request};

const NODE_LINES: &str = "task_api {\n  peers = \"any\"\n  rate = 100000\n  burst = 100000\n}\n";
const PATH: &str = "/v1/agent/health";
const VARIABLE: &str = "/v1/var/nomad/jobs/api";
const JOB: &str = "api";
/// Echoes of the floor.
const ECHOES: u32 = 100_000;
const ECHO_BYTES: usize = 256;
const GOAL_P50_MS: f64 = 0.3;
const GOAL_P99_MS: f64 = 1.0;

/// See the top of this file.
///
/// # Errors
/// If tasks do not run, or a request is refused.
pub(super) fn measure(
    bench: &Bench,
    tasks: usize,
    lasts: Duration,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    eprintln!("-- {tasks} tasks with sockets");
    let scene = Scene::start(bench, NODE_LINES)?;
    let body = serde_json::json!({ "Items": { "word": "w".repeat(64) } });
    scene.http()?.put(VARIABLE, &body)?;
    let allocs = scene.run_idle(JOB, tasks)?;
    let secrets: Vec<PathBuf> = allocs.iter().map(|alloc| scene.secrets(alloc)).collect();
    let tokens = secrets.iter().map(|folder| {
        let path = folder.join("nomad_token");
        std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    });
    let tokens = tokens.collect::<anyhow::Result<Vec<String>>>()?;
    let sockets = secrets.iter().map(|folder| folder.join("api.sock"));
    let target = Target::Sockets(sockets.collect());
    let floor = echoes_a_cpu_second().context("the floor")?;
    for (path, name) in [(PATH, "agent/health"), (VARIABLE, "var")] {
        let requests = tokens
            .iter()
            .map(|token| request("GET", path, Some(token), ""));
        let requests: Requests = Arc::from_iter(requests);
        let load = Load {
            connections: tasks,
            depth: 1,
            rate: None,
            lasts,
            share: Share::All,
        };
        let (most, spent) = measured(&scene, load, &target, &requests)?;
        let half = most.with(200) / (2 * lasts.as_secs().max(1));
        let paced = Load {
            rate: Some(u32::try_from(half)?),
            ..load
        };
        let (paced, _) = measured(&scene, paced, &target, &requests)?;
        let waits = paced.waits()?;
        let figure = |what: &str| format!("{tasks} sockets, {name}: {what}");
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let a_second = most.with(200) as f64 / spent.as_secs_f64();
        rows.extend([
            Row {
                floor_value: Some(floor),
                ..Row::new(NAME, figure("requests per CPU second"), a_second, "/s")
            },
            Row::new(NAME, figure("most requests"), most.rate(), "/s"),
            Row::new(NAME, figure("at half, p50"), millis(waits.p50), "ms").at_most(GOAL_P50_MS),
            Row::new(NAME, figure("at half, p99"), millis(waits.p99), "ms").at_most(GOAL_P99_MS),
        ]);
    }
    Ok(())
}

/// The answers, and the processor time of noded and the server meanwhile.
fn measured(
    scene: &Scene,
    load: Load,
    target: &Target,
    requests: &Requests,
) -> anyhow::Result<(Answers, Duration)> {
    let spent = || anyhow::Ok(cpu(scene.node.id()?)? + cpu(scene.servers.id(0)?)?);
    let before = spent()?;
    let answers = load.run_at(target, requests)?;
    let spent = spent()?.saturating_sub(before);
    answers.all_are(200)?;
    Ok((answers, spent))
}

/// Echoes over a Unix socket in one second of processor time of the side that answers.
fn echoes_a_cpu_second() -> anyhow::Result<f64> {
    let (mut near, mut far) = UnixStream::pair()?;
    let answers = std::thread::spawn(move || {
        let mut bytes = [0; ECHO_BYTES];
        let before = cpu_time()?;
        for _ in 0..ECHOES {
            far.read_exact(&mut bytes)?;
            far.write_all(&bytes)?;
        }
        anyhow::Ok(cpu_time()?.saturating_sub(before))
    });
    let mut bytes = [0; ECHO_BYTES];
    for _ in 0..ECHOES {
        near.write_all(&bytes)?;
        near.read_exact(&mut bytes)?;
    }
    let spent = answers.join();
    let spent = spent.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    Ok(f64::from(ECHOES) / spent.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_is_a_finite_rate() {
        let floor = echoes_a_cpu_second().unwrap();
        assert!(floor.is_finite() && floor > 0.0, "{floor}");
    }
}
