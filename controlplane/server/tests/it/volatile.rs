//! What nodes report for its events alone: it stays out of the log, and nobody is woken by it. And
//! which events are shown where batches overtake each other.

use std::pin::pin;

use protocol_client::Query;
use protocol_model::{AllocId, ClientStatus};
use protocol_wire::report::AllocReport;
use protocol_wire::v1::{ItemResult, UpdateClass};
use serde_json::Value;
use tokio::time::timeout;

use crate::fake_node::running;
use crate::moves::{event, events, patient, place};
use crate::world::{PATIENCE, World};

/// The report of that revision that the allocation's task runs, and what happened to it.
fn report(alloc: AllocId, revision: u64, history: &[&str]) -> AllocReport {
    let mut report = AllocReport {
        revision,
        ..running(alloc, "server", event(history[0]))
    };
    let state = report.task_states.get_mut("server").expect("the task");
    history[1..]
        .iter()
        .for_each(|text| state.push_event(event(text)));
    report
}

/// Nobody schedules any more: what the log grows by now it grows by for another reason.
async fn quiet(world: &World) {
    let over = |snapshot: &controlplane_state::Snapshot| {
        snapshot.evals().all(|eval| eval.status.is_terminal())
    };
    world.until(over).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_alone_make_no_entry_and_wake_nobody() {
    let (world, node, alloc) = patient().await;
    let said = report(alloc, 1, &["it runs"]);
    assert_eq!(
        node.report(UpdateClass::Urgent, 1, &said).await,
        ItemResult::Applied
    );
    quiet(&world).await;
    let path = format!("/v1/allocation/{alloc}");
    let shown = world.get_whole(&path).await.expect("the allocation");
    let query = Query::new().with("index", shown.index).with("wait", "600s");
    let mut woken = pin!(world.client.get::<Value>(&path, &query));

    let before = world.barrier().await;
    let telling = async {
        for (seq, what) in [(1, "a signal"), (2, "another")] {
            let more = report(alloc, 1, &["it runs", what]);
            let result = node.report(UpdateClass::Typical, seq, &more).await;
            assert_eq!(result, ItemResult::Superseded, "nothing to record");
            assert_eq!(events(&world, alloc).await, ["it runs", what]);
        }
    };
    tokio::select! {
        answer = &mut woken => panic!("woken for nothing: {answer:?}"),
        () = telling => {}
    }
    assert_eq!(world.barrier().await - before - 1, 0);
    let again = world.get_whole(&path).await.expect("the allocation");
    assert_eq!(again.index, shown.index);

    let mut restarted = report(alloc, 2, &["it runs", "another", "once more"]);
    let state = restarted.task_states.get_mut("server").expect("the task");
    state.restarts = 1;
    node.report(UpdateClass::Typical, 3, &restarted).await;
    let answer = timeout(PATIENCE, woken).await.expect("woken");
    let shown = answer.expect("the allocation").value;
    assert_eq!(shown["TaskStates"]["server"]["Restarts"], 1, "by this");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_alone_make_no_entry_where_the_session_began_with_what_they_belong_to() {
    let (world, mut node, alloc) = patient().await;
    let said = report(alloc, 1, &["it runs"]);
    node.report(UpdateClass::Urgent, 1, &said).await;
    // What it says now the state has: the log is told no revision.
    node.begin_anew(&[report(alloc, 1, &["it runs"])]).await;
    quiet(&world).await;
    let before = world.barrier().await;
    let more = report(alloc, 0, &["it runs", "a signal"]);
    node.report(UpdateClass::Typical, 1, &more).await;
    assert_eq!(events(&world, alloc).await, ["it runs", "a signal"]);
    // And so it is with a server that knows of the report by the state alone.
    node.resume().await;
    let more = report(alloc, 0, &["it runs", "a signal", "another"]);
    let result = node.report(UpdateClass::Typical, 2, &more).await;
    assert_eq!(result, ItemResult::Superseded);
    assert_eq!(
        events(&world, alloc).await,
        ["it runs", "a signal", "another"]
    );
    assert_eq!(world.barrier().await - before - 1, 0);
    // The next word is news, whatever was told before it.
    let next = report(alloc, 2, &["it runs", "a signal", "another"]);
    let result = node.report(UpdateClass::Typical, 3, &next).await;
    assert_eq!(result, ItemResult::Applied);
    let unknown = report(AllocId::from_u128(9), 0, &["it runs"]);
    let result = node.report(UpdateClass::Typical, 4, &unknown).await;
    assert_eq!(result, ItemResult::UnknownAlloc);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_batches_the_later_ones_events_are_shown_in_whatever_order_they_come() {
    let (world, node, first) = patient().await;
    let second = place(&world, "another").await;
    let typical = (UpdateClass::Typical, 1, ["it runs", "it is young"]);
    let urgent = (UpdateClass::Urgent, 2, ["it runs", "it grew up"]);
    for (alloc, seq, order) in [
        (first, 1, [typical, urgent]),
        (second, 2, [urgent, typical]),
    ] {
        for (class, revision, history) in order {
            node.report(class, seq, &report(alloc, revision, &history))
                .await;
        }
        assert_eq!(events(&world, alloc).await, ["it runs", "it grew up"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_last_word_is_shown_whatever_comes_after_it() {
    let (world, node, alloc) = patient().await;
    let started = report(alloc, 1, &["it runs"]);
    let last = AllocReport {
        client_status: ClientStatus::Complete,
        ..report(alloc, 2, &["it runs", "it ended"])
    };
    node.report(UpdateClass::Urgent, 1, &last).await;
    // Overtaken.
    let result = node.report(UpdateClass::Typical, 1, &started).await;
    assert_eq!(result, ItemResult::Superseded);
    assert_eq!(events(&world, alloc).await, ["it runs", "it ended"]);
}
