//! Many runs, and what they add up to.

use std::fmt;
use std::time::{Duration, Instant};

use crate::arguments::Replay;
use crate::counts::Counts;
use crate::figures::Figures;
use crate::mutant::Mutant;
use crate::run::{Ended, YEAR, explain, run, seconds};
use crate::schedule::{STATE_CHECK_EVERY, Scenario, Settings};
use crate::shrink::shrink;
use crate::silence::MANY;
use crate::stopwatch::Stopwatch;
use crate::time::Nanos;

/// Every scenario that a series goes through, Storm most often.
pub const ROUND: [Scenario; 31] = [
    Scenario::Storm,
    Scenario::Leaders,
    Scenario::Storm,
    Scenario::Partition,
    Scenario::Storm,
    Scenario::PartitionWindow,
    Scenario::Storm,
    Scenario::Shutdown,
    Scenario::Storm,
    Scenario::ShutdownWindow,
    Scenario::Outage,
    Scenario::OneServer,
    Scenario::Calm,
    Scenario::Lossy,
    Scenario::Handover,
    Scenario::Log,
    Scenario::Lagging,
    Scenario::Offline,
    Scenario::Damaged,
    Scenario::Leased,
    Scenario::Rolling,
    Scenario::Canary,
    Scenario::Periodic,
    Scenario::Drain,
    Scenario::Dispatch,
    Scenario::Preempt,
    Scenario::Keys,
    Scenario::Locks,
    Scenario::Stuck,
    Scenario::Operators,
    Scenario::SessionStorm,
];

/// What a series of runs came to.
#[derive(Debug, Default)]
pub struct Totals {
    pub runs: u64,
    pub lasted: Nanos,
    pub steps: u64,
    /// CPU time.
    pub took: Duration,
    pub counts: Counts,
    pub figures: Figures,
    pub failures: Vec<(Settings, Ended)>,
}

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, settings: &Settings, ended: Ended) {
        self.runs += 1;
        self.lasted += ended.lasted;
        self.steps += ended.steps;
        self.counts.add(&ended.counts);
        self.figures.add(&ended.figures);
        if ended.failure.is_some() {
            self.failures.push((settings.clone(), ended));
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.took.as_secs_f64().max(1e-9);
        let simulated = seconds(self.lasted);
        writeln!(
            f,
            "{} runs, {} failed; {simulated:.0} simulated seconds = {:.4} years in {took:.1} CPU-s",
            self.runs,
            self.failures.len(),
            simulated / YEAR,
        )?;
        writeln!(
            f,
            "{:.0} simulated seconds a CPU-second, {:.0} steps a CPU-second",
            simulated / took,
            self.steps as f64 / took,
        )?;
        self.figures.fmt(f)?;
        self.counts.fmt(f)
    }
}

/// How long a series goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// So many seeds.
    Seeds(u64),
    /// So much real time.
    Time(Duration),
}

/// Runs seeds from `first.seed` on; stops after `failures_max` failures. Without a scenario of its
/// own a series goes through all of them. `told` hears after each run what they came to so far.
pub fn series(
    first: &Settings,
    all: bool,
    until: Until,
    failures_max: usize,
    told: &mut dyn FnMut(&Totals),
) -> Totals {
    let (begun, watch) = (Instant::now(), Stopwatch::begin());
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
        let scenario = if all {
            scenario_of(seed)
        } else {
            first.scenario
        };
        let settings = Settings {
            seed,
            scenario,
            ..first.clone()
        };
        let ended = run(&settings);
        totals.add(&settings, ended);
        told(&totals);
        seed += 1;
    }
    totals.took = watch.elapsed();
    totals
}

/// The scenario of a seed in a series that goes through all of them.
pub fn scenario_of(seed: u64) -> Scenario {
    let offset = usize::try_from(seed % ROUND.len() as u64).unwrap_or(0);
    ROUND[offset]
}

