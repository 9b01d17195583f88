//! The batcher's invariants, one test each.

mod model;

use protocol_model::{ClientStatus, DeploymentId, TaskState, UnixNanos};
use protocol_wire::report::{JudgedFor, ReportedHealth};

use super::*;
use crate::effect::StatusBatch;
use crate::test_support::at;

const EPOCH: SessionEpoch = SessionEpoch(7);

fn id(number: u128) -> AllocId {
    AllocId::from_u128(number)
}

fn report(number: u128, status: ClientStatus, restarts: u64) -> AllocReport {
    let mut report = AllocReport::new(id(number), 0, status);
    let state = TaskState {
        restarts,
        ..TaskState::default()
    };
    report.task_states.insert("main".to_owned(), state);
    report
}

/// A batcher in a live session that has said nothing yet.
fn live() -> UpdateBatcher {
    let mut batcher = UpdateBatcher::default();
    batcher.on_session(
        EPOCH,
        SessionMode::OwesSync,
        AppliedSeqs::default(),
        at(0).moment,
    );
    batcher.begin_sync([], at(0).moment);
    batcher.on_sync_ack(EPOCH, at(0).moment);
    batcher
}

/// A live batcher of which the control plane has recorded these running allocations.
fn live_with(numbers: std::ops::Range<u128>) -> UpdateBatcher {
    let mut batcher = live();
    for number in numbers {
        let acked = AckedState::of(&report(number, ClientStatus::Running, 0));
        batcher.set_acknowledged(id(number), acked);
    }
    batcher
}

fn ids(batch: &StatusBatch) -> Vec<u128> {
    batch
        .reports
        .iter()
        .map(|report| report.id.0.as_u128())
        .collect()
}

#[test]
fn newest_wins_per_allocation() {
    let mut batcher = live_with(0..1);
    for restarts in 1..5 {
        batcher.on_update(report(0, ClientStatus::Running, restarts), at(1).moment);
    }
    let batch = batcher
        .poll_batch(at(1_001).moment)
        .expect("typical is due");
    assert_eq!(batch.reports.len(), 1);
    assert_eq!(batch.reports[0].task_states["main"].restarts, 4);
    assert_eq!(batcher.depth(), 0);
}

#[test]
fn revisions_rise_per_allocation_over_both_classes() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Running, 1), at(0).moment);
    let typical = batcher
        .poll_batch(at(1_000).moment)
        .expect("typical is due");
    batcher.on_update(report(0, ClientStatus::Failed, 1), at(1_000).moment);
    let urgent = batcher
        .poll_batch(at(1_010).moment)
        .expect("urgent overtakes");
    assert_eq!(
        (typical.class, urgent.class),
        (UpdateClass::Typical, UpdateClass::Urgent)
    );
    assert!(urgent.reports[0].revision > typical.reports[0].revision);
}

#[test]
fn an_equal_update_is_dropped_only_while_nothing_is_in_flight() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Running, 0), at(0).moment);
    assert_eq!(batcher.depth(), 0, "it says what is recorded");
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    let batch = batcher.poll_batch(at(10).moment).expect("urgent is due");
    batcher.on_update(report(0, ClientStatus::Running, 0), at(11).moment);
    assert_eq!(
        batcher.depth(),
        1,
        "the failed status may be recorded before this"
    );
    batcher.on_ack(
        batch.class,
        batch.seq,
        &[ItemResult::Applied],
        at(12).moment,
    );
    let batch = batcher
        .poll_batch(at(22).moment)
        .expect("the status changed back");
    assert_eq!(batch.reports[0].client_status, ClientStatus::Running);
}

#[test]
fn the_same_health_is_news_to_another_deployment_also_when_the_answer_to_the_first_is_late() {
    let mut batcher = live_with(0..1);
    let healthy = |deployment| {
        let mut report = report(0, ClientStatus::Running, 0);
        report.health = Some(ReportedHealth {
            healthy: true,
            at: UnixNanos(1),
            judged_for: JudgedFor::Deployment(DeploymentId::from_u128(deployment)),
        });
        report
    };
    batcher.on_update(healthy(3), at(0).moment);
    let first = batcher.poll_batch(at(10).moment).expect("urgent is due");
    // The allocation is given to another deployment, which knows nothing of its health yet.
    batcher.on_update(report(0, ClientStatus::Running, 0), at(11).moment);
    let applied = [ItemResult::Applied];
    batcher.on_ack(first.class, first.seq, &applied, at(12).moment);
    batcher.on_update(healthy(4), at(13).moment);
    let second = batcher.poll_batch(at(23).moment).expect("urgent again");
    assert_eq!(second.reports[0].health, healthy(4).health);
}

