//! Starts of tasks with an identity file and without, in turn: from the node's receipt of the
//! allocation to the task's start, as its events say.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::NAME;
use super::scene::{Scene, TASK, job};
use crate::Bench;
use crate::floor::Quantiles;
use crate::http::Http;
use crate::row::Row;

const GOAL_MS: f64 = 1.0;
/// The first starts fill caches; they are no sample.
const WARM_UP: usize = 5;
const LOOK_EVERY: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(30);

/// See the top of this file.
///
/// # Errors
/// If a task does not start.
pub(super) fn measure(bench: &Bench, starts: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- {starts} starts of each kind, in turn");
    let scene = Scene::start(bench, "")?;
    let http = scene.http()?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + starts {
        for (shows, samples) in [(true, &mut with), (false, &mut without)] {
            let took = start(&http, &format!("start-{number}-{shows}"), shows)?;
            if number >= WARM_UP {
                samples.push(took);
            }
        }
    }
    let of = |samples| Quantiles::of(samples).context("no samples");
    let (with, without) = (of(with)?, of(without)?);
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let more = millis(with.p50) - millis(without.p50);
    let figure = |what: &str| format!("received to started, {what}");
    rows.extend([
        Row::new(NAME, figure("identity file, p50"), millis(with.p50), "ms"),
        Row::new(
            NAME,
            figure("no identity file, p50"),
            millis(without.p50),
            "ms",
        ),
        Row::new(NAME, figure("an identity file costs"), more, "ms").at_most(GOAL_MS),
    ]);
    Ok(())
}

/// One start, from the node's receipt on.
fn start(http: &Http, id: &str, shows: bool) -> anyhow::Result<Duration> {
    let config = json!({ "command": "/bin/true" });
    http.put("/v1/jobs", &job(id, "batch", 1, &config, shows))?;
    let deadline = Instant::now() + LONGEST;
    loop {
        let allocs = http.get(&format!("/v1/job/{id}/allocations"))?;
        if let Some(took) = took(&allocs[0]["TaskStates"][TASK]["Events"]) {
            return Ok(took);
        }
        ensure!(Instant::now() < deadline, "{id} did not start: {allocs}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The time between the first two events of these types.
fn took(events: &Value) -> Option<Duration> {
    let at = |kind: &str| {
        let mut events = events.as_array()?.iter();
        events.find(|event| event["Type"] == kind)?["Time"].as_u64()
    };
    let nanos = at("Started")?.checked_sub(at("Received")?)?;
    Some(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_is_between_two_events() {
        let event = |kind: &str, time: u64| json!({ "Type": kind, "Time": time });
        let events = json!([event("Received", 1_000), event("Task Setup", 2_000)]);
        assert_eq!(took(&events), None);
        let events = json!([event("Received", 1_000), event("Started", 4_000)]);
        assert_eq!(took(&events), Some(Duration::from_nanos(3_000)));
    }
}
