//! Seeds of every scenario.

use hack_sim::mutant::Mutant;
use hack_sim::report::{Until, describe, series};
use hack_sim::run::run;
use hack_sim::schedule::{Scenario, Settings};
use hack_sim::time::SECOND;

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
        ..Settings::of(1005)
    };
    let totals = series(&first, true, Until::Seeds(7), 1, &mut |_| {});
    if let Some((settings, ended)) = totals.failures.first() {
        panic!("{}", describe(settings, ended, 60));
    }
    assert!(
        totals.counts.faults > 0 && totals.counts.sessions > 0,
        "{totals}"
    );
}

#[test]
fn a_hundred_nodes_come_back_at_once_and_their_silence_was_noticed_in_time() {
    let settings = Settings {
        nodes: Some(100),
        scenario: Scenario::Outage,
        seconds: Some(40),
        state_check_every: 256,
        ..Settings::of(1)
    };
    let ended = run(&settings);
    assert_eq!(ended.failure, None);
    let figures = ended.figures;
    assert_eq!((figures.noticed, figures.outages), (100, 1));
    assert!(figures.noticed_max <= 3 * SECOND, "{figures}");
    // A node waits up to 15 s before it tries again.
    assert!(figures.ready_again_max <= 18 * SECOND, "{figures}");
}

#[test]
fn nobody_is_given_up_in_bad_weather() {
    let settings = Settings {
        nodes: Some(60),
        scenario: Scenario::Lossy,
        seconds: Some(120),
        state_check_every: 256,
        keep_ops: Some(Vec::new()),
        ..Settings::of(1)
    };
    let ended = run(&settings);
    assert_eq!(ended.failure, None);
    assert_eq!(ended.figures.false_expiries, 0);
    assert!(ended.counts.heartbeats > 50_000, "{}", ended.counts);
    // What is measured can be seen: in order, some wait for too long, sooner or later.
    let in_order = run(&Settings {
        mutant: Some(Mutant::HeartbeatsInOrder),
        seconds: Some(1_200),
        ..settings
    });
    assert!(in_order.failure.is_some(), "{}", in_order.figures);
}
