//! The chain: what breaks it, and what a map and its deltas come to.

use std::sync::Arc;

use protocol_model::{Incarnation, Job, SpecHash};

use super::*;
use crate::test_support::{alloc_of, at, job_with_tasks, task};

const HOME: u128 = 1;

fn id(number: u128) -> AllocId {
    AllocId::from_u128(number)
}

fn mark(incarnation: u128, index: u64) -> Watermark {
    Watermark {
        incarnation: Some(Incarnation::from_u128(incarnation)),
        index,
    }
}

fn set_with(known: &[(u128, u64)], watermark: Watermark, grace: Option<Duration>) -> AllocSet {
    let newest = known.iter().map(|(_, version)| *version).max();
    let known = known
        .iter()
        .map(|(number, version)| (id(*number), *version))
        .collect();
    let (newest, foreign) = (newest.unwrap_or_default(), BTreeSet::new());
    AllocSet::new(watermark, newest, known, foreign, grace, at(0).moment)
}

fn map(at: Watermark, allocs: &[(u128, u64)]) -> WatchMap {
    let allocs = allocs
        .iter()
        .map(|(number, version)| (id(*number), *version))
        .collect();
    WatchMap {
        at,
        part: 0,
        last: true,
        allocs,
    }
}

fn delta(previous_index: u64, index: u64, changed: &[(u128, u64)], removed: &[u128]) -> WatchDelta {
    let job: Arc<Job> = Arc::new(job_with_tasks("web", vec![task("main")]));
    let changed = changed.iter().map(|(number, version)| DesiredAlloc {
        root_key: 0,
        version: *version,
        spec: SpecHash([1; 32]),
        alloc: alloc_of(&job, id(*number)),
    });
    WatchDelta {
        previous_index,
        index,
        specs: Vec::new(),
        changed: changed.collect(),
        removed: removed.iter().map(|number| id(*number)).collect(),
    }
}

/// The steps in short: `+1@5` `-2` `told 1` `=9`.
fn short(steps: Vec<WatchStep>) -> Vec<String> {
    steps
        .into_iter()
        .map(|step| match step {
            WatchStep::Upsert(desired) => {
                format!("+{}@{}", desired.alloc.id.0.as_u128(), desired.version)
            }
            WatchStep::Destroy(alloc) => format!("-{}", alloc.0.as_u128()),
            WatchStep::Foreign(allocs) => format!("foreign {}", allocs.len()),
            WatchStep::Confirmed(allocs) => format!("told {}", allocs.len()),
            WatchStep::Moved(watermark) => format!("={}", watermark.index),
        })
        .collect()
}

#[test]
fn what_a_complete_map_does_not_name_is_destroyed() {
    let mut set = set_with(&[(1, 4), (2, 5)], mark(HOME, 5), None);
    let steps = set
        .on_map(map(mark(HOME, 9), &[(1, 4)]), at(0).moment)
        .expect("a good map");
    assert_eq!(short(steps), ["-2", "told 1", "=9"]);
    assert_eq!(set.watermark(), mark(HOME, 9));
}

#[test]
fn the_watermark_waits_for_every_version_that_the_map_names() {
    let mut set = set_with(&[(1, 4)], mark(HOME, 5), None);
    let steps = set
        .on_map(map(mark(HOME, 9), &[(1, 8), (2, 7)]), at(0).moment)
        .expect("good");
    assert_eq!(short(steps), ["told 0"]);
    assert_eq!(set.watermark(), mark(HOME, 5));
    let steps = set.on_delta(delta(9, 9, &[(1, 8)], &[])).expect("it fills");
    assert_eq!(short(steps), ["+1@8"]);
    let steps = set
        .on_delta(delta(9, 12, &[(2, 11)], &[]))
        .expect("it goes on");
    assert_eq!(short(steps), ["+2@11", "=12"]);
}

#[test]
fn a_gap_or_a_repeat_closes_the_watch_and_changes_nothing() {
    for bad in [
        delta(9, 12, &[(3, 12)], &[1]),
        delta(10, 10, &[], &[1]),
        delta(11, 12, &[], &[1]),
    ] {
        let mut set = set_with(&[(1, 4)], mark(HOME, 5), None);
        set.on_map(map(mark(HOME, 9), &[(1, 4)]), at(0).moment)
            .expect("a good map");
        set.on_delta(delta(9, 10, &[], &[])).expect("it goes on");
        let refused = set.on_delta(bad);
        assert!(
            matches!(refused, Err(DisconnectReason::WatchBroken { .. })),
            "{refused:?}"
        );
        assert_eq!(set.watermark(), mark(HOME, 10));
        assert_eq!(set.version(id(1)), Some(4));
        let late = set.on_delta(delta(10, 11, &[], &[]));
        assert_eq!(
            late,
            Err(DisconnectReason::MapMalformed),
            "the watch is closed"
        );
    }
}

