//! From the end of a task until a client that waits for it has the answer. Everything runs on this
//! host, so the clocks are one.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};

use super::runner::{DAY_SECONDS, Runner};
use crate::floor::Quantiles;
use crate::http::{Ask, Http};
use hack_cluster::Cluster;

/// How long a task runs: long enough that its client waits by the time it ends.
const RUNS_FOR: Duration = Duration::from_millis(100);
/// Tasks of one kind that end while something else goes on. Few, as what is timed is the end of a
/// task beside a storm: processes that end by the hundred a second are a storm of their own on so
/// few cores, and on one node each waits for the report of the ones before.
pub(super) const SCATTERED: u32 = 60;
/// Clients that wait for them, each for one task after the other: a server should have more to do
/// than to hold connections, and the next task of a client should not end before the last is seen.
const CLIENTS: usize = 20;
/// Between two ends of a kind at least: nobody's tasks end faster by themselves.
const GAP_MIN: Duration = Duration::from_millis(50);
/// By how much what ends are spread over may take longer than expected: a storm is slower where
/// tasks end in it.
const SPREAD: f64 = 1.6;
/// So many of the slowest are told one by one, with when they were.
const SLOWEST: usize = 5;
/// How long a client asks for an end.
const END_MAX: Duration = Duration::from_secs(120);

/// `count` tasks, one after the other.
///
/// # Errors
/// If one does not end.
pub(super) fn of_count(
    servers: &Cluster,
    runner: &Runner,
    count: usize,
) -> anyhow::Result<Quantiles> {
    let http = servers.http()?;
    let samples = (0..count)
        .map(|number| {
            let id = format!("quiet-{}-{number}", runner.word());
            register(&http, runner, &id, RUNS_FOR)?;
            Ok(seen(&http, runner, &id)?.seen_after)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Quantiles::of(samples).context("no samples")
}

/// The time between two ends, so that they are spread over all of what is expected to take as long
/// as `expected`.
pub(super) fn gap(expected: Duration) -> Duration {
    (expected.mul_f64(SPREAD) / SCATTERED).max(GAP_MIN)
}

/// Tasks that run before something begins, and end one by one while it goes on, each with a client
/// that waits for it.
#[derive(Debug)]
pub(super) struct Scattered {
    jobs: Vec<String>,
    runner: Runner,
}

/// An end, by the clock of the day, and how long it took until it was seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    at: f64,
    seen_after: Duration,
}

impl Scattered {
    /// Starts them, for the storm of this number: the first ends at about `first`, and the others
    /// `gap` apart.
    ///
    /// # Errors
    /// If one is refused.
    pub(super) fn start(
        servers: &Cluster,
        runner: &Runner,
        storm: usize,
        first: Instant,
        gap: Duration,
    ) -> anyhow::Result<Self> {
        let http = servers.http()?;
        let mut jobs = Vec::new();
        for number in 0..SCATTERED {
            let id = format!("stormy-{}-{storm}-{number}", runner.word());
            let ends = first + gap * number;
            let runs_for = ends.saturating_duration_since(Instant::now());
            register(&http, runner, &id, runs_for)?;
            jobs.push(id);
        }
        Ok(Self {
            jobs,
            runner: runner.clone(),
        })
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// If one does not end.
    pub(super) fn follow(&self, servers: &Cluster) -> anyhow::Result<Vec<End>> {
        std::thread::scope(|scope| {
            let client = |number: usize| {
                move || {
                    let http = servers.http()?;
                    let jobs = self.jobs.iter().skip(number).step_by(CLIENTS);
                    jobs.map(|id| seen(&http, &self.runner, id))
                        .collect::<anyhow::Result<Vec<_>>>()
                }
            };
            let clients: Vec<_> = (0..CLIENTS).map(|it| scope.spawn(client(it))).collect();
            let mut ends = Vec::new();
            for client in clients {
                let seen = client.join().map_err(|_| anyhow::anyhow!("a panic"))?;
                ends.extend(seen?);
            }
            Ok(ends)
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

fn register(http: &Http, runner: &Runner, id: &str, runs_for: Duration) -> anyhow::Result<()> {
    let job = runner.job(id, runs_for);
    http.put("/v1/jobs", &job)?;
    Ok(())
}

/// Waits for the end of a job's only task.
fn seen(http: &Http, runner: &Runner, id: &str) -> anyhow::Result<End> {
    let (mut index, deadline) = (0, Instant::now() + END_MAX);
    while Instant::now() < deadline {
        let path = format!("/v1/job/{id}/allocations?index={index}&wait=30s");
        let answer = http.ask(&path)?;
        let seen = seconds_of_day(SystemTime::now())?;
        index = answer.index;
        let alloc = &answer.value[0];
        ensure!(alloc["ClientStatus"] != "failed", "{id} failed: {alloc}");
        if alloc["ClientStatus"] != "complete" {
            continue;
        }
        let at = runner.ended(id, alloc)?;
        // Over midnight, too.
        let seen_after = Duration::from_secs_f64((seen - at).rem_euclid(DAY_SECONDS));
        return Ok(End { at, seen_after });
    }
    anyhow::bail!("job {id} does not end")
}

fn seconds_of_day(time: SystemTime) -> anyhow::Result<f64> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH)?;
    let of_day = Duration::new(since.as_secs() % 86_400, since.subsec_nanos());
    Ok(of_day.as_secs_f64())
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
    fn ends_are_spread_over_all_of_what_is_expected_and_more() {
        let all = |expected| (gap(expected) * SCATTERED).as_secs_f64();
        assert!((all(Duration::from_secs(10)) - 16.0).abs() < 0.01);
        assert_eq!(gap(Duration::from_millis(1)), GAP_MIN);
    }

    #[test]
    fn the_clock_is_that_of_the_day() {
        let clock = SystemTime::UNIX_EPOCH + Duration::from_millis(86_400_000 * 9 + 3_723_500);
        assert!((seconds_of_day(clock).unwrap() - 3723.5).abs() < 1e-9);
    }
}
