//! Rotation by age and by publish time, by a clock that the test moves; what relying parties are
//! shown of it.

use std::sync::Arc;
use std::time::Duration;

use controlplane_state::RootKeyState::{Active, Inactive, Prepublished};
use controlplane_state::Snapshot;
use protocol_client::Query;
use serde_json::{Value, json};

use super::{AheadClock, rotate, rotate_full, state_of, until};
use crate::world::World;

const JWKS: &str = "/.well-known/jwks.json";
const HOUR: Duration = Duration::from_secs(3_600);
/// The default of `server.root_key_rotation_threshold`.
const THRESHOLD: Duration = Duration::from_secs(720 * 3_600);

async fn world() -> (Arc<AheadClock>, World) {
    let clock = Arc::new(AheadClock::default());
    let world = World::start_at(clock.clone(), |config| {
        config.root_keys.gc_interval = Duration::from_secs(1);
    })
    .await;
    (clock, world)
}

/// The ids of the root keys in the key set, each once, in its order.
async fn published(world: &World) -> Vec<String> {
    let set = world.get(JWKS).await.expect("a key set");
    let keys = set["keys"].as_array().expect("keys");
    let kids = keys.iter().map(|key| key["kid"].as_str().expect("an id"));
    let ids: Vec<String> = kids
        .map(|kid| kid.trim_end_matches(".rsa").to_owned())
        .collect();
    assert!(ids.chunks(2).all(|pair| pair[0] == pair[1]), "{ids:?}");
    ids.into_iter().step_by(2).collect()
}

fn id(snapshot: &Snapshot, number: u32) -> String {
    snapshot.root_key(number).expect("a key").id.to_string()
}

#[tokio::test]
async fn a_key_is_prepublished_at_half_of_the_age_and_signs_at_the_whole() {
    let (clock, world) = world().await;
    let server = &world.server;
    clock.move_on(THRESHOLD / 2 - HOUR);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let early = server.cluster().snapshot();
    assert_eq!(state_of(&early, 2), None, "half of the age has not passed");
    clock.move_on(2 * HOUR);
    let second = until(server, |it| state_of(it, 2) == Some(Prepublished)).await;
    assert_eq!(state_of(&second, 1), Some(Active));
    // Relying parties see it half of the threshold before it signs.
    assert_eq!(published(&world).await, [id(&second, 1), id(&second, 2)]);
    let publish_time = second.root_key(2).map_or(0, |key| key.publish_time.0);
    let left = u128::try_from(publish_time - second.now().0).expect("it is ahead");
    assert!(left > (THRESHOLD / 2 - HOUR).as_nanos(), "{left} ns");
    clock.move_on(THRESHOLD / 2 - 2 * HOUR);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(state_of(&server.cluster().snapshot(), 1), Some(Active));
    clock.move_on(3 * HOUR);
    let active = until(server, |it| state_of(it, 2) == Some(Active)).await;
    assert_eq!(state_of(&active, 1), Some(Inactive));
    // Nothing needs the first key: an hour later it is gone, also from the key set.
    clock.move_on(2 * HOUR);
    let collected = until(server, |it| state_of(it, 1).is_none()).await;
    assert_eq!(published(&world).await, [id(&collected, 2)]);
}

#[tokio::test]
async fn a_key_that_is_prepublished_by_hand_signs_when_its_time_has_come() {
    let (clock, world) = world().await;
    let server = &world.server;
    let publish = server.cluster().snapshot().now().saturating_add(HOUR);
    let query = Query::new().with("publish_time", publish.0);
    let key = rotate(&world.client, query).await.expect("prepublished");
    let prepublished = (&json!("prepublished"), &json!(publish.0));
    assert_eq!((&key["State"], &key["PublishTime"]), prepublished);
    assert_eq!(published(&world).await.len(), 2, "shown before it signs");
    clock.move_on(HOUR / 2);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(state_of(&server.cluster().snapshot(), 1), Some(Active));
    clock.move_on(HOUR / 2);
    let active = until(server, |it| state_of(it, 2) == Some(Active)).await;
    assert_eq!(key["KeyID"], json!(id(&active, 2)));
    assert_eq!(state_of(&active, 1), Some(Inactive));
}

#[tokio::test]
async fn the_key_set_has_one_key_two_after_a_rotation_and_one_after_a_removal() {
    let world = World::start().await;
    let first = published(&world).await;
    assert_eq!(first.len(), 1);
    rotate_full(&world.client).await;
    let both = published(&world).await;
    assert_eq!((both.len(), &both[0]), (2, &first[0]));
    let listed = world.get("/v1/operator/keyring/keys").await.expect("keys");
    let listed = listed.as_array().expect("a list");
    let ids: Vec<&Value> = listed.iter().map(|key| &key["KeyID"]).collect();
    assert_eq!(ids, [&json!(both[0]), &json!(both[1])]);
    until(&world.server, |it| state_of(it, 1) == Some(Inactive)).await;
    let path = format!("/v1/operator/keyring/key/{}", first[0]);
    world.delete(&path).await.expect("removed");
    assert_eq!(published(&world).await, both[1..]);
}