#[test]
fn after_an_unknown_fate_nothing_is_dropped_as_equal() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    let batch = batcher.poll_batch(at(10).moment).expect("urgent is due");
    batcher.on_update(report(0, ClientStatus::Running, 0), at(11).moment);
    batcher.on_disconnected();
    assert_eq!(batcher.poll_batch(at(5_000).moment), None);
    // The batch was not applied yet, but it may still be on its way.
    let applied = AppliedSeqs {
        urgent: batch.seq - 1,
        typical: 0,
    };
    batcher.on_session(EPOCH, SessionMode::Resumed, applied, at(6_000).moment);
    let again = batcher.poll_batch(at(7_000).moment).expect("said again");
    assert_eq!(again.reports[0].client_status, ClientStatus::Running);
    assert!(again.reports[0].revision > batch.reports[0].revision);
}

#[test]
fn one_batch_per_class_is_in_flight_and_classes_keep_their_times() {
    let mut batcher = live_with(0..3);
    batcher.on_update(report(0, ClientStatus::Running, 1), at(0).moment);
    batcher.on_update(report(1, ClientStatus::Failed, 0), at(100).moment);
    assert_eq!(batcher.poll_timeout(), Some(at(110).moment));
    assert_eq!(batcher.poll_batch(at(109).moment), None);
    let urgent = batcher.poll_batch(at(110).moment).expect("after its delay");
    assert_eq!((urgent.class, ids(&urgent)), (UpdateClass::Urgent, vec![1]));
    batcher.on_update(report(2, ClientStatus::Failed, 0), at(120).moment);
    assert_eq!(
        batcher.poll_batch(at(999).moment),
        None,
        "one urgent batch is in flight"
    );
    let typical = batcher
        .poll_batch(at(1_000).moment)
        .expect("after the interval");
    assert_eq!(
        (typical.class, ids(&typical)),
        (UpdateClass::Typical, vec![2, 0])
    );
    assert_eq!(batcher.poll_batch(at(5_000).moment), None);
}

#[test]
fn nothing_leaves_outside_a_session_and_live_updates_wait_behind_the_sync() {
    let mut batcher = UpdateBatcher::default();
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    assert_eq!(batcher.poll_batch(at(60_000).moment), None);
    batcher.on_session(
        EPOCH,
        SessionMode::OwesSync,
        AppliedSeqs::default(),
        at(60_000).moment,
    );
    let sent = batcher.begin_sync([report(0, ClientStatus::Failed, 0)], at(60_000).moment);
    assert_eq!(sent[0].revision, 1);
    batcher.on_update(report(0, ClientStatus::Failed, 9), at(60_001).moment);
    assert_eq!(batcher.poll_batch(at(90_000).moment), None);
    batcher.on_sync_ack(EPOCH, at(90_000).moment);
    let batch = batcher
        .poll_batch(at(91_001).moment)
        .expect("what is newer than the sync");
    assert_eq!(batch.reports[0].task_states["main"].restarts, 9);
}

#[test]
fn a_failed_batch_comes_back_except_where_superseded() {
    let mut batcher = live_with(0..3);
    for number in 0..3 {
        batcher.on_update(report(number, ClientStatus::Failed, 0), at(0).moment);
    }
    let batch = batcher.poll_batch(at(10).moment).expect("urgent is due");
    batcher.on_update(report(1, ClientStatus::Failed, 5), at(11).moment);
    batcher.on_send_failed(batch.class, batch.seq, at(20).moment);
    let again = batcher.poll_batch(at(30).moment).expect("it comes back");
    assert_eq!(ids(&again), [1, 0, 2], "the oldest first");
    assert_eq!(again.reports[0].task_states["main"].restarts, 5);
    let results = [
        ItemResult::Applied,
        ItemResult::NotInSession,
        ItemResult::UnknownAlloc,
    ];
    batcher.on_ack(again.class, again.seq, &results, at(31).moment);
    let rest = batcher
        .poll_batch(at(41).moment)
        .expect("what was not applied");
    assert_eq!(
        ids(&rest),
        [0],
        "the applied and the unknown one do not come back"
    );
}

