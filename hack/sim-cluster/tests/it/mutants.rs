//! Planted bugs are found.

use hack_sim_cluster::mutant::Mutant;
use hack_sim_cluster::report::hunt;

/// Seeds that are tried: each bug but the old disk shows itself in the first ones.
const SEEDS_MAX: u64 = 20;
/// How long faults go on, in simulated seconds.
const SECONDS: u64 = 20;

fn found_by(mutant: Mutant) -> Option<&'static str> {
    let found = hunt(mutant, Some(SECONDS), SEEDS_MAX).expect("a cluster is put together");
    found.by.map(|(_, failure)| failure.invariant)
}

#[test]
fn disks_that_acknowledge_what_they_do_not_keep_are_found() {
    assert!(found_by(Mutant::LyingDisks).is_some());
}

#[test]
fn nodes_that_lose_their_journal_silently_are_found() {
    assert_eq!(found_by(Mutant::ForgetfulNodes), Some("watermark"));
}

#[test]
fn tasks_that_go_on_after_their_end_was_told_are_found() {
    assert_eq!(found_by(Mutant::TasksOutlive), Some("ended_is_ended"));
}
