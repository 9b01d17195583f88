//! Planted bugs are found, hole by hole of the table in the reconnect design, and what the rest of
//! that design and the one of updates ask for. How long each takes: `cargo xtask sim mutants`.

use hack_sim::arguments::Replay;
use hack_sim::mutant::Mutant;
use hack_sim::report::hunt;
use hack_sim::run::run;
use hack_sim::schedule::Settings;
use hack_sim::silence::Trial;

/// The invariant that finds a planted bug within a few seeds, where the same run without it breaks
/// nothing.
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
        let without = run(&healthy).failure;
        assert!(
            without.is_none(),
            "{} fails without {mutant:?}: {without:?}",
            Replay(&healthy, None)
        );
        Some(failure.invariant)
    })
}

fn assert_found(mutant: Mutant, by: &[&str]) {
    let found = found_by(mutant);
    let found = found.unwrap_or_else(|| panic!("{mutant:?} is not found: {}", mutant.hole()));
    assert!(by.contains(&found), "{mutant:?} is found by {found}");
}

#[test]
fn hole_1_a_silent_node_that_is_ready_without_a_report_is_found() {
    assert_found(Mutant::UngatedReady, &["ready_after_sync"]);
}

#[test]
fn hole_2_a_report_that_is_not_sent_because_it_equals_the_last_is_found() {
    let by = ["not_stuck", "reports_due", "liveness"];
    assert_found(Mutant::EqualSyncDropped, &by);
}

#[test]
fn hole_2_a_session_that_is_kept_although_it_owes_its_report_is_found() {
    assert_found(Mutant::OwedForEver, &["reports_due"]);
}

#[test]
fn hole_3_evaluations_in_an_entry_of_their_own_are_found() {
    assert_found(Mutant::TwoEntries, &["somebody_looks"]);
}

#[test]
fn hole_3_evaluations_that_wait_for_a_later_time_are_found() {
    assert_found(Mutant::LooksLater, &["somebody_looks"]);
}

#[test]
fn a_status_that_an_entry_about_a_job_changes_is_found() {
    assert_found(Mutant::StatusAside, &["session_steps"]);
}

#[test]
fn what_a_report_leaves_out_and_stays_is_found() {
    assert_found(Mutant::LeftOutStays, &["ready_after_sync"]);
}

#[test]
fn hole_4_an_expiry_that_was_decided_for_another_session_is_found() {
    assert_found(Mutant::ExpiryWithoutEpoch, &["no_hasty_expiry"]);
}

#[test]
fn hole_5_a_node_that_believes_a_server_which_lags_behind_it_is_found() {
    let by = ["healthy_not_killed", "watermark", "never_again"];
    assert_found(Mutant::StaleAnswer, &by);
}

#[test]
fn hole_5_a_daemon_that_forgets_how_far_it_was_told_is_found() {
    assert_found(Mutant::ForgetsWatermark, &["watermark"]);
}

#[test]
fn hole_6_a_new_leader_that_gives_nodes_minutes_is_found() {
    let by = ["silence_noticed", "windows_end"];
    assert_found(Mutant::LongTakeOver, &by);
}

#[test]
fn hole_6_a_new_leader_that_watches_nobody_whom_it_has_not_heard_is_found() {
    let by = ["silence_noticed", "windows_end"];
    assert_found(Mutant::TimersLostAtFailover, &by);
}

#[test]
fn hole_7_detection_that_slows_with_the_number_of_nodes_is_found() {
    assert_found(Mutant::SlowDetection, &["silence_noticed"]);
}

#[test]
fn hole_8_expiries_that_are_entries_of_their_own_are_found() {
    assert_found(Mutant::OneEntryPerExpiry, &["expiries_share_entries"]);
}

#[test]
fn hole_8_nodes_that_fall_silent_together_and_expire_one_by_one_are_found() {
    let seconds = std::time::Duration::from_secs(600);
    let found = hunt(Mutant::OneNodePerExpiry, seconds);
    assert!(found.healthy.is_none(), "{:?}", found.failed_without(60));
    assert_eq!(found.by, Some((1, Trial::Outage.name())));
}

#[test]
fn hole_9_a_node_that_is_not_told_of_what_is_placed_on_it_is_found() {
    assert_found(Mutant::SilentWatch, &["node_is_told"]);
}

#[test]
fn hole_9_what_waits_for_ever_on_a_node_that_does_not_accept_it_is_found() {
    assert_found(Mutant::PendingForEver, &["pending_moves"]);
}

#[test]
fn hole_10_a_host_that_waits_for_a_server_after_a_boot_is_found() {
    assert_found(Mutant::WaitsAfterReboot, &["restarts_offline"]);
}

#[test]
fn hole_10_a_host_that_starts_after_a_boot_what_is_elsewhere_by_now_is_found() {
    assert_found(Mutant::StartsAfterReboot, &["restarts_offline"]);
}

#[test]
fn a_batch_of_an_earlier_session_that_is_taken_in_is_found() {
    assert_found(Mutant::BatchWithoutEpoch, &["own_session"]);
}