#[test]
fn batches_respect_their_caps_and_full_ones_leave_at_once() {
    let count = BATCH_ITEMS_MAX as u128 + 10;
    let mut batcher = live_with(0..count);
    for number in 0..count {
        batcher.on_update(report(number, ClientStatus::Running, 1), at(0).moment);
    }
    let batch = batcher
        .poll_batch(at(0).moment)
        .expect("a full batch gains nothing by waiting");
    assert_eq!(batch.reports.len(), BATCH_ITEMS_MAX);
    let mut batcher = live_with(0..10);
    for number in 0..10 {
        let mut large = report(number, ClientStatus::Running, 1);
        large.client_description = "x".repeat(BATCH_BYTES_MAX / 4);
        batcher.on_update(large, at(0).moment);
    }
    let batch = batcher.poll_batch(at(1_000).moment).expect("due");
    assert_eq!(batch.reports.len(), 3);
    let mut huge = report(99, ClientStatus::Failed, 1);
    huge.client_description = "x".repeat(BATCH_BYTES_MAX * 2);
    batcher.on_update(huge, at(1_000).moment);
    let batch = batcher.poll_batch(at(1_010).moment).expect("due");
    assert_eq!(ids(&batch), [99], "a larger one travels alone");
}

#[test]
fn sequence_numbers_are_per_class_and_go_on_from_what_the_control_plane_applied() {
    let mut batcher = live_with(0..2);
    batcher.on_disconnected();
    let applied = AppliedSeqs {
        urgent: 40,
        typical: 7,
    };
    batcher.on_session(EPOCH, SessionMode::Resumed, applied, at(0).moment);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    batcher.on_update(report(1, ClientStatus::Running, 1), at(0).moment);
    let urgent = batcher.poll_batch(at(10).moment).expect("urgent is due");
    let typical = batcher
        .poll_batch(at(1_000).moment)
        .expect("typical is due");
    assert_eq!((urgent.seq, typical.seq), (41, 8));
}

#[test]
fn a_resumed_session_says_which_batches_were_applied() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    let batch = batcher.poll_batch(at(10).moment).expect("urgent is due");
    batcher.on_disconnected();
    let applied = AppliedSeqs {
        urgent: batch.seq,
        typical: 0,
    };
    batcher.on_session(EPOCH, SessionMode::Resumed, applied, at(20).moment);
    assert_eq!(batcher.poll_batch(at(60_000).moment), None);
    let acked = batcher.take_acknowledged();
    assert_eq!(acked[0].1.client_status, ClientStatus::Failed);
}

#[test]
fn a_sync_whose_predecessor_may_be_the_one_recorded_is_said_again() {
    let mut batcher = live_with(0..1);
    batcher.on_disconnected();
    let mut sync = |status, millis: u64| {
        let applied = AppliedSeqs::default();
        batcher.on_session(
            SessionEpoch(8),
            SessionMode::OwesSync,
            applied,
            at(millis).moment,
        );
        batcher.begin_sync([report(0, status, 0)], at(millis).moment);
    };
    sync(ClientStatus::Running, 0);
    batcher.on_disconnected();
    let applied = AppliedSeqs::default();
    batcher.on_session(
        SessionEpoch(8),
        SessionMode::OwesSync,
        applied,
        at(10).moment,
    );
    batcher.begin_sync([report(0, ClientStatus::Failed, 0)], at(10).moment);
    batcher.on_sync_ack(SessionEpoch(8), at(20).moment);
    let batch = batcher
        .poll_batch(at(30).moment)
        .expect("the second sync may have been ignored");
    assert_eq!(batch.reports[0].client_status, ClientStatus::Failed);
}

#[test]
fn memory_is_one_entry_per_allocation_and_none_after_it_is_forgotten() {
    let mut batcher = UpdateBatcher::default();
    for restarts in 0..1_000 {
        batcher.on_update(
            report(0, ClientStatus::Running, restarts),
            at(restarts).moment,
        );
    }
    assert_eq!((batcher.entries.len(), batcher.depth()), (1, 1));
    batcher.forget(id(0));
    assert_eq!((batcher.entries.len(), batcher.depth()), (0, 0));
}

#[test]
fn a_clock_that_goes_back_is_counted_and_delays_nothing_for_ever() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(10_000).moment);
    assert_eq!(batcher.poll_batch(at(3).moment), None);
    assert_eq!(batcher.backlog(at(3).moment).clock_steps_back, 1);
    assert!(batcher.poll_batch(at(10_010).moment).is_some());
}

