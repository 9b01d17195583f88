//! Every order of events to a small depth, and planted bugs that are found. Deeper:
//! `cargo xtask check-handshake`.

use hack_model_check::action::Action;
use hack_model_check::mutant::Mutant;
use hack_model_check::roots::Root;
use hack_model_check::search::{Bounds, Explored, explore};

/// What a debug build looks at in some seconds.
const DEPTH: u8 = 5;

fn look(root: Root, mutant: Option<Mutant>, bounds: Bounds) -> Explored {
    let world = root.world(mutant, bounds.faults);
    explore(&world.expect("nothing breaks on the way there"), bounds)
}

fn shallow(depth: u8, to_rest: bool) -> Bounds {
    Bounds {
        depth,
        faults: 2,
        to_rest,
        limit: None,
    }
}

fn nothing_breaks_from(root: Root) {
    let explored = look(root, None, shallow(DEPTH, true));
    assert_eq!(explored.depth, DEPTH);
    assert!(explored.rested > 50, "{explored:?}");
    if let Some(found) = explored.found {
        panic!("{root:?}: {}: {:#?}", found.violation, found.trace);
    }
}

#[test]
fn a_new_node_goes_through_every_order_of_events() {
    nothing_breaks_from(Root::New);
}

#[test]
fn a_live_node_goes_through_every_order_of_events() {
    nothing_breaks_from(Root::Live);
}

#[test]
fn a_node_with_a_lagging_second_server_goes_through_every_order_of_events() {
    nothing_breaks_from(Root::Lagging);
}

#[test]
fn a_node_that_was_given_up_comes_back_through_every_order_of_events() {
    nothing_breaks_from(Root::Back);
}

#[test]
fn a_complete_report_is_under_way_through_every_order_of_events() {
    nothing_breaks_from(Root::Reporting);
}

/// The invariant that finds a planted bug, and a shortest way to it.
fn found(mutant: Mutant, root: Root, depth: u8) -> (&'static str, Vec<Action>) {
    let explored = look(root, Some(mutant), shallow(depth, mutant.only_hangs()));
    let found = explored
        .found
        .unwrap_or_else(|| panic!("{mutant:?} is not found"));
    assert_eq!(found.trace.len(), usize::from(explored.depth));
    (found.violation.invariant, found.trace)
}

#[test]
fn a_silent_node_that_is_ready_without_a_report_is_found() {
    let (by, trace) = found(Mutant::UngatedReady, Root::Back, 4);
    assert_eq!(by, "ready_after_report");
    assert!(matches!(trace.last(), Some(Action::Commit(_))));
}

#[test]
fn an_expiry_that_names_no_session_is_found() {
    let (by, trace) = found(Mutant::ExpiryWithoutEpoch, Root::Live, 7);
    assert_eq!(by, "own_expiry");
    assert_eq!(trace.len(), 7, "{trace:?}");
}

#[test]
fn a_report_that_counts_in_another_session_is_found() {
    let (by, _) = found(Mutant::SyncWithoutEpoch, Root::Reporting, 7);
    assert_eq!(by, "ready_after_report");
}

#[test]
fn a_repeated_hello_that_makes_another_session_is_found() {
    let (by, _) = found(Mutant::NonceIgnored, Root::Reporting, 5);
    assert_eq!(by, "one_nonce_one_session");
}

#[test]
fn a_lagging_server_whose_word_is_believed_is_found() {
    let (by, _) = found(Mutant::StaleAnswer, Root::Lagging, 5);
    assert_eq!(by, "healthy_not_killed");
}

#[test]
fn a_node_that_does_not_wait_for_its_disk_is_found() {
    let (by, trace) = found(Mutant::NoSync, Root::Reporting, 3);
    assert_eq!(by, "epochs_rise");
    assert!(trace.contains(&Action::PowerOff), "{trace:?}");
}

#[test]
fn a_daemon_that_forgets_how_far_it_was_is_found() {
    let (by, _) = found(Mutant::ForgetsWatermark, Root::Live, 2);
    assert_eq!(by, "watermark");
}

#[test]
fn a_pair_of_which_both_are_stopped_is_found() {
    let (by, _) = found(Mutant::BothStopped, Root::Reporting, 6);
    assert_eq!(by, "stops_leave_one");
}

#[test]
fn a_report_that_is_not_sent_because_it_equals_the_last_is_found() {
    let (by, _) = found(Mutant::EqualSyncDropped, Root::New, 11);
    assert_eq!(by, "comes_to_rest");
}

#[test]
fn a_watch_that_begins_before_the_report_is_found() {
    let (by, _) = found(Mutant::WatchBeforeSync, Root::Back, 9);
    assert_eq!(by, "map_after_sync");
}

#[test]
fn a_node_that_is_heard_although_it_owes_its_report_is_found() {
    let (by, _) = found(Mutant::EarlyUpdates, Root::Live, 9);
    assert_eq!(by, "session_steps");
}
