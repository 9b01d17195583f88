//! What is answered to commands. Field names are the interface: benches and tests read them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::net::weather::Met;
use crate::progress::{Sample, Stage, Travelled};

/// How many nodes are where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stages {
    /// Between two attempts.
    pub away: usize,
    /// A connection is being made.
    pub connecting: usize,
    /// Hello was sent.
    pub greeting: usize,
    /// The complete report was sent.
    pub syncing: usize,
    /// In a session, as far as they know.
    pub live: usize,
}

impl Stages {
    /// Counts.
    pub fn of(stages: impl Iterator<Item = Stage>) -> Self {
        let mut counts = Self::default();
        for stage in stages {
            *match stage {
                Stage::Away => &mut counts.away,
                Stage::Connecting => &mut counts.connecting,
                Stage::Greeting => &mut counts.greeting,
                Stage::Syncing => &mut counts.syncing,
                Stage::Live => &mut counts.live,
            } += 1;
        }
        counts
    }
}

/// Milliseconds of an unordered sample; all zero where it is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half took no longer.
    pub p50: f64,
    /// All but one in a hundred took no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Spread {
    /// Of these durations.
    pub fn of(durations: impl Iterator<Item = Duration>) -> Self {
        let mut sorted: Vec<Duration> = durations.collect();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else {
            return Self::default();
        };
        let at = |percent: usize| sorted[last * percent / 100].as_secs_f64() * 1e3;
        Self {
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

/// The ways to live sessions since the last mark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ways {
    /// Sessions that went on where they were.
    pub resumed: usize,
    /// Sessions that began with a complete report.
    pub synced: usize,
    /// Those of both that were made on a connection that stood by; the parts of the way are of the
    /// others.
    pub promoted: usize,
    /// Sessions that a server refused.
    pub refusals: u64,
    /// Attempts and sessions whose connection ended.
    pub breaks: u64,
    /// Why both, and how often.
    pub reasons: BTreeMap<String, u64>,
    /// From the first packet until the connection stood.
    pub connect_ms: Spread,
    /// From there until the Welcome.
    pub greet_ms: Spread,
    /// From there until the answer to the complete report, where there was one.
    pub sync_ms: Spread,
    /// All three together.
    pub whole_ms: Spread,
    /// From the mark until the session lived.
    pub since_mark_ms: Spread,
}

impl Ways {
    /// Of what was travelled.
    pub fn of(travelled: &Travelled) -> Self {
        let Travelled {
            samples,
            refusals,
            breaks,
            reasons,
        } = travelled;
        let whole = || samples.iter().filter(|sample| !sample.promoted);
        let spread = |of: fn(&Sample) -> Duration| Spread::of(whole().map(of));
        let resumed = samples.iter().filter(|sample| sample.resumed).count();
        let synced = samples.iter().filter(|sample| !sample.resumed);
        Self {
            resumed,
            synced: samples.len() - resumed,
            promoted: samples.len() - whole().count(),
            refusals: *refusals,
            breaks: *breaks,
            reasons: reasons.clone(),
            connect_ms: spread(|sample| sample.connect),
            greet_ms: spread(|sample| sample.greet),
            sync_ms: Spread::of(synced.map(|sample| sample.sync)),
            whole_ms: spread(|sample| sample.connect + sample.greet + sample.sync),
            since_mark_ms: Spread::of(samples.iter().map(|sample| sample.since_mark)),
        }
    }
}

/// What the process costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Resident memory of the process, KiB.
    pub rss_kib: u64,
    /// What it grew by for each node since before the first one, KiB.
    pub per_node_kib: f64,
    /// Processor time of the process so far, seconds.
    pub cpu_seconds: f64,
    /// Connections that are open.
    pub connections: usize,
}

/// The answer to `stats`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// All nodes.
    pub nodes: usize,
    /// Those that are cut off.
    pub cut: usize,
    /// Where all of them are.
    pub stages: Stages,
    /// Packets that cuts took.
    pub dropped_packets: u64,
    /// Datagrams that met bad weather.
    pub weather: Met,
    /// How they got there since the last mark.
    pub ways: Ways,
    /// Runs of tasks that go on.
    pub running: usize,
    /// Runs that began.
    pub starts: u64,
    /// Runs that were asked to end.
    pub stops: u64,
    /// Runs that ended.
    pub ends: u64,
    /// What the process costs.
    pub cost: Cost,
}

/// Resident memory of this process in KiB; 0 where the kernel does not tell.
pub fn rss_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Processor time of this process in seconds, by the kernel's hundredths of one.
pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; user and system time are fields 14 and 15
    // (proc_pid_stat(5)).
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = rest.split(' ').skip(11).take(2);
    let ticks: u32 = ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    f64::from(ticks) / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_taken_from_the_ordered_sample() {
        let sample = (1..=101).rev().map(Duration::from_millis);
        let spread = Spread::of(sample);
        assert_eq!((spread.p50, spread.p99, spread.max), (51.0, 100.0, 101.0));
        assert_eq!(Spread::of(std::iter::empty()), Spread::default());
    }

    #[test]
    fn the_kernel_tells_what_this_process_costs() {
        assert!(rss_kib() > 0);
        let before = cpu_seconds();
        while cpu_seconds() <= before {
            std::hint::black_box(rss_kib());
        }
    }
}
