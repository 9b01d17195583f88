//! From the end of a task, by the clock of its node, until a client that waits for it has the
//! answer. Everything runs on this host, so the clocks are one.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use serde_json::json;

use super::super::fleet::look;
use super::super::floor::Quantiles;
use super::TIMED;
use crate::cluster::http::Http;
use crate::cluster::servers::Servers;

/// How long a task runs: long enough that its client waits by the time it ends.
const RUNS_FOR: &str = "100ms";
/// Tasks that end while something else goes on, when the first does, and the time between two.
const SCATTERED: u32 = 60;
const SCATTERED_FROM: Duration = Duration::from_millis(1_000);
const SCATTERED_EVERY: Duration = Duration::from_millis(40);
/// So many of the slowest are told one by one, with when they were.
const SLOWEST: usize = 5;
const DAY_SECONDS: f64 = 86_400.0;
/// How long a client asks for an end.
const END_MAX: Duration = Duration::from_secs(120);

/// `count` tasks, one after the other.
///
/// # Errors
/// If one does not end.
pub(super) fn of_count(servers: &Servers, name: &str, count: usize) -> anyhow::Result<Quantiles> {
    let mut http = servers.http()?;
    let samples = (0..count)
        .map(|number| one(&mut http, &format!("{name}-{number}")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    Quantiles::of(samples).context("no samples")
}

/// Tasks that run before something begins, and end one by one while it goes on, each with a client
/// of its own that waits for it.
#[derive(Debug)]
pub(super) struct Scattered {
    jobs: Vec<String>,
}

/// An end, by the clock of the day, and how long it took until it was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    at: f64,
    seen_after: Duration,
}

impl Scattered {
    /// Starts them: the first ends after [`SCATTERED_FROM`].
    ///
    /// # Errors
    /// If one does not run.
    pub(super) fn start(servers: &Servers, name: &str) -> anyhow::Result<Self> {
        let mut http = servers.http()?;
        let mut jobs = Vec::new();
        for number in 0..SCATTERED {
            let id = format!("{name}-{number}");
            let runs_for = SCATTERED_FROM + SCATTERED_EVERY * number;
            let mock = json!({"run_for": format!("{}ms", runs_for.as_millis())});
            let job = look::on_class(look::job("batch", &id, 1, &mock), TIMED.class);
            http.ask("PUT", "/v1/jobs", Some(&job))?.json()?;
            jobs.push(id);
        }
        Ok(Self { jobs })
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// If one does not end.
    pub(super) fn follow(&self, servers: &Servers) -> anyhow::Result<Vec<End>> {
        std::thread::scope(|scope| {
            let follow = |id| move || seen(&mut servers.http()?, id);
            let clients: Vec<_> = self.jobs.iter().map(|id| scope.spawn(follow(id))).collect();
            let ends = clients.into_iter().map(|client| {
                let end = client.join();
                end.map_err(|_| anyhow::anyhow!("a panic"))?
            });
            ends.collect()
        })
    }
}

/// How long ends between two times of a day took to be seen, each with how long after the first
/// time it was, in seconds.
pub(super) fn between(ends: &[End], from: f64, until: f64) -> Vec<(f64, Duration)> {
    let after = |at: f64| (at - from).rem_euclid(DAY_SECONDS);
    let within = ends.iter().filter(|end| after(end.at) <= after(until));
    within.map(|end| (after(end.at), end.seen_after)).collect()
}

/// The slowest of them, in words.
pub(super) fn slowest(ends: &[(f64, Duration)]) -> String {
    let mut ends = ends.to_vec();
    ends.sort_by_key(|(_, seen_after)| std::cmp::Reverse(*seen_after));
    let told = ends.iter().take(SLOWEST);
    let told = told.map(|(at, seen_after)| format!("{} ms at {at:.1} s", seen_after.as_millis()));
    told.collect::<Vec<_>>().join(", ")
}

/// Now, in seconds of the day.
pub(super) fn now() -> anyhow::Result<f64> {
    seconds_of_day(SystemTime::now())
}

fn one(http: &mut Http, id: &str) -> anyhow::Result<Duration> {
    let job = look::job("batch", id, 1, &json!({"run_for": RUNS_FOR}));
    let job = look::on_class(job, TIMED.class);
    http.ask("PUT", "/v1/jobs", Some(&job))?.json()?;
    Ok(seen(http, id)?.seen_after)
}

/// Waits for the end of a job's only task.
fn seen(http: &mut Http, id: &str) -> anyhow::Result<End> {
    let (mut index, deadline) = (0, Instant::now() + END_MAX);
    while Instant::now() < deadline {
        let path = format!("/v1/job/{id}/allocations?index={index}&wait=5s");
        let answer = http.ask("GET", &path, None)?;
        let seen = seconds_of_day(SystemTime::now())?;
        index = answer.index;
        let allocs = answer.json()?;
        let alloc = &allocs[0];
        if alloc["ClientStatus"] != "complete" {
            continue;
        }
        let ended = alloc["TaskStates"]["task"]["FinishedAt"].as_str();
        let ended = seconds_of_text(ended.context("an end without a time")?)?;
        // Over midnight, too.
        let seen_after = Duration::from_secs_f64((seen - ended).rem_euclid(DAY_SECONDS));
        let at = ended;
        return Ok(End { at, seen_after });
    }
    anyhow::bail!("job {id} does not end")
}

fn seconds_of_day(time: SystemTime) -> anyhow::Result<f64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH)?;
    let of_day = Duration::new(since.as_secs() % 86_400, since.subsec_nanos());
    Ok(of_day.as_secs_f64())
}

/// Of a time in UTC as RFC 3339 writes it.
fn seconds_of_text(text: &str) -> anyhow::Result<f64> {
    let clock = text
        .split_once('T')
        .and_then(|(_, clock)| clock.strip_suffix('Z'))
        .with_context(|| format!("{text} is no time in UTC"))?;
    let parts: Vec<f64> = clock
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("read the time {text}"))?;
    ensure!(parts.len() == 3, "{text} is no time of a day");
    Ok((parts[0] * 60.0 + parts[1]) * 60.0 + parts[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_count_that_lie_within_the_span_over_midnight_too() {
        let end = |at| End {
            at,
            seen_after: Duration::from_millis(1),
        };
        let ends = [86_398.0, 86_399.5, 0.5, 2.5].map(end);
        assert_eq!(between(&ends, 86_399.0, 1.0).len(), 2);
        assert_eq!(between(&ends, 0.0, 86_399.0).len(), 3);
    }

    #[test]
    fn times_of_the_api_and_of_the_clock_are_one() {
        let text = seconds_of_text("2026-11-22T01:02:03.5Z").unwrap();
        assert!((text - 3723.5).abs() < 1e-9, "{text}");
        let clock = SystemTime::UNIX_EPOCH + Duration::from_millis(86_400_000 * 9 + 3_723_500);
        assert!((seconds_of_day(clock).unwrap() - text).abs() < 1e-9);
        seconds_of_text("yesterday").unwrap_err();
        seconds_of_text("2026-11-22T01:02Z").unwrap_err();
    }
}
