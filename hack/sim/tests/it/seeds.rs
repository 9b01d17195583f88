//! Seeds of every scenario.

use hack_sim::report::{Until, describe, series};
use hack_sim::run::run;
use hack_sim::schedule::Settings;

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
    let totals = series(&first, true, Until::Seeds(7), 1);
    if let Some((settings, ended)) = totals.failures.first() {
        panic!("{}", describe(settings, ended, 60));
    }
    assert!(
        totals.counts.faults > 0 && totals.counts.sessions > 0,
        "{totals}"
    );
}
