//! `cargo xtask sim`: seeds until something breaks, one seed again, planted bugs, speed.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use hack_sim::arguments::{Arguments, Replay, Trials, Verb, name_of};
use hack_sim::mutant::Mutant;
use hack_sim::progress::Progress;
use hack_sim::report::{Totals, Until, describe, hunt, series};
use hack_sim::run::{explain, seconds};
use hack_sim::schedule::{STATE_CHECK_EVERY, Scenario, Settings};
use hack_sim::silence;
use hack_sim::stopwatch::Stopwatch;

/// A run is millions of small copies: a quarter of its time was the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout().lock();
    let failed = match &arguments.verb {
        Some(Verb::Mutants { limit, only }) => mutants(&mut out, Duration::from_secs(*limit), only),
        Some(Verb::Speed) => speed(&mut out),
        Some(Verb::Silence { trials, json }) => {
            let said = if *json { Said::Json } else { Said::Words };
            try_all(&mut out, trials, said)
        }
        None => runs(&mut out, &arguments),
    };
    match failed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Answers whether something broke.
fn runs(out: &mut impl Write, arguments: &Arguments) -> std::io::Result<bool> {
    if let Some(seed) = arguments.seed {
        return one(out, &arguments.settings(seed), arguments.lines);
    }
    let first = arguments.settings(arguments.from);
    let all = arguments.scenario.is_none();
    let (mut failed, totals) = match arguments.minutes {
        Some(minutes) => {
            let sized = all && arguments.nodes.is_none();
            let trials = Trials {
                seed: first.seed,
                nodes: silence::NODES,
                mutant: first.mutant,
                only: Vec::new(),
            };
            let failed = sized && try_all(out, &trials, Said::Words)?;
            let span = Duration::from_secs(minutes * 60);
            let mut progress = Progress::new(span);
            let told = &mut |totals: &Totals| {
                let lasted = seconds(totals.lasted);
                progress.told(totals.runs, lasted, &totals.failures, |(settings, _)| {
                    Replay(settings, None).to_string()
                });
            };
            let until = Until::Time(span);
            (failed, series(&first, all, until, usize::MAX, told))
        }
        None => {
            // At once: to make it smaller may take longer than anybody waits.
            let told = &mut |totals: &Totals| {
                for (settings, _) in &totals.failures {
                    eprintln!("FAILED: {}", Replay(settings, None));
                }
            };
            let until = Until::Seeds(arguments.seeds);
            (false, series(&first, all, until, 1, told))
        }
    };
    failed |= !totals.failures.is_empty();
    for (settings, ended) in totals.failures.iter().take(8) {
        write!(out, "{}", describe(settings, ended, arguments.lines))?;
    }
    for (settings, ended) in totals.failures.iter().skip(8) {
        let name = ended.failure.as_ref().map_or("", |it| it.invariant);
        writeln!(out, "{name}: {}", Replay(settings, None))?;
    }
    let last = first.seed + totals.runs.saturating_sub(1);
    let which = match arguments.scenario {
        Some(scenario) => format!("{scenario:?}"),
        None => "every scenario".to_owned(),
    };
    writeln!(out, "seeds {} to {last} of {which}", first.seed)?;
    write!(out, "{totals}")?;
    Ok(failed)
}

/// How trials are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Words,
    Json,
}

/// Answers whether a promise was broken.
fn try_all(out: &mut impl Write, trials: &Trials, said: Said) -> std::io::Result<bool> {
    let mut broken = false;
    for trial in trials.all() {
        let begun = Stopwatch::begin();
        let tried = trial.run(trials.nodes, trials.seed, trials.mutant);
        let took = begun.elapsed();
        broken |= !tried.broken.is_empty();
        if said == Said::Json {
            writeln!(out, "{}", tried.json(took))?;
        } else {
            write!(out, "{tried}")?;
            let mut totals = Totals::default();
            totals.add(&tried.settings, tried.ended);
            totals.took = took;
            write!(out, "{totals}")?;
            for (settings, ended) in &totals.failures {
                write!(out, "{}", describe(settings, ended, 60))?;
            }
        }
        out.flush()?;
    }
    Ok(broken)
}

fn one(out: &mut impl Write, settings: &Settings, lines: usize) -> std::io::Result<bool> {
    for line in explain(settings, Some(lines)) {
        writeln!(out, "{line}")?;
    }
    let begun = Stopwatch::begin();
    let ended = hack_sim::run::run(settings);
    let mut totals = Totals::default();
    totals.add(settings, ended.clone());
    totals.took = begun.elapsed();
    write!(out, "{totals}")?;
    match &ended.failure {
        None => {
            writeln!(out, "at rest: {}", ended.rested)?;
            Ok(false)
        }
        Some(failure) => {
            writeln!(out, "FAILED: {failure}")?;
            Ok(true)
        }
    }
}

/// What looking for all planted bugs may take together, in processor time.
const MUTANTS_WITHIN: Duration = Duration::from_secs(600);

