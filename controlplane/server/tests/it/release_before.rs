//! The release before knew no identities: its state goes on here, with tokens and tasks as they
//! were, and its nodes run jobs as they did.

use controlplane_state::checkpoint::inspect;
use controlplane_state::{Snapshot, State};
use protocol_client::Query;
use protocol_model::{AllocId, ClientStatus, DesiredStatus, TaskEvent, TaskEventKind, UnixNanos};
use protocol_transport::StreamKind;
use protocol_wire::{PROTOCOL_MAX, v1};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::access::{Holder, policy, token, world};
use crate::fake_node::{FakeNode, Past, open, read, write};
use crate::identities;
use crate::keyring::copy_kek;
use crate::restore::{restore, save};
use crate::restored_cluster::runs;
use crate::world::{PATIENCE, World};

/// The version of its checkpoints, and of its protocol between nodes and servers.
const CHECKPOINT: u32 = 4;
const PROTOCOL: u32 = 2;

/// A checkpoint as the release before writes it: version 4 has no variables, and no keys of
/// allocations.
fn of_version_4(checkpoint: &[u8]) -> Vec<u8> {
    let (header, packed) = checkpoint.split_at(36);
    let mut header = header.to_vec();
    header[8..12].copy_from_slice(&CHECKPOINT.to_be_bytes());
    let records = zstd::stream::decode_all(packed).expect("it unpacks");
    let mut rest = &records[..records.len() - 4];
    let mut older = Vec::new();
    while let Some((tag, behind)) = rest.split_first() {
        let (length, behind) = behind.split_first_chunk::<4>().expect("a length");
        let length = usize::try_from(u32::from_be_bytes(*length)).expect("short");
        let (row, behind) = behind.split_at(length);
        rest = behind;
        if let Some(row) = row_of_version_4(*tag, row) {
            let length = u32::try_from(row.len()).expect("short");
            older.push(*tag);
            older.extend(length.to_be_bytes());
            older.extend(row);
        }
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header);
    crc.update(&older);
    older.extend(crc.finalize().to_be_bytes());
    header.extend(zstd::stream::encode_all(older.as_slice(), 3).expect("it packs"));
    header
}

fn row_of_version_4(tag: u8, row: &[u8]) -> Option<Vec<u8>> {
    const META: u8 = 1;
    const ALLOC: u8 = 8;
    const ROOT_KEY: u8 = 19;
    const VARIABLE: u8 = 20;
    const TRAILER: u8 = 255;
    let without = |path: &str, fields: &[&str]| {
        let mut row: Value = serde_json::from_slice(row).expect("JSON");
        let object = row.pointer_mut(path).and_then(Value::as_object_mut);
        let object = object.expect("an object");
        fields.iter().for_each(|field| drop(object.remove(*field)));
        row
    };
    let row = match tag {
        META => {
            let mut row = without("", &["identities_begun"]);
            let indexes = row["table_indexes"].as_object_mut().expect("indexes");
            indexes.remove("Variables");
            row
        }
        ALLOC => without("", &["key"]),
        ROOT_KEY => without("", &["state_time", "seals"]),
        VARIABLE => return None,
        TRAILER => without("/records", &["variables"]),
        _ => return Some(row.to_vec()),
    };
    Some(serde_json::to_vec(&row).expect("JSON"))
}

/// A state that the release before leaves behind.
struct Before {
    checkpoint: Vec<u8>,
    manager: Holder,
    reader: Holder,
    alloc: AllocId,
    past: Past,
    world: World,
}

/// A cluster with tokens and a task that runs, saved as the release before saves it.
async fn before() -> Before {
    let (world, _) = world().await;
    let cluster = world.server.cluster();
    policy(
        cluster,
        "read",
        "namespace \"default\" { policy = \"read\" }",
    )
    .await;
    let (manager, reader) = (token(cluster, &[]).await, token(cluster, &["read"]).await);
    let (node, alloc) = identities::placed(&world).await;
    let started = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(alloc, "server", started).await;
    let runs_there = |snapshot: &Snapshot| {
        snapshot
            .alloc(alloc)
            .is_some_and(|it| it.client_status == ClientStatus::Running)
    };
    let snapshot = world.until(runs_there).await;
    let incarnation = snapshot.cluster().incarnation.expect("one");
    let checkpoint = of_version_4(&save(&manager.of(&world.client)).await);
    assert_eq!(
        inspect(checkpoint.as_slice()).expect("a summary").version,
        4
    );
    let state = State::restore(checkpoint.as_slice()).expect("a state");
    assert!(!state.tables().identities_begun());
    assert_eq!(state.tables().alloc_key(alloc), 0);
    let version = snapshot.alloc(alloc).expect("known").alloc_modify_index;
    let past = Past {
        epoch: node.epoch(),
        watermark: Some(v1::Watermark {
            incarnation: incarnation.as_bytes().to_vec().into(),
            index: snapshot.index(),
        }),
        reports: vec![runs(alloc, version)],
    };
    Before {
        checkpoint,
        manager,
        reader,
        alloc,
        past,
        world,
    }
}

