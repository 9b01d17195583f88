//! Twenty thousand allocations at once: one evaluation, several entries, and a watch whose frames
//! stay small.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use controlplane_state::Snapshot;
use protocol_model::EvalStatus;
use protocol_transport::{FrameReader, FrameWriter, StreamKind};
use protocol_wire::kind::{FrameMessage, from_frame};
use protocol_wire::v1;
use serde_json::json;

use crate::fake_node::{FakeNode, write};
use crate::world::{World, service};

const COUNT: usize = 20_000;
/// Placing so many takes a while where nothing is optimised.
const LONG: Duration = Duration::from_secs(180);

fn placed(snapshot: &Snapshot) -> bool {
    snapshot.allocs().count() == COUNT
        && snapshot
            .evals()
            .all(|eval| eval.status == EvalStatus::Complete)
}

/// Everything that the watch tells until nothing is missing.
async fn told(mut reader: FrameReader) -> BTreeSet<Bytes> {
    let (mut wanted, mut told) = (BTreeSet::new(), BTreeSet::new());
    let mut complete = false;
    while !complete || told.len() < wanted.len() {
        let frame = reader.expect().await.expect("a frame");
        assert!(
            frame.body.len() < 8 * 1024 * 1024,
            "{} bytes",
            frame.body.len()
        );
        if frame.kind == v1::WatchMap::KIND {
            let map: v1::WatchMap = from_frame(frame.kind, frame.body).expect("a map");
            wanted.extend(map.allocs.into_iter().map(|alloc| alloc.alloc_id));
            complete = map.last;
        } else {
            let delta: v1::WatchDelta = from_frame(frame.kind, frame.body).expect("a delta");
            told.extend(delta.changed.into_iter().map(|alloc| alloc.alloc_id));
        }
    }
    assert_eq!(told, wanted);
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_twenty_thousand_is_placed_in_several_entries_and_told_in_parts() {
    let world = World::start().await;
    let mut facts = hack_testkit::nodes::node(1);
    facts.node_resources.cpu.cpu_shares = 1_000_000;
    facts.node_resources.memory.memory_mb = 1_000_000;
    facts.node_resources.disk.disk_mb = 10_000_000;
    let node = FakeNode::join_with(&world.server, &world.data_dir(), facts).await;
    let mut job = service("crowd");
    job["TaskGroups"][0]["Count"] = json!(COUNT);
    job["TaskGroups"][0]["Tasks"][0]["Resources"] = json!({ "CPU": 10, "MemoryMB": 10 });
    let before = world.server.cluster().status().last_index;
    world
        .put("/v1/jobs", json!({ "Job": job }))
        .await
        .expect("registered");
    let mut newest = world.server.cluster().hub().watch();
    let done = tokio::time::timeout(LONG, newest.wait_for(placed)).await;
    drop(done.expect("placed in time").expect("the state is there"));
    let entries = world.server.cluster().status().last_index - before;
    assert!(entries > 10, "{entries} entries");

    let (send, recv) = node.session().open_bi().await.expect("a stream");
    let (mut send, reader) = (send, FrameReader::new(recv, 16 * 1024 * 1024));
    StreamKind::NodeWatch
        .write(&mut send)
        .await
        .expect("its kind");
    let mut writer = FrameWriter::new(send, 1024);
    write(&mut writer, &node.stream_hello()).await;
    let told = tokio::time::timeout(LONG, told(reader)).await;
    assert_eq!(told.expect("told in time").len(), COUNT);
}
