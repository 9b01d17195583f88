//! Root keys over the API: rotated, listed, removed; what the leader does with them by itself.

use std::time::Duration;

use controlplane_state::{RootKeyState, Snapshot};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal};

const KEYS: &str = "/v1/operator/keyring/keys";
const ROTATE: &str = "/v1/operator/keyring/rotate";

fn path(key: &Value) -> String {
    let id = key["KeyID"].as_str().expect("an id");
    format!("/v1/operator/keyring/key/{id}")
}

/// The states of the keys, by number.
fn states(snapshot: &Snapshot) -> Vec<RootKeyState> {
    snapshot.root_keys().map(|key| key.state).collect()
}

async fn rotate(world: &World, query: &str) -> Value {
    let rotated = world.put(&format!("{ROTATE}{query}"), Value::Null).await;
    rotated.expect("rotated")["Key"].clone()
}

async fn with_token(world: &World, name: &str) {
    let body = json!({ "Name": name, "Type": "management" });
    world.put("/v1/acl/token", body).await.expect("a token");
}

#[tokio::test]
async fn a_new_cluster_has_one_key_and_two_after_a_rotation() {
    let world = World::start().await;
    let keys = world.get(KEYS).await.expect("keys");
    assert_eq!(keys.as_array().map(Vec::len), Some(1));
    assert_eq!(keys[0]["State"], "active");
    assert_eq!(keys[0]["Algorithm"], "aes256-gcm");
    let key = rotate(&world, "").await;
    assert_eq!(
        (&key["State"], &key["PublishTime"]),
        (&json!("active"), &json!(0))
    );
    let keys = world.get(KEYS).await.expect("keys");
    assert_eq!((&keys[0]["State"], &keys[1]), (&json!("inactive"), &key));
    let refused = refusal(world.delete(&path(&key)).await);
    let active = "active root key cannot be deleted - call rotate first";
    assert_eq!(refused, (400, active.to_owned()));
    world
        .delete(&path(&keys[0]))
        .await
        .expect("nothing needs it");
    let gone = refusal(world.delete(&path(&keys[0])).await);
    assert_eq!(gone.0, 404);
    let keys = world.get(KEYS).await.expect("keys");
    assert_eq!(keys, json!([key]));
}

#[tokio::test]
async fn a_prepublished_key_is_active_when_its_time_has_come() {
    let world = World::start().await;
    let now = world.server.cluster().snapshot().now();
    let later = now.saturating_add(Duration::from_secs(3600)).0;
    let key = rotate(&world, &format!("?publish_time={later}")).await;
    assert_eq!(key["State"], "prepublished");
    let both = refusal(
        world
            .put(
                &format!("{ROTATE}?full=true&publish_time={later}"),
                Value::Null,
            )
            .await,
    );
    let text = "keyring cannot be prepublished and full rotated at the same time";
    assert_eq!(both, (400, text.to_owned()));
    rotate(&world, "?publish_time=1").await;
    let snapshot = world
        .until(|it| it.active_root_key().is_some_and(|key| key.number == 3))
        .await;
    let expected = [
        RootKeyState::Inactive,
        RootKeyState::Prepublished,
        RootKeyState::Active,
    ];
    assert_eq!(states(&snapshot), expected);
}

#[tokio::test]
async fn secrets_move_to_the_new_key_and_are_shown_as_before() {
    let mut world = World::start_with(|config| config.acl_enabled = true).await;
    let body = json!({});
    let bootstrapped = world.put("/v1/acl/bootstrap", body).await.expect("a token");
    let secret = bootstrapped["SecretID"]
        .as_str()
        .expect("a secret")
        .to_owned();
    world.client = world.client.clone().with_token(Some(secret));
    for name in ["a", "b", "c"] {
        with_token(&world, name).await;
    }
    let tokens = world.get("/v1/acl/tokens").await.expect("tokens");
    let accessor = tokens[0]["AccessorID"].as_str().expect("an id").to_owned();
    let read = format!("/v1/acl/token/{accessor}");
    let before = world.get(&read).await.expect("a token");
    rotate(&world, "?full=true").await;
    let snapshot = world
        .until(|it| it.sealed_with(1).is_empty() && it.sealed_with(2).tokens == 4)
        .await;
    drop(snapshot);
    assert_eq!(world.get(&read).await.expect("a token"), before);
    let snapshot = world
        .until(|it| {
            it.root_key(1)
                .is_some_and(|key| key.state == RootKeyState::Inactive)
        })
        .await;
    assert_eq!(states(&snapshot).len(), 2);
}

#[tokio::test]
async fn a_used_key_goes_by_force_alone_and_its_allocations_move() {
    let world = World::start().await;
    world.until(|it| it.identities_begun()).await;
    let _node = FakeNode::join(&world).await;
    world.placed("web").await;
    world.until(|it| it.live_allocs_of_key(1) == 1).await;
    rotate(&world, "").await;
    let keys = world.get(KEYS).await.expect("keys");
    let refused = refusal(world.delete(&path(&keys[0])).await);
    assert_eq!(refused, (400, "root key in use, cannot delete".to_owned()));
    let forced = format!("{}?force=true", path(&keys[0]));
    world.delete(&forced).await.expect("removed");
    let moved = |it: &Snapshot| it.live_allocs_of_key(2) == 1 && it.root_key(1).is_none();
    world.until(moved).await;
}

#[tokio::test]
async fn keys_rotate_by_age_and_go_when_nothing_needs_them() {
    let world = World::start_with(|config| {
        config.root_keys.rotation_threshold = Duration::from_secs(2);
        config.root_keys.gc_interval = Duration::from_secs(1);
        config.root_keys.gc_threshold = Duration::ZERO;
    })
    .await;
    world
        .until(|it| {
            let newest = it.active_root_key().map_or(0, |key| key.number);
            newest >= 2 && it.root_key(1).is_none()
        })
        .await;
}

#[tokio::test]
async fn the_keyring_is_for_operators() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    for (method, path) in [
        ("GET", KEYS),
        ("PUT", ROTATE),
        (
            "DELETE",
            "/v1/operator/keyring/key/11111111-2222-4333-8444-555555555555",
        ),
    ] {
        let (status, _, body) = world.raw(&format!("{method} {path} HTTP/1.1"), "").await;
        assert_eq!(
            (status, body.as_str()),
            (403, "Permission denied"),
            "{path}"
        );
    }
}
