//! Unit tests of the door.

use super::*;

fn at(millis: u64) -> Duration {
    Duration::from_secs(86_400) + Duration::from_millis(millis)
}

fn session(waited: u64, patience: u64) -> Option<Wish> {
    Some(Wish {
        kind: WishKind::Session,
        waited: Duration::from_millis(waited),
        patience: Duration::from_millis(patience),
    })
}

/// A door whose places are all taken, by item 0.
fn full() -> Door<u32> {
    let mut door = Door::default();
    for _ in 0..door.places.count() {
        assert_eq!(door.arrive(session(0, 2_000), 0, at(0)), None);
        assert_eq!(door.next(at(0)), Some(Step::Begin(0, Lane::Nodes)));
    }
    assert_eq!(door.next(at(0)), None);
    door
}

#[test]
fn the_oldest_wish_is_served_first_and_a_session_before_all_else() {
    let mut door = full();
    let standby = Wish {
        kind: WishKind::Standby,
        waited: Duration::from_secs(60),
        patience: Duration::from_secs(4),
    };
    door.arrive(Some(standby), 1, at(0));
    door.arrive(session(0, 4_000), 2, at(10));
    door.arrive(session(5_000, 4_000), 3, at(20));
    door.arrive(session(0, 4_000), 4, at(20));
    let mut served = Vec::new();
    for _ in 0..4 {
        assert_eq!(door.next(at(30)), None, "there is no place");
        door.ended(Lane::Nodes, Some(Duration::ZERO), at(0));
        let Some(Step::Begin(item, Lane::Nodes)) = door.next(at(30)) else {
            panic!("none is let in")
        };
        served.push(item);
    }
    assert_eq!(served, [3, 2, 4, 1]);
}

#[test]
fn a_node_that_would_leave_before_it_is_answered_is_refused() {
    let mut door = full();
    assert_eq!(door.state(at(0)).crowded_for, Duration::ZERO);
    door.arrive(session(0, 2_000), 1, at(0));
    door.arrive(session(0, 4_000), 2, at(0));
    assert_eq!(door.state(at(400)).crowded_for, Duration::from_millis(400));
    assert_eq!(door.due(), Some(at(1_500)));
    assert_eq!(door.next(at(1_499)), None);
    assert_eq!(door.next(at(1_500)), Some(Step::Refuse(1)));
    assert_eq!(door.next(at(1_500)), None);
    // A place that is free too late is no use to it either.
    door.ended(Lane::Nodes, Some(Duration::ZERO), at(0));
    assert_eq!(door.due(), Some(at(3_000)));
    assert_eq!(door.next(at(3_500)), Some(Step::Refuse(2)));
    let state = door.state(at(3_500));
    assert_eq!((state.waiting, state.refused), (0, 2));
    assert_eq!(state.crowded_for, Duration::ZERO);
    assert_eq!(state.refused_at, Some(at(3_500)));
}

#[test]
fn a_node_without_patience_waits_a_moment_all_the_same() {
    let mut door = full();
    door.arrive(session(0, 0), 1, at(0));
    assert_eq!(door.due(), Some(at(100)));
}

#[test]
fn the_queue_is_bounded_and_the_youngest_wish_is_refused() {
    let mut door = full();
    for item in 0..u32::try_from(WAITING_NODES_MAX).expect("small") {
        assert_eq!(door.arrive(session(1_000, 9_000), item, at(0)), None);
    }
    assert_eq!(door.arrive(session(0, 9_000), 9_999, at(0)), Some(9_999));
    let last = u32::try_from(WAITING_NODES_MAX - 1).expect("small");
    assert_eq!(door.arrive(session(2_000, 9_000), 9_999, at(0)), Some(last));
    assert_eq!(door.state(at(0)).waiting, WAITING_NODES_MAX);
    assert!(door.is_crowded());
}

#[test]
fn servers_do_not_wait_behind_nodes() {
    let mut door = full();
    door.arrive(session(9_000, 4_000), 1, at(0));
    door.arrive(None, 2, at(0));
    assert_eq!(door.next(at(0)), Some(Step::Begin(2, Lane::Others)));
    assert_eq!(door.next(at(0)), None);
    for item in 0..u32::try_from(OTHERS_MAX + WAITING_OTHERS_MAX).expect("small") {
        let refused = door.arrive(None, item, at(0));
        let begun = door.next(at(0)).is_some();
        assert_eq!(begun, item < u32::try_from(OTHERS_MAX).expect("small") - 1);
        let room = item + 1 < u32::try_from(OTHERS_MAX + WAITING_OTHERS_MAX).expect("small");
        assert_eq!(refused.is_none(), room, "{item}");
    }
    assert_eq!(door.due(), Some(at(1_000)));
    assert!(matches!(door.next(at(1_000)), Some(Step::Refuse(_))));
}

#[test]
fn a_door_with_nobody_is_idle() {
    let mut door: Door<u32> = Door::default();
    assert_eq!((door.next(at(0)), door.due()), (None, None));
    assert!(!door.is_crowded());
    assert_eq!(door.state(at(0)).waiting, 0);
}