#[test]
fn a_watch_that_starts_before_the_report_is_taken_in_is_found() {
    assert_found(Mutant::WatchBeforeSync, &["map_after_sync"]);
}

#[test]
fn a_nonce_that_is_drawn_for_each_knock_is_found() {
    assert_found(Mutant::NoncePerAttempt, &["one_session_per_series"]);
}

#[test]
fn a_daemon_that_is_resumed_although_it_was_started_anew_is_found() {
    assert_found(Mutant::RestartUntold, &["resumes"]);
}

#[test]
fn a_follower_that_resumes_from_a_state_of_yesterday_is_found() {
    assert_found(Mutant::ResumesFromOldState, &["resumes"]);
}

#[test]
fn a_node_that_stays_disconnected_beyond_its_windows_is_found() {
    assert_found(Mutant::WindowsNeverEnd, &["windows_end"]);
}

#[test]
fn a_node_without_a_second_connection_is_found() {
    assert_found(Mutant::NobodyStandsBy, &["one_server_in_trouble"]);
}

#[test]
fn two_that_take_the_place_of_a_silent_one_are_found() {
    assert_found(Mutant::ReplacedTwice, &["never_too_many"]);
}

#[test]
fn a_successor_beside_a_leased_one_that_is_told_to_stop_is_found() {
    assert_found(Mutant::PlacedBeside, &["one_leased", "never_too_many"]);
}

#[test]
fn a_group_that_stops_itself_only_while_its_daemon_lives_is_found() {
    assert_found(Mutant::LeaseWithDaemon, &["leases_end", "one_leased"]);
}

#[test]
fn confirmations_that_are_not_told_on_are_found() {
    assert_found(Mutant::ConfirmationsDropped, &["healthy_not_killed"]);
}

#[test]
fn a_server_that_confirms_heartbeats_while_nobody_leads_is_found() {
    assert_found(Mutant::ConfirmsLeaderless, &["leases_end"]);
}

#[test]
fn a_plan_that_stops_all_of_a_leased_group_is_found() {
    assert_found(Mutant::StopsAllOfIt, &["stops_leave_enough"]);
}

#[test]
fn a_leader_that_confirms_heartbeats_without_a_majority_is_found() {
    // A node that is confirmed looks for no other server.
    let by = ["leases_end", "one_leased", "one_server_in_trouble"];
    assert_found(Mutant::ConfirmsAlone, &by);
}

#[test]
fn heartbeats_that_wait_for_lost_ones_are_found() {
    assert_found(Mutant::HeartbeatsInOrder, &["no_false_expiry"]);
}

#[test]
fn heartbeats_that_stay_rare_in_bad_weather_are_found() {
    // A lease runs out of it, too.
    let by = ["no_false_expiry", "healthy_not_killed"];
    assert_found(Mutant::RestsInDoubt, &by);
}

#[test]
fn a_rollout_that_does_not_wait_for_health_is_found() {
    assert_found(Mutant::RollsAllAtOnce, &["rolls_in_steps"]);
}

#[test]
fn a_rollout_without_progress_that_goes_on_is_found() {
    assert_found(Mutant::RolloutsUnwatched, &["rollouts_end"]);
}

#[test]
fn an_acknowledgement_of_what_was_refused_is_found() {
    assert_found(Mutant::AckFromCommit, &["acknowledged_updates"]);
}

#[test]
fn a_keeper_that_starts_a_run_epoch_twice_is_found() {
    let by = ["run_epochs", "one_live_run"];
    assert_found(Mutant::KeeperForgetsEpochs, &by);
}

#[test]
fn a_journal_that_is_never_synced_is_found() {
    let by = ["never_again", "watermark", "run_epochs", "liveness"];
    assert_found(Mutant::NoSync, &by);
}

#[test]
fn a_wish_that_is_acknowledged_before_a_majority_has_it_is_found() {
    assert_found(Mutant::AckBeforeMajority, &["acknowledged_jobs"]);
}

#[test]
fn an_index_that_two_entries_have_is_found() {
    assert_found(Mutant::IndexTwice, &["log_goes_on"]);
}

#[test]
fn facts_that_are_acknowledged_and_not_kept_are_found() {
    assert_found(Mutant::FactsUnkept, &["liveness"]);
}

#[test]
fn a_silent_allocation_that_heeds_no_operator_is_found() {
    assert_found(Mutant::SilentStays, &["stops_are_heeded"]);
}

#[test]
fn a_node_that_does_not_know_whose_place_an_allocation_takes_is_found() {
    assert_found(Mutant::PredecessorUntold, &["successors_wait"]);
}

#[test]
fn a_node_that_waits_for_a_busy_server_only_a_moment_is_found() {
    assert_found(Mutant::WaitsShort, &["progress_never_stops"]);
}

#[test]
fn an_expiry_that_ignores_the_lateness_of_servers_is_found() {
    let by = ["progress_never_stops", "no_false_expiry"];
    assert_found(Mutant::LatenessUntold, &by);
}

#[test]
fn a_door_that_serves_the_newest_first_is_found() {
    assert_found(Mutant::NewestFirst, &["progress_never_stops"]);
}

