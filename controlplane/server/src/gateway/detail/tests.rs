//! Which events are kept, in whatever order they come.

use std::time::Duration;

use protocol_model::{ClientStatus, TaskEventKind, UnixNanos};

use super::*;

/// Told by node 1 over a connection.
fn over(via: Instant) -> Told {
    Told {
        node: NodeId::from_u128(1),
        epoch: SessionEpoch(7),
        via,
    }
}

/// A connection, and the one that came after it.
fn connections() -> [Instant; 2] {
    let first = Instant::now();
    [first, first + Duration::from_secs(1)]
}

fn task_events(text: &str) -> Vec<Arc<TaskEvent>> {
    let event = TaskEvent::new(TaskEventKind::Started, text, UnixNanos(7));
    vec![Arc::new(event)]
}

/// What the report of that revision says of an allocation: one event.
fn events(number: u128, revision: u64, text: &str) -> AllocEvents {
    AllocEvents {
        alloc: AllocId::from_u128(number),
        revision,
        tasks: BTreeMap::from([("main".to_owned(), task_events(text))]),
    }
}

/// The event that is kept of an allocation.
fn kept(cache: &DetailCache, number: u128) -> Option<String> {
    let detail = cache.of(AllocId::from_u128(number))?;
    Some(detail.events["main"][0].display_message.clone())
}

fn is_kept(cache: &DetailCache, text: &str) {
    assert_eq!(kept(cache, 1).as_deref(), Some(text));
}

#[test]
fn the_later_of_two_reports_counts_in_whatever_order_they_come() {
    let [first, _] = connections();
    for order in [[1, 2], [2, 1]] {
        let cache = DetailCache::default();
        for revision in order {
            let text = format!("of report {revision}");
            cache.take_in(over(first), [events(1, revision, &text)]);
        }
        is_kept(&cache, "of report 2");
    }
}

#[test]
fn more_detail_on_the_same_report_takes_the_place_of_what_was_known() {
    let [first, _] = connections();
    let cache = DetailCache::default();
    cache.take_in(over(first), [events(1, 9, "synced").of_sync()]);
    cache.take_in(over(first), [events(1, 0, "more on the sync")]);
    is_kept(&cache, "more on the sync");
    cache.take_in(over(first), [events(1, 10, "reported")]);
    cache.take_in(over(first), [events(1, 10, "more on the report")]);
    is_kept(&cache, "more on the report");
    cache.take_in(over(first), [events(1, 0, "late")]);
    is_kept(&cache, "more on the report");
}

#[test]
fn a_new_session_begins_with_its_own_revisions() {
    let [first, second] = connections();
    let cache = DetailCache::default();
    cache.take_in(over(first), [events(1, 10, "before")]);
    let next = Told {
        epoch: SessionEpoch(9),
        ..over(second)
    };
    assert_eq!(cache.revision(AllocId::from_u128(1), next.epoch), None);
    cache.take_in(next, [events(1, 3, "after").of_sync()]);
    is_kept(&cache, "after");
    assert_eq!(cache.revision(AllocId::from_u128(1), next.epoch), Some(0));
}

#[test]
fn what_is_told_as_a_node_comes_is_older_than_what_it_said_since() {
    let [first, _] = connections();
    let cache = DetailCache::default();
    cache.take_in(over(first), [events(1, 5, "newer")]);
    let whole = [events(1, 0, "older"), events(2, 0, "older")];
    cache.take_in_whole(over(first), whole);
    is_kept(&cache, "newer");
    assert_eq!(kept(&cache, 2).as_deref(), Some("older"));
}

#[test]
fn what_is_told_as_a_node_comes_back_is_newer_than_what_it_had_said_here() {
    let [first, second] = connections();
    let cache = DetailCache::default();
    cache.take_in(over(first), [events(1, 5, "before it went")]);
    cache.take_in_whole(over(second), [events(1, 0, "as it came back")]);
    is_kept(&cache, "as it came back");
    // Of before it went, and late.
    cache.take_in(over(first), [events(1, 6, "late")]);
    cache.take_in(over(second), [events(1, 4, "late")]);
    is_kept(&cache, "as it came back");
    cache.take_in(over(second), [events(1, 5, "more")]);
    is_kept(&cache, "more");
}

#[test]
fn a_node_has_only_its_own_allocations_forgotten() {
    let cache = DetailCache::default();
    let [first, _] = connections();
    let other = Told {
        node: NodeId::from_u128(2),
        ..over(first)
    };
    cache.take_in(over(first), [events(1, 1, "a"), events(2, 1, "b")]);
    cache.take_in(other, [events(3, 1, "c")]);
    cache.forget_allocs(over(first).node, [1, 3, 4].map(AllocId::from_u128));
    let kept = [1, 2, 3].map(|alloc| kept(&cache, alloc).is_some());
    assert_eq!(kept, [false, true, true]);
}

#[test]
fn a_last_word_that_is_in_the_state_is_shown_as_it_is() {
    let [first, _] = connections();
    let cache = DetailCache::default();
    cache.take_in(over(first), [events(1, 5, "it runs")]);
    let detail = cache.of(AllocId::from_u128(1)).expect("it is kept");
    for (client_status, durable, shown) in [
        (ClientStatus::Failed, "it ended", "it ended"),
        // Nobody has heard a last word of it.
        (ClientStatus::Lost, "", "it runs"),
        (ClientStatus::Running, "", "it runs"),
    ] {
        let mut state = TaskState::default();
        if !durable.is_empty() {
            state.events = task_events(durable);
        }
        let mut alloc = Allocation {
            client_status,
            task_states: BTreeMap::from([("main".to_owned(), state)]),
            ..hack_testkit::allocs::bare(AllocId::from_u128(1), NodeId::from_u128(1))
        };
        detail.merge_into(&mut alloc);
        let message = &alloc.task_states["main"].events[0].display_message;
        assert_eq!(message, shown, "{client_status:?}");
    }
}