#[test]
fn a_server_that_is_behind_cannot_take_the_node_back_in_time() {
    let mut set = set_with(&[(1, 4), (2, 9)], mark(HOME, 9), None);
    let refused = set.on_map(map(mark(HOME, 5), &[(1, 4)]), at(0).moment);
    assert_eq!(
        refused,
        Err(DisconnectReason::WatchBroken {
            received: 5,
            expected: 9
        })
    );
    assert_eq!(set.version(id(2)), Some(9));
}

#[test]
fn a_map_that_is_older_than_what_a_broken_one_brought_destroys_nothing() {
    let broken = DisconnectReason::WatchBroken {
        received: 7,
        expected: 9,
    };
    let older = || map(mark(HOME, 7), &[(1, 4)]);
    let mut set = set_with(&[(1, 4)], mark(HOME, 5), None);
    let newer = map(mark(HOME, 9), &[(1, 4), (2, 8), (3, 9)]);
    set.on_map(newer, at(0).moment).expect("a good map");
    set.on_delta(delta(9, 9, &[(2, 8)], &[])).expect("it fills");
    set.close();
    assert_eq!(set.watermark(), mark(HOME, 5));
    assert_eq!(set.on_map(older(), at(0).moment), Err(broken));
    assert_eq!(set.version(id(2)), Some(8));
    // Nor does a new daemon believe it, to which the journal told the version.
    let broken = DisconnectReason::WatchBroken {
        received: 7,
        expected: 8,
    };
    let mut set = set_with(&[(1, 4), (2, 8)], mark(HOME, 5), None);
    assert_eq!(set.on_map(older(), at(0).moment), Err(broken));
    assert_eq!(set.version(id(2)), Some(8));
    let same = map(mark(HOME, 8), &[(1, 4), (2, 8)]);
    let steps = set.on_map(same, at(0).moment).expect("as new as that");
    assert_eq!(short(steps), ["told 2", "=8"]);
}

#[test]
fn a_map_that_is_older_than_a_delta_of_a_broken_watch_is_refused() {
    let mut set = set_with(&[(1, 4)], mark(HOME, 5), None);
    let map_at = |index| map(mark(HOME, index), &[(1, 4), (2, 8)]);
    set.on_map(map_at(9), at(0).moment).expect("a good map");
    let steps = set.on_delta(delta(9, 12, &[], &[1])).expect("it goes on");
    assert_eq!(short(steps), ["-1"]);
    set.close();
    // Or what was dropped comes back.
    let refused = set.on_map(map_at(11), at(0).moment);
    let broken = DisconnectReason::WatchBroken {
        received: 11,
        expected: 12,
    };
    assert_eq!(refused, Err(broken));
}

#[test]
fn maps_of_another_incarnation_are_compared_with_its_own_only() {
    let mut set = set_with(&[(1, 40), (2, 50)], mark(HOME, 50), None);
    let first = map(mark(2, 9), &[(1, 2), (3, 8)]);
    set.on_map(first, at(0).moment).expect("another history");
    set.on_delta(delta(9, 9, &[(3, 8)], &[])).expect("it fills");
    set.close();
    let older = set.on_map(map(mark(2, 7), &[(1, 2)]), at(0).moment);
    let broken = DisconnectReason::WatchBroken {
        received: 7,
        expected: 9,
    };
    assert_eq!(older, Err(broken));
    assert_eq!(set.foreign().collect::<Vec<_>>(), [id(2)]);
}

#[test]
fn a_map_comes_in_parts_that_follow_each_other() {
    let part = |part, last, number| WatchMap {
        part,
        last,
        ..map(mark(HOME, 9), &[(number, 1)])
    };
    let mut set = set_with(&[(1, 1), (2, 1), (3, 1)], mark(HOME, 5), None);
    assert_eq!(set.on_map(part(0, false, 1), at(0).moment), Ok(Vec::new()));
    let steps = set
        .on_map(part(1, true, 2), at(0).moment)
        .expect("the last part");
    assert_eq!(short(steps), ["-3", "told 2", "=9"]);
    let mut set = set_with(&[], mark(HOME, 5), None);
    assert_eq!(set.on_map(part(0, false, 1), at(0).moment), Ok(Vec::new()));
    let refused = set.on_map(part(2, true, 2), at(0).moment);
    assert_eq!(refused, Err(DisconnectReason::MapMalformed));
}

