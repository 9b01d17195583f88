//! Planted bugs are found. Those that take longer are `cargo xtask sim mutants`.

use hack_sim::mutant::Mutant;
use hack_sim::run::run;
use hack_sim::schedule::Settings;

/// The invariant that finds a planted bug within a few seeds, where the same run without it rests.
fn found_by(mutant: Mutant) -> Option<&'static str> {
    (0..150).find_map(|seed| {
        let healthy = Settings {
            scenario: mutant.scenario(),
            state_check_every: 16,
            ..Settings::of(seed)
        };
        let planted = Settings {
            mutant: Some(mutant),
            ..healthy.clone()
        };
        let failure = run(&planted).failure?;
        run(&healthy).failure.is_none().then_some(failure.invariant)
    })
}

#[test]
fn a_silent_node_that_is_ready_without_a_report_is_found() {
    assert_eq!(found_by(Mutant::UngatedReady), Some("ready_after_sync"));
}

#[test]
fn a_report_that_is_not_sent_because_it_equals_the_last_is_found() {
    assert!(found_by(Mutant::EqualSyncDropped).is_some());
}

#[test]
fn planted_bugs_that_show_themselves_soon_are_found() {
    for mutant in [
        Mutant::TwoEntries,
        Mutant::LongTakeOver,
        Mutant::TimersLostAtFailover,
        Mutant::SlowDetection,
        Mutant::OneEntryPerExpiry,
        Mutant::BatchWithoutEpoch,
        Mutant::WatchBeforeSync,
        Mutant::KeeperForgetsEpochs,
        Mutant::ForgetsWatermark,
        Mutant::SilentWatch,
        Mutant::WaitsAfterReboot,
    ] {
        assert!(found_by(mutant).is_some(), "{mutant:?}: {}", mutant.hole());
    }
}

#[test]
fn a_node_that_stays_disconnected_beyond_its_windows_is_found() {
    assert_eq!(found_by(Mutant::WindowsNeverEnd), Some("windows_end"));
}

#[test]
fn a_node_without_a_second_connection_is_found() {
    let found = found_by(Mutant::NobodyStandsBy);
    assert_eq!(found, Some("one_server_in_trouble"));
}

#[test]
fn a_session_that_is_kept_although_it_owes_its_report_is_found() {
    assert_eq!(found_by(Mutant::OwedForEver), Some("reports_due"));
}

#[test]
fn a_group_that_stops_itself_only_while_its_daemon_lives_is_found() {
    let found = found_by(Mutant::LeaseWithDaemon);
    assert!(
        matches!(found, Some("leases_end" | "one_leased")),
        "{found:?}"
    );
}

#[test]
fn a_leader_that_confirms_heartbeats_without_a_majority_is_found() {
    // A node that is confirmed looks for no other server.
    let found = found_by(Mutant::ConfirmsAlone);
    assert!(
        matches!(found, Some("one_leased" | "one_server_in_trouble")),
        "{found:?}"
    );
}

#[test]
fn an_allocation_that_waits_for_ever_on_a_node_that_does_not_accept_it_is_found() {
    assert_eq!(found_by(Mutant::PendingForEver), Some("pending_moves"));
}

#[test]
fn a_host_that_starts_after_a_boot_what_is_elsewhere_by_now_is_found() {
    assert_eq!(
        found_by(Mutant::StartsAfterReboot),
        Some("restarts_offline")
    );
}
