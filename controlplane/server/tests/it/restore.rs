//! A saved snapshot takes the state's place, while everything goes on running.

use controlplane_state::checkpoint::inspect;
use controlplane_state::{ClientTokens, Command, Digest, RESTORE_BYTES_MAX};
use protocol_client::{Answer, Client, ClientError, Query};
use protocol_model::{EvalStatus, Incarnation};
use serde_json::{Value, json};

use crate::keyring;
use crate::world::{PATIENCE, World, refusal, service};

const PATH: &str = "/v1/operator/snapshot";

pub(crate) async fn save(client: &Client) -> Vec<u8> {
    let mut stream = client.stream(PATH, &Query::new()).await.expect("a stream");
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await.expect("a part") {
        bytes.extend_from_slice(&part);
    }
    bytes
}

pub(crate) async fn restore(client: &Client, bytes: Vec<u8>) -> Result<Answer<Value>, ClientError> {
    client.put_bytes(PATH, &Query::new(), bytes.into()).await
}

pub(crate) async fn register(client: &Client, id: &str) -> u64 {
    let body = json!({ "Job": service(id) });
    let answer: Answer<Value> = client
        .put("/v1/jobs", &Query::new(), &body)
        .await
        .expect("registered");
    answer.index
}

pub(crate) async fn jobs(client: &Client) -> Vec<String> {
    let list: Answer<Value> = client.get("/v1/jobs", &Query::new()).await.expect("a list");
    let list = list.value.as_array().cloned().unwrap_or_default();
    let ids = list.iter().filter_map(|job| job["ID"].as_str());
    ids.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_is_there_and_what_came_later_is_not() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let saved = save(&world.client).await;
    let later = register(&world.client, "later").await;
    let restored = restore(&world.client, saved).await.expect("restored");
    assert_eq!(restored.value, Value::Null, "the answer is empty");
    assert!(restored.index > later, "{} {later}", restored.index);
    assert_eq!(jobs(&world.client).await, ["web"]);
    // And the cluster goes on, counting upwards.
    let after = register(&world.client, "after").await;
    assert!(after > restored.index);
    assert_eq!(jobs(&world.client).await, ["after", "web"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_clusters_file_is_restored_into_a_new_one() {
    let old = World::start().await;
    for number in 0..20 {
        register(&old.client, &format!("job-{number}")).await;
    }
    let saved = save(&old.client).await;
    // The old cluster may have gone on since.
    let old_index = inspect(saved.as_slice()).expect("a snapshot").index;
    let young = World::start().await;
    assert!(young.server.cluster().snapshot().index() < old_index);
    keyring::copy_kek(&old.data_dir(), &young.data_dir());
    let restored = restore(&young.client, saved).await.expect("restored");
    assert!(restored.index > old_index);
    assert_eq!(jobs(&young.client).await.len(), 20);
    let after = register(&young.client, "after").await;
    assert!(after > restored.index);
    assert_eq!(jobs(&young.client).await.len(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_a_change_is_answered() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let saved = save(&world.client).await;
    register(&world.client, "later").await;
    // Until nothing but the restore can change the list.
    world
        .until(|snapshot| {
            let mut evals = snapshot.evals();
            evals.all(|eval| eval.status != EvalStatus::Pending)
        })
        .await;
    let list = world.get_whole("/v1/jobs").await.expect("a list");
    assert_eq!(list.value.as_array().map(Vec::len), Some(2));
    let seen = list.index;
    let path = format!("/v1/jobs?index={seen}&wait=600s");
    let allocs = world.get_whole("/v1/job/web/allocations").await;
    let allocs_seen = allocs.expect("a list").index;
    let allocs = format!("/v1/job/web/allocations?index={allocs_seen}&wait=600s");
    let (restored, waited, allocs) = tokio::join!(
        restore(&world.client, saved),
        tokio::time::timeout(PATIENCE, world.get_whole(&path)),
        tokio::time::timeout(PATIENCE, world.get_whole(&allocs)),
    );
    restored.expect("restored");
    let waited = waited.expect("it ends in time").expect("a list");
    assert_eq!(waited.value.as_array().map(Vec::len), Some(1));
    assert!(waited.index > seen);
    let allocs = allocs.expect("it ends in time").expect("a list");
    assert!(allocs.index > allocs_seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_says_what_is_wrong() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let saved = save(&world.client).await;
    let before = world.server.cluster().snapshot();
    let changed = |offset: usize, byte: u8| {
        let mut bytes = saved.clone();
        bytes[offset] ^= byte;
        bytes
    };
    for (bad, why) in [
        (saved[..saved.len() - 1].to_vec(), "ends too early"),
        (saved[..20].to_vec(), "ends too early"),
        (
            changed(saved.len() / 2, 0x10),
            "snapshot cannot be restored",
        ),
        (changed(30, 1), "checksum does not match"),
        (changed(0, 1), "not a checkpoint"),
        (changed(8, 1), "is not known: this release reads"),
        ([saved.as_slice(), b"more"].concat(), "cannot be read"),
        (b"{}".repeat(100), "not a checkpoint"),
        (Vec::new(), "no body"),
    ] {
        let (code, text) = refusal(restore(&world.client, bad).await);
        assert_eq!(code, 400, "{why}: {text}");
        assert!(text.contains(why), "{why}: {text}");
    }
    let after = world.server.cluster().snapshot();
    assert_eq!(after.cluster(), before.cluster());
    assert!(after.pending_restore().is_none());
    let left: Vec<_> = std::fs::read_dir(world.data_dir())
        .expect("the directory")
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().contains("restore"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_restore_at_a_time() {
    let world = World::start().await;
    let saved = save(&world.client).await;
    let incarnation = Incarnation::from_u128(0xc2);
    let begin = |bytes| Command::RestoreBegin {
        incarnation,
        bytes,
        sha256: Digest([0; 32]),
        client_tokens: ClientTokens::Restored,
    };
    let cluster = world.server.cluster();
    cluster
        .change(begin(RESTORE_BYTES_MAX + 1))
        .await
        .expect_err("too large");
    cluster.change(begin(10)).await.expect("it begins");
    let (code, text) = refusal(restore(&world.client, saved.clone()).await);
    assert_eq!(code, 409, "{text}");
    assert!(text.contains("in progress"), "{text}");
    cluster
        .change(Command::RestoreDrop { incarnation })
        .await
        .expect("dropped");
    restore(&world.client, saved).await.expect("restored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_put_or_posted() {
    let world = World::start().await;
    register(&world.client, "web").await;
    let (code, _, text) = world
        .raw("POST /v1/operator/snapshot HTTP/1.1", "what")
        .await;
    assert_eq!(code, 400, "{text}");
    let (code, _, text) = world
        .raw(
            "PUT /v1/operator/snapshot?region=elsewhere HTTP/1.1",
            "what",
        )
        .await;
    assert_eq!((code, text.as_str()), (404, "No path to region"));
    assert_eq!(jobs(&world.client).await, ["web"]);
}