#[test]
fn an_older_or_equal_version_is_no_news() {
    let mut set = set_with(&[(1, 4)], mark(HOME, 5), None);
    set.on_map(map(mark(HOME, 5), &[(1, 4)]), at(0).moment)
        .expect("a good map");
    let steps = set
        .on_delta(delta(5, 6, &[(1, 4)], &[9]))
        .expect("it goes on");
    assert_eq!(short(steps), ["=6"]);
}

#[test]
fn another_incarnation_stops_nothing_until_its_grace_is_over() {
    let grace = Some(Duration::from_secs(60));
    let mut set = set_with(&[(1, 40), (2, 50)], mark(HOME, 50), grace);
    let steps = set
        .on_map(map(mark(2, 3), &[(1, 2)]), at(1_000).moment)
        .expect("accepted");
    assert_eq!(short(steps), ["foreign 1", "told 0"]);
    let steps = set
        .on_delta(delta(3, 3, &[(1, 2)], &[]))
        .expect("its versions start anew");
    assert_eq!(short(steps), ["+1@2", "=3"]);
    assert_eq!(set.foreign().collect::<Vec<_>>(), [id(2)]);
    set.close();
    let steps = set
        .on_map(map(mark(2, 4), &[(1, 2)]), at(2_000).moment)
        .expect("accepted");
    assert_eq!(
        short(steps),
        ["told 1", "=4"],
        "a second map does not end the grace"
    );
    assert_eq!(set.on_timeout(at(60_999).moment), []);
    assert_eq!(set.on_timeout(at(61_000).moment), [id(2)]);
    assert_eq!(set.poll_timeout(), None);
}

#[test]
fn without_a_grace_only_an_operator_releases_what_is_foreign() {
    let mut set = set_with(&[(2, 50)], mark(HOME, 50), None);
    set.on_map(map(mark(2, 3), &[]), at(0).moment)
        .expect("accepted");
    assert_eq!(set.poll_timeout(), None);
    assert_eq!(set.release_foreign(), [id(2)]);
}

#[test]
fn a_new_daemon_still_knows_what_is_foreign() {
    let foreign = BTreeSet::from([id(2)]);
    let known = BTreeMap::from([(id(1), 2), (id(2), 50)]);
    let mut set = AllocSet::new(mark(2, 4), 2, known, foreign, None, at(0).moment);
    let steps = set
        .on_map(map(mark(2, 4), &[(1, 2)]), at(0).moment)
        .expect("accepted");
    assert_eq!(short(steps), ["told 1", "=4"]);
    assert_eq!(set.foreign().collect::<Vec<_>>(), [id(2)]);
}

#[test]
fn what_a_later_incarnation_knows_again_is_foreign_no_more() {
    let mut set = set_with(&[(1, 40), (2, 50)], mark(HOME, 50), None);
    set.on_map(map(mark(2, 60), &[]), at(0).moment)
        .expect("accepted");
    assert_eq!(set.foreign().count(), 2);
    set.close();
    let steps = set
        .on_map(map(mark(3, 70), &[(1, 40)]), at(0).moment)
        .expect("accepted");
    assert_eq!(short(steps), ["foreign 1", "told 0"]);
    let steps = set
        .on_delta(delta(70, 70, &[(1, 40)], &[]))
        .expect("it fills");
    assert_eq!(short(steps), ["+1@40", "=70"]);
    assert_eq!(set.foreign().collect::<Vec<_>>(), [id(2)]);
}

proptest::proptest! {
    /// Whatever arrives, neither the watermark nor the index of what is acted on goes down within
    /// an incarnation, and what is known changes only on an unbroken chain.
    #[test]
    fn nodes_never_go_back_in_time(
        messages in proptest::collection::vec(
            (0_u8..3, 0_u64..12, 0_u64..12, 0_u128..4, 0_u64..9), 0..40),
    ) {
        let mut set = set_with(&[(1, 2)], mark(HOME, 2), None);
        let (mut watermark, mut acted) = (set.watermark().index, set.watermark().index);
        for (kind, first, second, number, version) in messages {
            let versions: Vec<Option<u64>> = (0..4).map(|it| set.version(id(it))).collect();
            let (index, result) = match kind {
                0 => {
                    let map = map(mark(HOME, first), &[(number, version)]);
                    (first, set.on_map(map, at(0).moment))
                }
                1 => (second, set.on_delta(delta(first, second, &[(number, version)], &[]))),
                _ => {
                    set.close();
                    continue;
                }
            };
            if result.is_ok() {
                proptest::prop_assert!(index >= acted);
                acted = index;
            }
            proptest::prop_assert!(set.watermark().index >= watermark);
            watermark = set.watermark().index;
            if result.is_err() {
                let after: Vec<Option<u64>> = (0..4).map(|it| set.version(id(it))).collect();
                proptest::prop_assert_eq!(versions, after);
            }
        }
    }
}
