//! A leader that is cut off from the others, while nodes go on speaking to each of them.

use std::time::Duration;

use controlplane_server::Server;
use controlplane_state::Snapshot;
use protocol_client::Query;
use protocol_model::{
    AllocId, ClientStatus, EvalStatus, NodeStatus, TaskEvent, TaskEventKind, UnixNanos,
};
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::v1;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::fake_node::{FakeNode, open, running, write};
use crate::relays::{Links, Relayed};
use crate::three::client;
use crate::world::{PATIENCE, service};

/// How long a node may be silent: more than a busy host is late.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a proposal waits for its outcome, as the log is set up.
const OUTCOME_UNKNOWN_AFTER: Duration = Duration::from_secs(5);

async fn until(what: &str, server: &Server, wanted: impl FnMut(&Snapshot) -> bool) {
    let mut newest = server.cluster().hub().watch();
    let seen = timeout(PATIENCE, newest.wait_for(wanted)).await;
    drop(seen.unwrap_or_else(|_| panic!("{what}")));
}

/// Registers a job, again where a busy host has it take too long: that is the same job.
async fn register(server: &Server, id: &str) {
    let (body, none) = (json!({ "Job": service(id) }), Query::new());
    let client = client(server);
    let registering = async {
        while client
            .put::<_, Value>("/v1/jobs", &none, &body)
            .await
            .is_err()
        {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, registering)
        .await
        .expect("it is registered");
}

async fn silent(server: &Server) {
    let waiting = async {
        while server.cluster().raft().hears_majority() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, waiting)
        .await
        .expect("no majority answers");
}

/// Shows all the time that it is alive.
async fn beat(mut node: FakeNode) {
    for tick in 1.. {
        let heartbeat = v1::Heartbeat {
            epoch: node.epoch(),
            tick,
            ..v1::Heartbeat::default()
        };
        node.say(&heartbeat).await;
        sleep(Duration::from_millis(100)).await;
    }
}

/// Everything that a leader without a majority decides lies in its log, and is carried out if it
/// leads on when the links are back.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_cut_off_takes_no_node_down_that_others_hear() {
    let root = tempfile::tempdir().expect("a directory");
    let relayed = Relayed::start(root.path(), SILENCE).await;
    let leader = relayed.leader().await;
    let (leads, other) = (&relayed.servers[leader], &relayed.servers[(leader + 1) % 3]);
    let node = FakeNode::join_server(other, root.path()).await;
    let (id, epoch) = (node.id, node.epoch());
    let beating = tokio::spawn(beat(node));
    let ready = |snapshot: &Snapshot| {
        let record = snapshot.node(id);
        record.is_some_and(|record| {
            record.node.status == NodeStatus::Ready && record.session.epoch.0 == epoch
        })
    };
    until("the node is ready", leads, ready).await;

    relayed.let_work(Links::None);
    silent(leads).await;
    sleep(SILENCE * 2).await;
    // The others do not reach each other yet: nobody takes its place.
    relayed.let_work(Links::Of(leader));
    relayed.leader().await;
    relayed.let_work(Links::All);
    let again = relayed.leader().await;
    // Behind whatever was decided in between.
    register(&relayed.servers[again], "after").await;
    let snapshot = relayed.servers[again].cluster().snapshot();
    assert!(ready(&snapshot), "{:?}", snapshot.node(id));
    beating.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_which_nobody_knew_is_not_decided_once_more() {
    let root = tempfile::tempdir().expect("a directory");
    let relayed = Relayed::start(root.path(), Duration::from_secs(3600)).await;
    let leader = relayed.leader().await;
    let leads = &relayed.servers[leader];
    let node = FakeNode::join_server(leads, root.path()).await;
    let id = node.id;
    until("the node is ready", leads, |snapshot| {
        let record = snapshot.node(id);
        record.is_some_and(|record| record.node.status == NodeStatus::Ready)
    })
    .await;

    register(leads, "web").await;
    // The plan that follows cannot have reached the others yet.
    relayed.let_work(Links::None);
    sleep(OUTCOME_UNKNOWN_AFTER + Duration::from_secs(3)).await;
    let before = leads.cluster().snapshot();
    let placed_before = before.allocs().count();
    relayed.let_work(Links::Of(leader));
    relayed.leader().await;
    relayed.let_work(Links::All);
    let again = &relayed.servers[relayed.leader().await];
    until("the evaluation is over", again, |snapshot| {
        let mut evals = snapshot.evals();
        snapshot.allocs().count() > 0 && evals.all(|eval| eval.status == EvalStatus::Complete)
    })
    .await;
    // Behind whatever the leader had decided by then.
    register(again, "after").await;
    let snapshot = again.cluster().snapshot();
    let of_web = snapshot.allocs().filter(|alloc| alloc.job_id == "web");
    assert_eq!(of_web.count(), 1, "{placed_before} before the cut");
}

/// Says that an allocation runs, on a stream of its own, and does not wait for an answer.
async fn report(node: &FakeNode, alloc: AllocId, seq: u64) -> (FrameWriter, FrameReader) {
    let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    let (mut writer, reader) = open(node.session(), StreamKind::NodeUpdates).await;
    write(&mut writer, &node.stream_hello()).await;
    let batch = v1::StatusBatch {
        epoch: node.epoch(),
        class: v1::UpdateClass::Urgent.into(),
        seq,
        allocs: vec![(&running(alloc, "server", event)).into()],
    };
    write(&mut writer, &batch).await;
    (writer, reader)
}

/// Where the log stands still, nodes give their sessions up and tell everything again in the next
/// ones: what they said before is not written, too, when the log goes on.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_gave_up_while_it_waited_for_the_log_is_not_written() {
    let root = tempfile::tempdir().expect("a directory");
    let relayed = Relayed::start(root.path(), Duration::from_secs(3600)).await;
    let leader = relayed.leader().await;
    let leads = &relayed.servers[leader];
    let node = FakeNode::join_server(leads, root.path()).await;
    for id in ["first", "second"] {
        register(leads, id).await;
    }
    until("both are placed", leads, |snapshot| {
        snapshot.allocs().count() == 2
    })
    .await;
    let mut allocs: Vec<AllocId> = leads
        .cluster()
        .snapshot()
        .allocs()
        .map(|it| it.id)
        .collect();
    allocs.sort();

    relayed.let_work(Links::None);
    silent(leads).await;
    let _first = report(&node, allocs[0], 1).await;
    // By then it is on its way, and what comes after it waits.
    sleep(Duration::from_secs(2)).await;
    let _second = report(&node, allocs[1], 2).await;
    sleep(Duration::from_millis(500)).await;
    node.session().close(0_u32.into(), b"given up");
    sleep(Duration::from_secs(1)).await;

    relayed.let_work(Links::Of(leader));
    relayed.leader().await;
    relayed.let_work(Links::All);
    let again = &relayed.servers[relayed.leader().await];
    let status = |snapshot: &Snapshot, id| snapshot.alloc(id).map(|alloc| alloc.client_status);
    until("the first is written", again, |snapshot| {
        status(snapshot, allocs[0]) == Some(ClientStatus::Running)
    })
    .await;
    // Behind whatever waited for the first.
    register(again, "after").await;
    let snapshot = again.cluster().snapshot();
    assert_eq!(status(&snapshot, allocs[1]), Some(ClientStatus::Pending));
}
