//! From the end of a task, by the clock of its node, until a client that waits for it has the
//! answer. Everything runs on this host, so the clocks are one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use serde_json::json;

use super::super::fleet::look;
use super::super::floor::Quantiles;
use crate::cluster::http::Http;
use crate::cluster::servers::Servers;

/// How long a task runs: long enough that its client waits by the time it ends.
const RUNS_FOR: &str = "100ms";
/// How often a client asks again for an end.
const ASKS_MAX: usize = 50;

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

/// As many as there are until `over`, and at least one.
///
/// # Errors
/// If one does not end.
pub(super) fn until(
    servers: &Servers,
    name: &str,
    over: &AtomicBool,
) -> anyhow::Result<Vec<Duration>> {
    let mut http = servers.http()?;
    let mut samples = Vec::new();
    while samples.is_empty() || !over.load(Ordering::Relaxed) {
        let id = format!("{name}-{}", samples.len());
        samples.push(one(&mut http, &id)?);
    }
    Ok(samples)
}

fn one(http: &mut Http, id: &str) -> anyhow::Result<Duration> {
    let job = look::job("batch", id, 1, &json!({"run_for": RUNS_FOR}));
    http.ask("PUT", "/v1/jobs", Some(&job))?.json()?;
    let mut index = 0;
    for _ in 0..ASKS_MAX {
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
        return Ok(Duration::from_secs_f64((seen - ended).rem_euclid(86_400.0)));
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
    fn times_of_the_api_and_of_the_clock_are_one() {
        let text = seconds_of_text("2026-11-22T01:02:03.5Z").unwrap();
        assert!((text - 3723.5).abs() < 1e-9, "{text}");
        let clock = SystemTime::UNIX_EPOCH + Duration::from_millis(86_400_000 * 9 + 3_723_500);
        assert!((seconds_of_day(clock).unwrap() - text).abs() < 1e-9);
        seconds_of_text("yesterday").unwrap_err();
        seconds_of_text("2026-11-22T01:02Z").unwrap_err();
    }
}