/// Answers whether one was not found, a seed failed without any, or all took too long together.
fn mutants(out: &mut impl Write, limit: Duration, only: &[Mutant]) -> std::io::Result<bool> {
    let (mut failed, mut all) = (false, Duration::ZERO);
    writeln!(
        out,
        "{:<24} {:>6} {:>9}  by, hole",
        "planted", "seeds", "CPU s"
    )?;
    for mutant in Mutant::ALL {
        if !only.is_empty() && !only.contains(&mutant) {
            continue;
        }
        let found = hunt(mutant, limit);
        all += found.took;
        failed |= found.by.is_none() || found.healthy.is_some();
        let name = name_of(&mutant);
        let (seeds, by) = match found.by {
            Some((seeds, by)) => (seeds.to_string(), by),
            None => ("-".to_owned(), "NOT FOUND"),
        };
        let (took, hole) = (found.took.as_secs_f64(), mutant.hole());
        writeln!(out, "{name:<24} {seeds:>6} {took:>9.2}  {by}; {hole}")?;
        if let Some(words) = found.failed_without(60) {
            write!(out, "FAILED without it:\n{words}")?;
        }
        out.flush()?;
    }
    let late = all > MUTANTS_WITHIN;
    let verdict = if late { ", TOO LONG" } else { "" };
    let (took, within) = (all.as_secs_f64(), MUTANTS_WITHIN.as_secs());
    writeln!(out, "all: {took:.1} CPU-s of {within}{verdict}")?;
    Ok(failed || late)
}

/// Sizes and seeds: the goal is for 50 nodes and what the log can do to them, the others show how
/// it goes on.
const SPEEDS: [(u32, Scenario, u64, u64); 7] = [
    (7, Scenario::Storm, 300, 20),
    (50, Scenario::Calm, 300, 6),
    (50, Scenario::Log, 300, 6),
    (50, Scenario::Leaders, 300, 6),
    (50, Scenario::Lagging, 300, 6),
    (50, Scenario::Storm, 300, 6),
    (5000, Scenario::Calm, 30, 1),
];

/// Simulated seconds a CPU-second that are promised.
const SPEED_GOAL: f64 = 1_000.0;

/// What must be reached at a size, if something must.
fn speed_goal(nodes: u32, scenario: Scenario) -> Option<f64> {
    (nodes == 50 && scenario == Scenario::Log).then_some(SPEED_GOAL)
}

/// Answers whether something that must hold did not, or it is slower than promised. No test asks
/// that: it depends on the host, and on what else that does.
fn speed(out: &mut impl Write) -> std::io::Result<bool> {
    let mut failed = false;
    for (nodes, scenario, seconds, seeds) in SPEEDS {
        let first = Settings {
            nodes: Some(nodes),
            scenario,
            seconds: Some(seconds),
            // As every day, so that it is the speed of every day; a large state is recounted more
            // rarely by itself.
            state_check_every: STATE_CHECK_EVERY,
            ..Settings::of(1)
        };
        let totals = series(&first, false, Until::Seeds(seeds), usize::MAX, &mut |_| {});
        writeln!(out, "{nodes} nodes, {scenario:?}:")?;
        for (settings, ended) in &totals.failures {
            let what = ended.failure.as_ref().map_or("", |it| it.invariant);
            writeln!(out, "  FAILED, {what}: {}", Replay(settings, None))?;
        }
        failed |= !totals.failures.is_empty();
        write!(out, "{totals}")?;
        if let Some(goal) = speed_goal(nodes, scenario) {
            let (said, missed) = judge(&totals, goal);
            writeln!(out, "{said}")?;
            failed |= missed;
        }
        out.flush()?;
    }
    Ok(failed)
}

/// What a series came to beside its goal, in words, and whether it missed that.
fn judge(totals: &Totals, goal: f64) -> (String, bool) {
    let reached = seconds(totals.lasted) / totals.took.as_secs_f64().max(1e-9);
    let missed = reached < goal;
    let verdict = if missed { "MISSED" } else { "met" };
    let said = format!(
        "goal: {goal:.0} simulated seconds a CPU-second, the state recounted after every \
         {STATE_CHECK_EVERY} commands: {verdict} with {reached:.0}"
    );
    (said, missed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_that_is_slower_than_promised_is_a_failure() {
        let totals = |took_ms| Totals {
            lasted: 2_000 * hack_sim::time::SECOND,
            took: Duration::from_millis(took_ms),
            ..Totals::default()
        };
        assert!(!judge(&totals(2_000), SPEED_GOAL).1);
        let (said, missed) = judge(&totals(2_010), SPEED_GOAL);
        assert!(missed && said.contains("MISSED with 995"), "{said}");
    }

    #[test]
    fn a_trial_that_breaks_its_promise_is_a_failure_with_its_line() {
        let trials = Trials {
            seed: 3,
            nodes: 9,
            mutant: Some(Mutant::SlowDetection),
            only: vec![silence::Trial::Outage],
        };
        let mut out = Vec::new();
        let broken = try_all(&mut out, &trials, Said::Words).unwrap();
        let said = String::from_utf8(out).unwrap();
        let line = "cargo xtask sim silence --seed 3 --nodes 9 --mutant slow-detection outage\n";
        assert!(broken && said.contains(line), "{said}");
    }

    #[test]
    fn one_of_the_speeds_is_judged() {
        let judged = SPEEDS.iter().filter_map(|it| speed_goal(it.0, it.1));
        assert_eq!(judged.count(), 1);
    }
}
