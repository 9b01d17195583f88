//! Seeds of every scenario.

use hack_sim::mutant::Mutant;
use hack_sim::report::{ROUND, Until, describe, series};
use hack_sim::run::run;
use hack_sim::schedule::{Scenario, Settings};
use hack_sim::silence::Trial;

#[test]
fn the_same_seed_gives_the_same_run() {
    let settings = Settings::of(3);
    let (one, other) = (run(&settings), run(&settings));
    assert_eq!(one, other);
}

#[test]
fn seeds_of_every_scenario_hold() {
    let first = Settings {
        state_check_every: 4,
        ..Settings::of(1008)
    };
    let every_scenario = Until::Seeds(ROUND.len() as u64);
    let totals = series(&first, true, every_scenario, 1, &mut |_| {});
    if let Some((settings, ended)) = totals.failures.first() {
        panic!("{}", describe(settings, ended, 60));
    }
    assert!(
        totals.counts.faults > 0 && totals.counts.sessions > 0,
        "{totals}"
    );
}

#[test]
fn seeds_of_drains_dispatches_preemptions_keys_and_locks_hold() {
    for scenario in [
        Scenario::Drain,
        Scenario::Dispatch,
        Scenario::Preempt,
        Scenario::Keys,
        Scenario::Locks,
    ] {
        let first = Settings {
            scenario,
            state_check_every: 16,
            ..Settings::of(0)
        };
        let totals = series(&first, false, Until::Seeds(5), 1, &mut |_| {});
        if let Some((settings, ended)) = totals.failures.first() {
            panic!("{}", describe(settings, ended, 60));
        }
        assert!(totals.counts.elections > 5, "{totals}");
    }
}

#[test]
fn all_nodes_get_a_session_in_storms_of_several_causes() {
    let first = Settings {
        scenario: Scenario::SessionStorm,
        state_check_every: 16,
        ..Settings::of(0)
    };
    let totals = series(&first, false, Until::Seeds(5), 1, &mut |_| {});
    if let Some((settings, ended)) = totals.failures.first() {
        panic!("{}", describe(settings, ended, 60));
    }
    let figures = totals.figures;
    assert!(
        figures.storms >= 5 && totals.counts.turned_away > 0,
        "{totals}"
    );
}

#[test]
fn a_hundred_nodes_come_back_at_once_and_their_silence_was_noticed_in_time() {
    let tried = Trial::Outage.run(100, 1, None);
    assert!(tried.broken.is_empty(), "{tried}");
    // What is judged can be broken.
    let slow = Trial::Outage.run(100, 1, Some(Mutant::SlowDetection));
    assert!(!slow.broken.is_empty());
}

#[test]
fn nobody_is_given_up_in_ten_minutes_of_bad_weather() {
    let tried = Trial::Weather.run(60, 1, None);
    assert!(tried.broken.is_empty(), "{tried}");
    // In order, some wait for too long, sooner or later.
    let in_order = Trial::Weather.run(60, 1, Some(Mutant::HeartbeatsInOrder));
    assert!(!in_order.broken.is_empty());
}