#[test]
fn what_is_on_its_way_waits_still() {
    let mut batcher = live_with(0..3);
    for (number, offered) in [(0, 1), (1, 2), (2, 3)] {
        batcher.on_update(report(number, ClientStatus::Failed, 0), at(offered).moment);
    }
    let backlog = |batcher: &UpdateBatcher, millis| {
        let all = batcher.backlog(at(millis).moment);
        (all.waiting, all.in_flight, all.oldest.as_millis())
    };
    assert_eq!(backlog(&batcher, 5), (3, 0, 4));
    let batch = batcher.poll_batch(at(60).moment).expect("urgent is due");
    batcher.on_update(report(1, ClientStatus::Failed, 9), at(61).moment);
    assert_eq!(backlog(&batcher, 9_001), (1, 3, 9_000));
    let results = [ItemResult::Applied; 3];
    batcher.on_ack(batch.class, batch.seq, &results, at(9_001).moment);
    assert_eq!(backlog(&batcher, 9_061), (1, 0, 9_000));
}

#[test]
fn an_unanswered_batch_is_noticed() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    assert!(batcher.poll_batch(at(10).moment).is_some());
    assert_eq!(batcher.poll_timeout(), Some(at(10_010).moment));
    assert!(!batcher.overdue(at(10_009).moment));
    assert!(batcher.overdue(at(10_010).moment));
}

#[test]
fn a_batch_that_waits_for_the_journal_is_not_overdue_until_it_is_sent() {
    let mut batcher = live_with(0..1);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(0).moment);
    let batch = batcher.poll_batch(at(10).moment).expect("it is due");
    batcher.on_held(batch.class, batch.seq);
    assert_eq!(batcher.poll_timeout(), None);
    assert!(!batcher.overdue(at(60_000).moment));
    batcher.on_sent(batch.class, batch.seq + 1, at(60_000).moment);
    assert_eq!(batcher.poll_timeout(), None, "another batch");
    batcher.on_sent(batch.class, batch.seq, at(60_000).moment);
    assert!(!batcher.overdue(at(69_999).moment));
    assert!(batcher.overdue(at(70_000).moment));
}

/// A report with so many events.
fn with_events(report: AllocReport, count: usize) -> AllocReport {
    let mut report = report;
    if let Some(state) = report.task_states.get_mut("main") {
        (0..count).for_each(|_| state.push_event(protocol_model::TaskEvent::default()));
    }
    report
}

#[test]
fn volatile_detail_rides_along() {
    let mut batcher = live_with(0..2);
    let talkative = with_events(report(0, ClientStatus::Running, 0), 1);
    batcher.on_update(talkative, at(0).moment);
    batcher.on_update(report(1, ClientStatus::Running, 1), at(3_000).moment);
    assert_eq!(batcher.poll_batch(at(3_999).moment), None);
    let batch = batcher
        .poll_batch(at(4_000).moment)
        .expect("typical is due");
    assert_eq!(ids(&batch), [1, 0]);
    assert_eq!(batcher.poll_batch(at(60_000).moment), None, "all was said");
}

#[test]
fn volatile_detail_leaves_alone_where_nothing_else_does() {
    let mut batcher = live_with(0..2);
    let running = |events| with_events(report(0, ClientStatus::Running, 0), events);
    batcher.on_update(running(1), at(0).moment);
    // More of it does not begin the wait anew.
    batcher.on_update(running(2), at(4_000).moment);
    assert_eq!(batcher.poll_batch(at(4_999).moment), None);
    assert_eq!(batcher.poll_timeout(), Some(at(5_000).moment));
    let batch = batcher.poll_batch(at(5_000).moment).expect("it is due");
    assert_eq!(ids(&batch), [0]);
    assert_eq!(batch.reports[0].task_states["main"].events.len(), 2);
    let superseded = [ItemResult::Superseded];
    batcher.on_ack(batch.class, batch.seq, &superseded, at(5_001).moment);
    assert_eq!(batcher.poll_timeout(), None);
    assert_eq!(batcher.depth(), 0);
}

/// What the next typical batch says of allocation 0, which something of allocation 1 makes leave:
/// its number, and the revision and the events of 0.
fn next_detail(batcher: &mut UpdateBatcher, restarts: u64, millis: u64) -> (u64, u64, usize) {
    let other = report(1, ClientStatus::Running, restarts);
    batcher.on_update(other, at(millis).moment);
    let batch = batcher.poll_batch(at(millis + 1_000).moment);
    let batch = batch.expect("typical is due");
    assert_eq!(ids(&batch), [1, 0]);
    let events = batch.reports[1].task_states["main"].events.len();
    (batch.seq, batch.reports[1].revision, events)
}