#[test]
fn a_server_that_begins_everything_that_arrives_is_found() {
    assert_found(Mutant::UnboundedQueue, &["progress_never_stops"]);
}

#[test]
fn heartbeats_that_ignore_the_pace_of_their_server_are_found() {
    assert_found(Mutant::PaceUntold, &["progress_never_stops"]);
}

#[test]
fn an_attempt_that_was_given_up_and_is_still_served_is_found() {
    assert_found(Mutant::AbandonedServed, &["progress_never_stops"]);
}

#[test]
fn a_periodic_job_that_is_due_and_not_launched_is_found() {
    assert_found(Mutant::LaunchesForgotten, &["launches_once"]);
}

#[test]
fn a_launch_of_a_time_before_the_record_is_found() {
    assert_found(Mutant::LaunchedAgain, &["launches_once"]);
}

#[test]
fn a_launch_beside_another_that_is_not_over_is_found() {
    assert_found(Mutant::LaunchedBeside, &["launches_once"]);
}

#[test]
fn canaries_that_are_never_promoted_are_found() {
    assert_found(Mutant::PromotionsForgotten, &["rollouts_end", "liveness"]);
}

#[test]
fn older_allocs_that_come_back_in_the_new_version_are_found() {
    assert_found(Mutant::OlderInNewVersion, &["trials_hold"]);
}

#[test]
fn canaries_that_outlive_their_deployment_are_found() {
    let by = ["trials_hold", "liveness"];
    assert_found(Mutant::CanariesStay, &by);
}

#[test]
fn a_canary_beyond_the_number_asked_for_is_found() {
    assert_found(Mutant::OneCanaryMore, &["trials_hold"]);
}

#[test]
fn a_drain_that_asks_all_of_a_node_at_once_is_found() {
    assert_found(Mutant::DrainedAtOnce, &["drains_in_turn"]);
}

#[test]
fn what_stays_beyond_a_drains_deadline_is_found() {
    assert_found(Mutant::DeadlinesForgotten, &["drains_end"]);
}

#[test]
fn system_jobs_that_leave_a_draining_node_first_are_found() {
    assert_found(Mutant::SystemLeavesFirst, &["drains_in_turn"]);
}

#[test]
fn a_drain_of_an_empty_node_that_goes_on_is_found() {
    assert_found(Mutant::DrainsNeverOver, &["drains_end"]);
}

#[test]
fn drains_that_no_new_leader_continues_are_found() {
    assert_found(Mutant::DrainsDiscontinued, &["drains_end"]);
}

#[test]
fn a_second_child_of_a_forgotten_token_is_found() {
    assert_found(Mutant::TokensForgotten, &["dispatches_once"]);
}

#[test]
fn a_child_with_another_payload_is_found() {
    assert_found(Mutant::PayloadsMixed, &["dispatches_once"]);
}

#[test]
fn a_child_without_an_evaluation_is_found() {
    assert_found(Mutant::ChildrenUnseen, &["dispatches_once"]);
}

#[test]
fn a_dispatch_that_is_acknowledged_early_is_found() {
    assert_found(Mutant::DispatchedEarly, &["dispatches_once"]);
}

#[test]
fn a_victim_of_nearly_the_same_priority_is_found() {
    assert_found(Mutant::VictimsTooNear, &["victims_needed"]);
}

#[test]
fn a_victim_that_could_be_left_out_is_found() {
    assert_found(Mutant::OneVictimMore, &["victims_needed"]);
}

#[test]
fn victims_whose_jobs_are_not_looked_at_are_found() {
    let by = ["victims_needed", "stops_leave_enough"];
    assert_found(Mutant::VictimsUnseen, &by);
}

#[test]
fn an_alloc_that_starts_beside_its_victims_is_found() {
    assert_found(Mutant::VictimsUnawaited, &["victims_end_first"]);
}

#[test]
fn collected_keys_that_silent_allocations_need_are_found() {
    assert_found(Mutant::SilentUnsigned, &["needed_keys_stay"]);
}

#[test]
fn keys_that_are_collected_although_they_seal_variables_are_found() {
    assert_found(Mutant::SealsForgotten, &["needed_keys_stay"]);
}

#[test]
fn allocations_that_stay_with_a_removed_key_are_found() {
    assert_found(Mutant::ResignedOnce, &["liveness"]);
}

#[test]
fn a_rekey_that_replaces_a_newer_value_is_found() {
    assert_found(Mutant::RekeysOverNewer, &["needed_keys_stay"]);
}

#[test]
fn a_new_leader_that_counts_a_lock_from_its_acquisition_is_found() {
    assert_found(Mutant::LocksCountFromAcquisition, &["locks_hold"]);
}

#[test]
fn a_new_leader_that_forgets_the_delay_of_a_lock_is_found() {
    assert_found(Mutant::LockDelayForgotten, &["locks_hold"]);
}

#[test]
fn a_leader_that_renews_locks_without_a_majority_is_found() {
    assert_found(Mutant::RenewedAlone, &["locks_hold"]);
}

#[test]
fn a_lock_that_nobody_renews_and_that_does_not_end_is_found() {
    assert_found(Mutant::LocksNeverEnd, &["liveness"]);
}
