//! A session that goes on over another connection, without a complete report: what its server does
//! not have from the log it is told again, and nothing else is told anew.

use std::time::Duration;

use protocol_client::Query;
use protocol_model::{AllocId, TaskEvent, TaskEventKind, UnixNanos};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::fake_node::{FakeNode, open, read, running, write};
use crate::three::{client, cluster_that_hears_within};
use crate::world::{PATIENCE, World, raw, service};

pub(crate) fn event(text: &str) -> TaskEvent {
    TaskEvent::new(TaskEventKind::Started, text, UnixNanos(7))
}

/// A world whose nodes may be silent for as long as a busy host makes them.
pub(crate) async fn patient() -> (World, FakeNode, AllocId) {
    let world = World::start_with(|config| config.liveness.silence = PATIENCE).await;
    let node = FakeNode::join(&world).await;
    let alloc = place(&world, "web").await;
    (world, node, alloc)
}

/// Registers a job, and waits for its allocation.
pub(crate) async fn place(world: &World, id: &str) -> AllocId {
    let body = json!({ "Job": service(id) });
    world.put("/v1/jobs", body).await.expect("registered");
    let of = |alloc: &protocol_model::Allocation| alloc.job_id == id;
    let placed = world
        .until(|snapshot| snapshot.allocs().any(|alloc| of(alloc)))
        .await;
    let alloc = placed.allocs().find(|alloc| of(alloc)).expect("placed");
    alloc.id
}

/// The events that a server shows of an allocation's task.
pub(crate) async fn events(world: &World, alloc: AllocId) -> Vec<String> {
    let path = format!("/v1/allocation/{alloc}");
    events_of(&world.get(&path).await.expect("the allocation"))
}

fn events_of(shown: &Value) -> Vec<String> {
    let events = shown["TaskStates"]["server"]["Events"].as_array();
    let text = |event: &Value| event["DisplayMessage"].as_str().map(str::to_owned);
    events.into_iter().flatten().filter_map(text).collect()
}