#[test]
fn volatile_detail_goes_under_the_revision_that_is_recorded() {
    let mut batcher = live_with(1..2);
    let running = |events| with_events(report(0, ClientStatus::Running, 0), events);
    batcher.on_disconnected();
    let (mode, none) = (SessionMode::OwesSync, AppliedSeqs::default());
    batcher.on_session(EPOCH, mode, none, at(0).moment);
    let synced = batcher.begin_sync([running(1)], at(0).moment);
    assert_eq!(synced[0].revision, 1);
    batcher.on_sync_ack(EPOCH, at(0).moment);
    // The sync says of what is recorded already that it is so, and no revision.
    batcher.on_update(running(2), at(0).moment);
    let (seq, revision, events) = next_detail(&mut batcher, 1, 0);
    assert_eq!((revision, events), (0, 2));
    let both = [ItemResult::Applied, ItemResult::Superseded];
    batcher.on_ack(UpdateClass::Typical, seq, &both, at(1_001).moment);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(1_001).moment);
    let urgent = batcher.poll_batch(at(1_011).moment).expect("urgent is due");
    assert_eq!(urgent.reports[0].revision, 2);
    batcher.on_ack(urgent.class, urgent.seq, &both[..1], at(1_012).moment);
    batcher.on_update(running(3), at(1_012).moment);
    let again = batcher.poll_batch(at(1_022).moment).expect("urgent is due");
    assert_eq!(again.reports[0].revision, 3);
    batcher.on_ack(again.class, again.seq, &both[..1], at(1_023).moment);
    for (events, millis) in [(4, 2_000), (5, 4_000)] {
        batcher.on_update(running(events), at(millis).moment);
        let (seq, revision, told) = next_detail(&mut batcher, millis, millis);
        assert_eq!((revision, told), (3, events));
        batcher.on_ack(UpdateClass::Typical, seq, &both, at(millis + 1_001).moment);
    }
}

#[test]
fn volatile_detail_on_its_way_makes_nothing_typical_and_comes_back_as_it_was() {
    let mut batcher = live_with(0..2);
    let running = |events| with_events(report(0, ClientStatus::Running, 0), events);
    batcher.on_update(running(1), at(0).moment);
    let (seq, _, _) = next_detail(&mut batcher, 1, 0);
    batcher.on_update(running(2), at(1_001).moment);
    assert_eq!(batcher.depth(), 0, "nothing that has to be recorded");
    batcher.on_send_failed(UpdateClass::Typical, seq, at(1_002).moment);
    let (seq, revision, events) = next_detail(&mut batcher, 2, 1_002);
    assert_eq!((revision, events), (0, 2), "the newest");
    batcher.on_send_failed(UpdateClass::Typical, seq, at(2_003).moment);
    let (_, revision, events) = next_detail(&mut batcher, 3, 2_003);
    assert_eq!((revision, events), (0, 2), "once more");
}

#[test]
fn volatile_detail_that_something_newer_overtook_does_not_come_back() {
    let mut batcher = live_with(0..2);
    batcher.on_update(
        with_events(report(0, ClientStatus::Running, 0), 1),
        at(0).moment,
    );
    let (seq, _, _) = next_detail(&mut batcher, 1, 0);
    batcher.on_update(report(0, ClientStatus::Failed, 0), at(1_001).moment);
    let urgent = batcher.poll_batch(at(1_011).moment).expect("it overtakes");
    let applied = [ItemResult::Applied];
    batcher.on_ack(urgent.class, urgent.seq, &applied, at(1_012).moment);
    batcher.on_send_failed(UpdateClass::Typical, seq, at(1_013).moment);
    let rest = batcher.poll_batch(at(2_013).moment).expect("of the other");
    assert_eq!(ids(&rest), [1]);
    let acked = batcher.acknowledged(id(0)).expect("it is known");
    assert_eq!(acked.client_status, ClientStatus::Failed);
}

#[test]
fn events_that_belong_to_a_last_word_are_to_be_recorded() {
    let mut batcher = live_with(0..2);
    batcher.on_update(report(0, ClientStatus::Complete, 0), at(0).moment);
    let urgent = batcher.poll_batch(at(10).moment).expect("urgent is due");
    let applied = [ItemResult::Applied];
    batcher.on_ack(urgent.class, urgent.seq, &applied, at(11).moment);
    let more = with_events(report(0, ClientStatus::Complete, 0), 1);
    batcher.on_update(more, at(12).moment);
    let (_, revision, _) = next_detail(&mut batcher, 1, 12);
    assert_eq!(revision, 2);
}
