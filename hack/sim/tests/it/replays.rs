//! Lines that are printed of a failure replay it, as the program reads them. What breaks here are
//! planted bugs.

use std::time::Duration;

use hack_sim::arguments::{Arguments, Replay, Verb, parse};
use hack_sim::mutant::Mutant;
use hack_sim::report::{Found, describe};
use hack_sim::run::{Ended, run};
use hack_sim::schedule::{Schedule, Settings};
use hack_sim::shrink::shrink;
use hack_sim::silence::Trial;

/// Seeds among which a planted bug shows itself.
const SEEDS_MAX: u64 = 150;

fn arguments(line: &str) -> Arguments {
    parse(line, "cargo xtask ").unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn replayed(line: &str) -> Ended {
    let arguments = arguments(line);
    let seed = arguments.seed.expect("a line names its seed");
    run(&arguments.settings(seed))
}

/// The lines in a text that replay what it is about.
fn lines_in(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .filter_map(|line| line.find("cargo xtask").map(|at| &line[at..]));
    lines.collect()
}

/// The first runs that fail with a planted bug.
fn failures(mutant: Mutant) -> impl Iterator<Item = (Settings, Ended)> {
    (0..SEEDS_MAX).filter_map(move |seed| {
        let settings = Settings {
            scenario: mutant.scenario(),
            // Not as always, so that the line has to say it.
            state_check_every: 16,
            mutant: Some(mutant),
            ..Settings::of(seed)
        };
        let ended = run(&settings);
        ended.failure.is_some().then_some((settings, ended))
    })
}

#[test]
fn a_failure_is_shrunk_to_less_that_fails_alike_and_its_line_repeats_that() {
    // What one invariant finds, and what either of two does: there the other one must not do.
    for (mutant, seeds) in [(Mutant::UngatedReady, 2), (Mutant::PlacedBeside, 12)] {
        let mut seen = 0;
        for (settings, ended) in failures(mutant).take(seeds) {
            let line = Replay(&settings, None).to_string();
            assert_eq!(replayed(&line), ended, "{line}");

            let (smaller, small) = shrink(&settings, &ended);
            let invariant = |ended: &Ended| ended.failure.as_ref().map(|it| it.invariant);
            let failure = small.failure.as_ref().expect("it fails still");
            assert_eq!(invariant(&small), invariant(&ended), "{line}");
            let size = |settings: &Settings| {
                let schedule = Schedule::of(settings);
                schedule.faults.len() + schedule.ops.len()
            };
            assert!(2 * size(&smaller) <= size(&settings), "{line}");

            let line = Replay(&smaller, Some(failure.step)).to_string();
            let again = replayed(&line);
            assert_eq!(again.failure, small.failure, "{line}");
            assert_eq!(again.steps, failure.step, "{line}");
            seen += 1;
        }
        assert_eq!(seen, seeds, "{mutant:?} in {SEEDS_MAX} seeds");
    }
}

#[test]
fn the_words_of_a_failure_hold_the_line_as_found_and_the_smallest() {
    let (settings, ended) = failures(Mutant::UngatedReady).next().expect("one fails");
    let words = describe(&settings, &ended, 3);
    let invariant = ended.failure.as_ref().map(|it| it.invariant);
    let lines = lines_in(&words);
    assert_eq!(lines.len(), 2, "{words}");
    assert_eq!(replayed(lines[0]), ended, "{words}");
    let smallest = replayed(lines[1]).failure;
    assert_eq!(smallest.map(|it| it.invariant), invariant, "{words}");
}

#[test]
fn the_words_of_a_trial_whose_promise_is_broken_hold_the_line_that_breaks_it_again() {
    let slow = Some(Mutant::SlowDetection);
    let tried = Trial::Outage.run(100, 3, slow);
    assert!(!tried.broken.is_empty(), "a slow one is noticed");
    let words = tried.to_string();
    let line = lines_in(&words)[0];
    let Some(Verb::Silence { trials, .. }) = arguments(line).verb else {
        panic!("not of a trial: {line}");
    };
    let trial = trials.all().next().expect("a trial is named");
    let again = trial.run(trials.nodes, trials.seed, trials.mutant);
    assert_eq!(again.broken, tried.broken, "{words}");
    assert_eq!(again.ended, tried.ended, "{words}");
    assert_eq!(Some(line), tried.json(Duration::ZERO)["replay"].as_str());
    // Where nothing is broken there is nothing to replay.
    let kept = Trial::Outage.run(20, 3, None).to_string();
    assert!(lines_in(&kept).is_empty(), "{kept}");
}

#[test]
fn a_promise_that_is_broken_without_the_planted_bug_is_told_with_its_line() {
    // As if a run that is slow broke no invariant: then there is nothing to shrink.
    let mut tried = Trial::Outage.run(20, 3, Some(Mutant::SlowDetection));
    tried.ended.failure = None;
    let line = tried.replay().to_string();
    let found = Found {
        mutant: Mutant::OneNodePerExpiry,
        by: None,
        healthy: Some((tried.settings, tried.ended)),
        took: Duration::ZERO,
    };
    let words = found.failed_without(3).expect("something failed");
    assert_eq!(lines_in(&words), [line]);
}
