//! `rotate?full` while variables are written and read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_server::cluster::{ChangeError, Changed};
use controlplane_state::command::{VariableApply, VariableChange};
use controlplane_state::{AccessRefusal, Refusal, RootKeyState, Snapshot, VariableKey};
use serde_json::json;

use super::traffic::{Tolerance, Traffic};
use super::{AheadClock, name, rotate_full, seed, state_of, text, until};
use crate::keyring::{keks, keyring};
use crate::three::client;
use crate::world::World;

const VARIABLES: usize = 3_000;
/// Variables that clients read and write; the others are there to be moved.
const USED: usize = 240;

fn indexes(snapshot: &Snapshot) -> BTreeMap<VariableKey, u64> {
    let rows = snapshot.variables_from(VariableKey::new("", ""));
    rows.map(|row| (row.key.clone(), row.modify_index))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_rotation_moves_thousands_of_variables_that_are_in_use() {
    let clock = Arc::new(AheadClock::default());
    let world = World::start_at(clock.clone(), |config| {
        config.root_keys.gc_interval = Duration::from_secs(1);
    })
    .await;
    let server = &world.server;
    seed(server, &world.data_dir(), VARIABLES).await;
    let before = indexes(&server.cluster().snapshot());
    let clients: Vec<_> = (0..4).map(|_| client(server)).collect();
    let traffic = Traffic::start(&clients, USED, Tolerance::Nothing);
    rotate_full(&world.client).await;
    let ended = until(server, |it| state_of(it, 1) == Some(RootKeyState::Inactive)).await;
    assert!(
        ended.sealed_with(1).is_empty(),
        "{:?}",
        ended.sealed_with(1)
    );
    assert_eq!(ended.sealed_with(2).variables, VARIABLES as u64);
    let meanwhile = traffic.counts();
    // Old keys are of no use to writers that come later either.
    until(server, |_| traffic.counts().0 > meanwhile.0 + 50).await;
    let values = traffic.stop().await;
    let snapshot = server.cluster().consistent().await.expect("a state");
    assert!(snapshot.sealed_with(1).is_empty());
    let after = indexes(&snapshot);
    let keyring = keyring(&snapshot, keks(&world.data_dir()));
    for number in 0..VARIABLES {
        let key = name(number);
        let row = snapshot.variable(&key).expect("it is there");
        let value = values.get(number).copied().unwrap_or(0);
        if value == 0 {
            assert_eq!(after[&key], before[&key], "{key} is not written");
        }
        let opened = keyring.open_variable(&key, &row.sealed).expect("it opens");
        let expected = json!({ "key": text(value) }).to_string();
        assert_eq!(opened.as_slice(), expected.as_bytes(), "{key}");
    }
    assert!(meanwhile.0 > 0 && meanwhile.1 > 0, "{meanwhile:?}");
    println!("(writes, reads) during the rekey: {meanwhile:?}");

    // The rules of collection: an hour after it became inactive, as nothing needs it.
    clock.move_on(Duration::from_secs(3_500));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let early = server.cluster().snapshot();
    assert_eq!(state_of(&early, 1), Some(RootKeyState::Inactive));
    clock.move_on(Duration::from_secs(120));
    until(server, |it| state_of(it, 1).is_none()).await;
}

/// As a server proposes it that did not apply the rotation yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_seal_of_a_key_that_moved_its_values_is_refused_by_name() {
    let world = World::start().await;
    seed(&world.server, &world.data_dir(), 3).await;
    let cluster = world.server.cluster();
    let old = keyring(&cluster.snapshot(), keks(&world.data_dir()));
    let late = || {
        let (key, nonce) = (name(0), controlplane_keyring::fresh_nonce());
        let sealed = old.seal_variable(&key, b"{\"key\":\"late\"}", nonce);
        VariableApply {
            key,
            cas: None,
            lock_id: None,
            change: VariableChange::Write(sealed.expect("it is sealed")),
        }
    };
    rotate_full(&world.client).await;
    until(&world.server, |it| {
        state_of(it, 1) == Some(RootKeyState::Inactive)
    })
    .await;
    refused_by_name(cluster.change(late().into()).await);
    let keys = world.get("/v1/operator/keyring/keys").await.expect("keys");
    let id = keys[0]["KeyID"].as_str().expect("an id");
    let path = format!("/v1/operator/keyring/key/{id}");
    world.delete(&path).await.expect("removed");
    refused_by_name(cluster.change(late().into()).await);
}

fn refused_by_name(changed: Result<Changed, ChangeError>) {
    match changed {
        Err(ChangeError::Refused(Refusal::Access(refusal))) => {
            assert_eq!(refusal, AccessRefusal::SealingKeyGone(1));
        }
        other => panic!("{other:?}"),
    }
}
