//! Planted bugs are found.

use hack_sim_cluster::mutant::Mutant;
use hack_sim_cluster::report::{describe, hunt};

/// Seeds that are tried: each bug shows itself in the first ones.
const SEEDS_MAX: u64 = 20;
/// How long faults go on, in simulated seconds.
const SECONDS: u64 = 20;
/// And where servers have to come and go for long enough to lose what they once had.
const SECONDS_OF_SERVERS: u64 = 60;
/// And where a lease has to run out, and somebody to be placed after it.
const SECONDS_OF_LEASES: u64 = 30;

/// And where tokens are taken away while a server lags.
const SECONDS_OF_ACCESS: u64 = 14;

fn found_by(mutant: Mutant, seconds: u64) -> Option<&'static str> {
    let found = hunt(mutant, Some(seconds), SEEDS_MAX).expect("a cluster is put together");
    if let Some((settings, failure)) = &found.healthy {
        let words = describe(settings, failure);
        panic!("without it: {}", words.expect("a cluster is put together"));
    }
    found.by.map(|(_, failure)| failure.invariant)
}

#[test]
fn disks_that_acknowledge_what_they_do_not_keep_are_found() {
    assert!(found_by(Mutant::LyingDisks, SECONDS).is_some());
}

#[test]
fn servers_that_come_back_with_an_old_disk_are_found() {
    assert!(found_by(Mutant::OldDisk, SECONDS_OF_SERVERS).is_some());
}

#[test]
fn nodes_that_lose_their_journal_silently_are_found() {
    assert_eq!(found_by(Mutant::ForgetfulNodes, SECONDS), Some("watermark"));
}

#[test]
fn leases_that_end_with_their_daemon_are_found() {
    let found = found_by(Mutant::LeaseWithDaemon, SECONDS_OF_LEASES);
    assert!(
        matches!(found, Some("leases_end" | "one_leased")),
        "{found:?}"
    );
}

#[test]
fn leases_that_keeper_is_told_of_once_are_found() {
    let found = found_by(Mutant::LeaseOnce, SECONDS_OF_LEASES);
    assert_eq!(found, Some("leases_go_on"));
}

#[test]
fn hosts_whose_time_since_boot_jumps_ahead_are_found() {
    let found = found_by(Mutant::JumpingHosts, SECONDS_OF_LEASES);
    assert_eq!(found, Some("healthy_not_killed"));
}

#[test]
fn starts_of_which_a_daemon_is_told_late_are_found() {
    let found = found_by(Mutant::StartsToldLate, SECONDS);
    assert_eq!(found, Some("ready_after_sync"));
}

#[test]
fn tasks_that_go_on_after_their_end_was_told_are_found() {
    let found = found_by(Mutant::TasksOutlive, SECONDS);
    assert_eq!(found, Some("ended_is_ended"));
}

#[test]
fn reads_without_a_barrier_are_found() {
    let found = found_by(Mutant::NoReadBarrier, SECONDS_OF_ACCESS);
    assert!(
        matches!(found, Some("revoked_reads_nothing" | "new_tokens_count")),
        "{found:?}"
    );
}

#[test]
fn leader_that_does_not_look_a_second_time_is_found() {
    let found = found_by(Mutant::NoSecondLook, SECONDS_OF_ACCESS);
    assert_eq!(found, Some("revoked_writes_nothing"));
}

#[test]
fn callers_that_are_kept_on_their_connection_are_found() {
    // Rights that are kept are wrong whether they were given or taken away meanwhile.
    let found = found_by(Mutant::CallerKept, SECONDS_OF_ACCESS);
    assert!(
        matches!(
            found,
            Some("new_tokens_count" | "revoked_reads_nothing" | "waits_end")
        ),
        "{found:?}"
    );
}
