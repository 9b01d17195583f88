//! Periodic jobs that are due at once: from their time until the last launched job is registered.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use hack_cluster::Cluster;
use serde_json::{Value, json};

use super::NAME;
use crate::Bench;
use crate::http::{Ask as _, wait};
use crate::row::Row;

const CLIENTS: usize = 8;
/// From the due time until the last launched job is registered.
const GOAL_SECONDS: f64 = 5.0;
/// From the first registration until the due time: all registrations have to fit in.
const AHEAD: Duration = Duration::from_secs(60);
const LAUNCHED_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// See the top of this file.
///
/// # Errors
/// If a server fails, or not every job is launched in a minute.
pub(super) fn measure(bench: &Bench, jobs: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- 1 server, {jobs} periodic jobs due at once");
    let servers = wait(Cluster::start(bench.settings(1)))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let due = (now + AHEAD).as_secs();
    register_all(&servers, jobs, due)?;
    let left = UNIX_EPOCH + Duration::from_secs(due);
    let left = left
        .duration_since(SystemTime::now())
        .context("the registrations took longer than the time that was left for them")?;
    thread::sleep(left);
    let http = servers.http()?;
    let last = format!("/v1/job/{}/periodic-{due}", id(jobs.saturating_sub(1)));
    let deadline = Instant::now() + LAUNCHED_TIMEOUT;
    while http.get(&last).is_err() {
        ensure!(Instant::now() < deadline, "{last} was not launched in time");
        thread::sleep(LOOK_EVERY);
    }
    let list = http.get("/v1/jobs?prefix=due-")?;
    let list = list.as_array().context("no list of jobs")?;
    let launched = list.iter().filter(|job| job["ParentID"] != "");
    // The leader's clock when it proposed the entry.
    let times: Vec<i64> = launched
        .filter_map(|job| job["SubmitTime"].as_i64())
        .collect();
    ensure!(
        times.len() == jobs,
        "{} of {jobs} are launched",
        times.len()
    );
    let newest = times.iter().max().copied().unwrap_or(0);
    let late = (newest - i64::try_from(due)? * 1_000_000_000) as f64 / 1e9;
    let figure = format!("{jobs} periodic jobs due at once, one server: last job registered after");
    rows.push(Row::new(NAME, figure, late, "s").at_most(GOAL_SECONDS));
    Ok(())
}

fn register_all(servers: &Cluster, jobs: usize, due: u64) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn(move || -> anyhow::Result<()> {
                    let http = servers.http()?;
                    for number in (client..jobs).step_by(CLIENTS) {
                        http.put("/v1/jobs", &job(&id(number), due))?;
                    }
                    Ok(())
                })
            })
            .collect();
        for client in clients {
            client
                .join()
                .map_err(|_| anyhow::anyhow!("a client panicked"))??;
        }
        Ok(())
    })
}

fn id(number: usize) -> String {
    format!("due-{number:05}")
}

/// A job that is due once a day, at `due`.
fn job(id: &str, due: u64) -> Value {
    let (second, minute, hour) = (due % 60, due / 60 % 60, due / 3600 % 24);
    json!({"Job": {
        "ID": id, "Name": id, "Type": "batch", "Datacenters": ["*"],
        "Periodic": { "Spec": format!("{second} {minute} {hour} * * * *") },
        "TaskGroups": [{
            "Name": "group", "Count": 1,
            "Tasks": [{
                "Name": "true", "Driver": "raw_exec",
                "Config": {"command": "/bin/true"},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            }],
        }],
    }})
}
