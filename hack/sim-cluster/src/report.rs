//! Many runs, what they add up to, and all that is worth saying of a failure.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Context;
use hack_sim::shrink::fewer;

use crate::arguments::Replay;
use crate::eyes::Failure;
use crate::mutant::Mutant;
use crate::schedule::{Scenario, Schedule, Settings, scenario_of};
use crate::world::{Ended, run};

/// Lines of a trace that a failure shows.
const TRACE_LINES: usize = 60;
/// Runs that one shrinking may take: each takes seconds, not milliseconds.
const SHRINK_RUNS_MAX: u32 = 60;

/// What a series of runs came to.
#[derive(Debug, Default)]
pub struct Totals {
    pub runs: u64,
    pub lasted: Duration,
    pub took: Duration,
    pub faults: usize,
    pub entries: u64,
    pub packets: u64,
    pub lost: u64,
    pub rest_max: Duration,
    pub failures: Vec<(Settings, Failure)>,
}

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, settings: &Settings, ended: &Ended) {
        self.runs += 1;
        self.lasted += ended.lasted;
        self.faults += ended.faults;
        self.entries += ended.entries;
        self.packets += ended.packets.sent;
        self.lost += ended.packets.lost + ended.packets.cut;
        self.rest_max = self.rest_max.max(ended.rested_in.unwrap_or_default());
        if let Some(failure) = &ended.failure {
            self.failures.push((settings.clone(), failure.clone()));
        }
    }

    /// Simulated seconds in a second of this host.
    pub fn speed(&self) -> f64 {
        self.lasted.as_secs_f64() / self.took.as_secs_f64().max(1e-9)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} failed; {:.0} simulated seconds = {:.2} hours in {:.1} s",
            self.runs,
            self.failures.len(),
            self.lasted.as_secs_f64(),
            self.lasted.as_secs_f64() / 3600.0,
            self.took.as_secs_f64(),
        )?;
        writeln!(
            f,
            "{:.1} simulated seconds a second on one core; {} faults, {} entries, {} packets, {} \
             of them lost; at rest within {:.1} s",
            self.speed(),
            self.faults,
            self.entries,
            self.packets,
            self.lost,
            self.rest_max.as_secs_f64(),
        )
    }
}

/// How long a series goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// So many seeds.
    Seeds(u64),
    /// So much real time.
    Time(Duration),
}

/// Runs seeds from `first.seed` on; stops after `failures_max` failures. With `all` it goes through
/// all scenarios. `told` hears after each run what they came to so far.
///
/// # Errors
/// Where a cluster cannot even be put together.
pub fn series(
    first: &Settings,
    all: bool,
    until: Until,
    failures_max: usize,
    told: &mut dyn FnMut(&Totals),
) -> anyhow::Result<Totals> {
    let begun = Instant::now();
    let mut totals = Totals::default();
    let mut seed = first.seed;
    loop {
        let over = match until {
            Until::Seeds(count) => totals.runs >= count,
            Until::Time(span) => begun.elapsed() >= span,
        };
        if over || totals.failures.len() >= failures_max {
            break;
        }
        let settings = Settings {
            seed,
            scenario: if all {
                scenario_of(seed)
            } else {
                first.scenario
            },
            ..first.clone()
        };
        let ended = run(&settings, 0).with_context(|| Replay(&settings).to_string())?;
        totals.add(&settings, &ended);
        told(&totals);
        seed += 1;
    }
    totals.took = begun.elapsed();
    Ok(totals)
}

/// The smallest settings found under which the same invariant breaks.
///
/// # Errors
/// As [`run`].
pub fn shrink(settings: &Settings, invariant: &str) -> anyhow::Result<Settings> {
    let schedule = Schedule::of(settings);
    let faults = schedule.faults.iter().map(|it| it.number).collect();
    let ops = schedule.ops.iter().map(|it| it.number).collect();
    let (mut best, mut runs) = (settings.clone(), 0);
    let mut still_fails = |settings: &Settings| {
        runs += 1;
        let failure = (runs <= SHRINK_RUNS_MAX).then(|| run(settings, 0));
        let failure = failure.and_then(|ended| ended.ok()?.failure);
        failure.is_some_and(|failure| failure.invariant == invariant)
    };
    let with_faults = |best: &Settings, kept: &[u32]| Settings {
        keep_faults: Some(kept.to_vec()),
        ..best.clone()
    };
    let kept = fewer(faults, |kept| still_fails(&with_faults(&best, kept)));
    best = with_faults(&best, &kept);
    let with_ops = |best: &Settings, kept: &[u32]| Settings {
        keep_ops: Some(kept.to_vec()),
        ..best.clone()
    };
    let kept = fewer(ops, |kept| still_fails(&with_ops(&best, kept)));
    best = with_ops(&best, &kept);
    Ok(best)
}

/// All that is worth saying of a failure: the smallest case, the last events, the replay line.
///
/// # Errors
/// As [`run`].
pub fn describe(settings: &Settings, failure: &Failure) -> anyhow::Result<String> {
    let smaller = shrink(settings, failure.invariant)?;
    let ended = run(&smaller, TRACE_LINES)?;
    let mut text = format!(
        "FAILED: {failure}\n  as found:  {}\n  a replay repeats faults, wishes and their times, not \
         elections, keys and ids\n",
        Replay(settings)
    );
    let again = ended.failure.filter(|it| it.invariant == failure.invariant);
    match again {
        Some(again) => {
            text.push_str(&format!("  smallest:  {}\n  {again}\n", Replay(&smaller)));
            text.push_str("  its last events:\n");
        }
        None => text.push_str("  which holds mostly; the last events of another run of it:\n"),
    }
    for line in ended.trace {
        text.push_str(&format!("    {line}\n"));
    }
    Ok(text)
}

/// How a planted bug was found.
#[derive(Debug)]
pub struct Found {
    pub mutant: Mutant,
    /// The seeds that were needed, and what broke; `None` = it was not found.
    pub by: Option<(u64, Failure)>,
    /// A seed on the way there that fails without the bug as well: another bug, a real one.
    pub healthy: Option<(Settings, Failure)>,
    pub took: Duration,
}

/// Looks for a planted bug, seed after seed. The seed that fails is run without the bug, too: then
/// nothing may break.
///
/// # Errors
/// As [`run`].
pub fn hunt(mutant: Mutant, seconds: Option<u64>, seeds_max: u64) -> anyhow::Result<Found> {
    let begun = Instant::now();
    let scenario: Scenario = mutant.scenario();
    let (mut by, mut healthy) = (None, None);
    for seed in 0..seeds_max {
        let without = Settings {
            scenario,
            seconds,
            ..Settings::of(seed)
        };
        let planted = Settings {
            mutant: Some(mutant),
            ..without.clone()
        };
        if let Some(failure) = run(&planted, 0)?.failure {
            match run(&without, 0)?.failure {
                None => by = Some((seed + 1, failure)),
                Some(real) => healthy = Some((without, real)),
            }
            break;
        }
    }
    Ok(Found {
        mutant,
        by,
        healthy,
        took: begun.elapsed(),
    })
}