/// All that is worth saying of a failure: the smallest case, the last events, the replay line.
pub fn describe(settings: &Settings, ended: &Ended, lines: usize) -> String {
    let (smaller, small) = shrink(settings, ended);
    let mut text = String::new();
    let Some(failure) = &small.failure else {
        return text;
    };
    let kept = |list: &Option<Vec<u32>>, all: usize| list.as_ref().map_or(all, Vec::len);
    text.push_str(&format!(
        "FAILED: {failure}\n  shrunk to {} of {} faults and {} of {} wishes; the last events:\n",
        kept(&smaller.keep_faults, ended.faults),
        ended.faults,
        kept(&smaller.keep_ops, ended.ops),
        ended.ops,
    ));
    for line in explain(&smaller, Some(lines)) {
        text.push_str(&format!("    {line}\n"));
    }
    text.push_str(&format!("  as found:  {}\n", Replay(settings, None)));
    text.push_str(&format!(
        "  smallest:  {}\n",
        Replay(&smaller, Some(failure.step))
    ));
    text
}

/// How a planted bug was found.
#[derive(Debug)]
pub struct Found {
    pub mutant: Mutant,
    /// The seeds that were needed, and what broke; `None` = it was not found.
    pub by: Option<(u64, &'static str)>,
    /// A seed on the way there that fails without the bug as well: another bug, a real one.
    pub healthy: Option<(Settings, Ended)>,
    /// CPU time.
    pub took: Duration,
}

impl Found {
    /// All that is worth saying of a failure without the bug, if there is one.
    pub fn failed_without(&self, lines: usize) -> Option<String> {
        let (settings, ended) = self.healthy.as_ref()?;
        // A promise may be broken where every invariant holds, and then there is nothing to shrink.
        let trial = self.mutant.trial();
        let judged = trial.map(|trial| trial.judged(settings.clone(), ended.clone()));
        let mut text = judged.map_or_else(String::new, |it| it.to_string());
        text.push_str(&describe(settings, ended, lines));
        Some(text)
    }
}

/// Looks for a planted bug, seed after seed. Each seed that fails is run without the bug, too: then
/// nothing may break.
pub fn hunt(mutant: Mutant, limit: Duration) -> Found {
    let begun = Stopwatch::begin();
    let (mut seeds, mut by, mut healthy) = (0, None, None);
    while by.is_none() && healthy.is_none() && begun.elapsed() < limit {
        let alone = Settings {
            scenario: mutant.scenario(),
            state_check_every: STATE_CHECK_EVERY,
            ..Settings::of(seeds)
        };
        let trial = mutant.trial();
        let without = trial.map_or(alone, |trial| trial.settings(MANY, seeds));
        let planted = Settings {
            mutant: Some(mutant),
            ..without.clone()
        };
        seeds += 1;
        let Some(broken) = broken_by(mutant, &run(&planted), &planted) else {
            continue;
        };
        by = Some((seeds, broken));
        let ended = run(&without);
        if broken_by(mutant, &ended, &without).is_some() {
            (by, healthy) = (None, Some((without, ended)));
        }
    }
    Found {
        mutant,
        by,
        healthy,
        took: begun.elapsed(),
    }
}

/// What a run broke: an invariant, or what a trial judges at the size that it is for.
fn broken_by(mutant: Mutant, ended: &Ended, settings: &Settings) -> Option<&'static str> {
    let by_trial = || {
        let trial = mutant.trial()?;
        let broken = trial.broken(settings, ended);
        (!broken.is_empty()).then_some(trial.name())
    };
    let failure = ended.failure.as_ref();
    failure.map(|it| it.invariant).or_else(by_trial)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;

    #[test]
    fn a_night_of_more_than_four_thousand_million_steps_is_told_as_it_was() {
        let night = Totals {
            lasted: 5_000_000_000 * SECOND,
            steps: 40_000_000_000,
            took: Duration::from_secs(4),
            ..Totals::default()
        };
        let said = night.to_string();
        let speed = "1250000000 simulated seconds a CPU-second, 10000000000 steps a CPU-second\n";
        assert!(said.contains(speed), "{said}");
    }
}