/// The first message to a node about its one allocation.
async fn told(node: &FakeNode) -> v1::DesiredAlloc {
    let (mut writer, mut reader) = open(node.session(), StreamKind::NodeWatch).await;
    write(&mut writer, &node.stream_hello()).await;
    let first = async {
        let _: v1::WatchMap = read(&mut reader).await;
        let delta: v1::WatchDelta = read(&mut reader).await;
        delta.changed.into_iter().next().expect("one")
    };
    timeout(PATIENCE, first).await.expect("it is told in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn state_of_the_release_before_goes_on_and_its_tasks_get_identities() {
    let Before {
        checkpoint,
        manager,
        reader,
        alloc,
        past,
        world: old,
    } = before().await;
    let (new, operator) = world().await;
    copy_kek(&old.data_dir(), &new.data_dir());
    restore(&operator, checkpoint).await.expect("restored");
    // Tokens go on.
    let none = Query::new();
    let jobs = reader.of(&new.client).get::<Value>("/v1/jobs", &none).await;
    assert_eq!(jobs.expect("it may read").value[0]["ID"], "web");
    let manager = manager.of(&new.client);
    let tokens = manager.get::<Value>("/v1/acl/tokens", &none).await;
    tokens.expect("it may do everything");

    // The allocation moves to the active key while its node is away.
    let signed = new.until_signed().await;
    let number = signed.active_root_key().expect("a key").number;
    assert_eq!(signed.alloc_key(alloc), number);
    // The node of the release before returns: its task is not touched.
    let root = new.data_dir();
    let reports = past.reports.clone();
    let node = FakeNode::knock_detached(&new.server, &root, past, PROTOCOL).await;
    assert_eq!(node.protocol(), PROTOCOL);
    assert_eq!(told(&node).await.root_key, number);
    let known = new.server.cluster().snapshot();
    let epoch = node.epoch();
    drop(node);
    // It is upgraded, and asks.
    let past = Past {
        epoch,
        watermark: None,
        reports,
    };
    let node = FakeNode::knock(&new.server, &root, 1, past).await;
    let token = identities::token(&node, alloc, "default").await;
    let task = new.client.clone().with_token(Some(token));
    let shown = task.get::<Value>("/v1/acl/whoami", &none).await;
    assert_eq!(shown.expect("open to all").value["Kind"], "workload");
    let own = task
        .get::<Value>("/v1/vars?prefix=nomad/jobs/web", &none)
        .await;
    assert_eq!(own.expect("it may list").value, json!([]));

    let now = new.server.cluster().snapshot();
    for snapshot in [&known, &now] {
        assert_eq!(snapshot.allocs().count(), 1);
        let same = snapshot.alloc(alloc).expect("the allocation");
        assert_eq!(same.client_status, ClientStatus::Running);
        assert_eq!(same.desired_status, DesiredStatus::Run);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_of_the_release_before_runs_a_job_without_identity() {
    let world = World::start().await;
    let root = world.data_dir();
    let mut node = FakeNode::join_detached(&world.server, &root, PROTOCOL).await;
    assert_eq!(node.protocol(), PROTOCOL);
    const { assert!(PROTOCOL < PROTOCOL_MAX) };
    world.placed("web").await;
    let snapshot = world.server.cluster().snapshot();
    let alloc = snapshot.allocs().next().expect("one").id;
    let told = told(&node).await;
    assert_eq!(told.alloc_id.as_ref(), alloc.as_bytes());
    let started = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(alloc, "server", started).await;
    world
        .until(|snapshot| {
            let alloc = snapshot.alloc(alloc);
            alloc.is_some_and(|it| it.client_status == ClientStatus::Running)
        })
        .await;
    // A change of the keys is nothing that it is told: the next message answers its heartbeat.
    world
        .put("/v1/operator/keyring/rotate", json!({}))
        .await
        .expect("rotated");
    let heartbeat = v1::Heartbeat {
        epoch: node.epoch(),
        tick: 9,
        ..v1::Heartbeat::default()
    };
    node.say(&heartbeat).await;
    let ack: v1::HeartbeatAck = timeout(PATIENCE, node.hear()).await.expect("in time");
    assert_eq!(ack.tick, 9);
}