async fn until_shown(world: &World, alloc: AllocId, wanted: &[&str]) {
    let shown = async {
        while events(world, alloc).await != wanted {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let seen = timeout(PATIENCE, shown).await;
    assert!(seen.is_ok(), "{:?}", events(world, alloc).await);
}

/// Tells events as they were told before, on a stream of their own.
async fn tell_again(node: &FakeNode, alloc: AllocId, text: &str) {
    let (mut writer, _reader) = open(node.session(), StreamKind::NodeUpdates).await;
    write(&mut writer, &node.stream_hello()).await;
    let detail = v1::DetailReport {
        epoch: node.epoch(),
        allocs: vec![(&running(alloc, "server", event(text))).into()],
    };
    write(&mut writer, &detail).await;
    writer.finish().expect("is sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_told_to_the_server_that_takes_a_session_over_and_stay_out_of_the_log() {
    let (world, mut node, alloc) = patient().await;
    node.report_running(alloc, "server", event("it runs")).await;
    until_shown(&world, alloc, &["it runs"]).await;
    let welcome = node.resume().await;
    assert!(welcome.resumed && welcome.newcomer);
    let before = world.server.cluster().snapshot().index();
    let other = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    let joined = world.server.cluster().snapshot().index();
    assert!(joined > before);
    tell_again(&other, alloc, "forged").await;
    tell_again(&node, alloc, "it runs").await;
    until_shown(&world, alloc, &["it runs"]).await;
    assert_eq!(world.server.cluster().snapshot().index(), joined);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_node_tells_as_it_comes_back_takes_the_place_of_what_it_had_said_before() {
    let (world, mut node, alloc) = patient().await;
    node.report_running(alloc, "server", event("before it went"))
        .await;
    until_shown(&world, alloc, &["before it went"]).await;
    // What it was told elsewhere meanwhile, this server has not heard, nor that it was elsewhere.
    let address = node.session().remote_address();
    let (_left, welcome) = node.move_to(address).await;
    assert!(welcome.newcomer);
    tell_again(&node, alloc, "as it came back").await;
    until_shown(&world, alloc, &["as it came back"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_a_node_left_without_a_word_asks_the_one_that_has_it() {
    let root = tempfile::tempdir().expect("a directory");
    // Its half makes a server doubt.
    let servers = cluster_that_hears_within(root.path(), Duration::from_secs(6)).await;
    let mut node = FakeNode::join_server(&servers[0], root.path()).await;
    let beating = node.beats();
    let (client, none) = (client(&servers[0]), Query::new());
    let body = json!({ "Job": service("web") });
    let put = client.put::<_, Value>("/v1/jobs", &none, &body);
    put.await.expect("registered");
    let mut newest = servers[0].cluster().hub().watch();
    let placed = newest.wait_for(|snapshot| snapshot.allocs().next().is_some());
    let placed = timeout(PATIENCE, placed).await.expect("in time");
    let alloc = placed.expect("there").allocs().next().map(|alloc| alloc.id);
    let alloc = alloc.expect("one");
    node.report_running(alloc, "server", event("it runs")).await;
    let path = format!("/v1/allocation/{alloc}");
    let shown = client.get::<Value>(&path, &none).await.expect("known");
    assert_eq!(events_of(&shown.value), ["it runs"]);

    let other = servers[1].quic_address().expect("an address");
    let (_left, _) = node.move_to(other).await;
    beating.abort();
    let beating = node.beats();
    tell_again(&node, alloc, "it goes on elsewhere").await;
    // A host that is busy takes its time to answer, and then it is said that something is missing.
    let request = format!("GET {path} HTTP/1.1");
    let whole = async {
        loop {
            let (_, head, body) = raw(&servers[0], &request, "").await;
            if body.contains("it goes on elsewhere") && !head.contains("x-drover-detail") {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, whole).await.expect("it asks");
    beating.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_nothing_again_that_the_node_names() {
    let (world, mut node, first) = patient().await;
    node.resume().await;
    let snapshot = world.server.cluster().snapshot();
    let version = snapshot.alloc(first).expect("known").alloc_modify_index;
    let (mut writer, mut reader) = open(node.session(), StreamKind::NodeWatch).await;
    let hello = v1::StreamHello {
        names_known: true,
        ..node.stream_hello()
    };
    write(&mut writer, &hello).await;
    let alloc_id = first.as_bytes().to_vec().into();
    let allocs = vec![v1::AllocVersion { alloc_id, version }];
    write(&mut writer, &v1::WatchKnown { allocs }).await;
    let map: v1::WatchMap = read(&mut reader).await;
    assert!(map.last && map.allocs.len() == 1);
    let second = place(&world, "another").await;
    let delta: v1::WatchDelta = read(&mut reader).await;
    let told = delta.changed.iter().map(|alloc| alloc.alloc_id.to_vec());
    assert_eq!(told.collect::<Vec<_>>(), [second.as_bytes().to_vec()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_does_not_say_what_the_node_has_tells_it_all() {
    let (_world, mut node, first) = patient().await;
    node.resume().await;
    let (mut writer, mut reader) = open(node.session(), StreamKind::NodeWatch).await;
    write(&mut writer, &node.stream_hello()).await;
    let _: v1::WatchMap = read(&mut reader).await;
    let delta: v1::WatchDelta = read(&mut reader).await;
    assert_eq!(delta.changed.len(), 1);
    assert_eq!(delta.changed[0].alloc_id.as_ref(), first.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_elsewhere_for_a_moment_is_where_it_was() {
    let (world, node, alloc) = patient().await;
    // The node tried another connection, and found the first one to be well.
    let tried = node.resume_beside().await;
    tried.close(0_u8.into(), b"not needed");
    let list = format!("/v1/client/fs/ls/{alloc}?path=/");
    let list = world.get(&list).await.expect("it is called where it was");
    assert_eq!(list[0]["Name"], "alloc");
    node.report_running(alloc, "server", event("it runs")).await;
    until_shown(&world, alloc, &["it runs"]).await;
}
