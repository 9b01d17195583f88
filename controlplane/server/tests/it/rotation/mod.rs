//! Root keys change while the cluster is used: by hand, by age, with new leaders and other KEKs.

mod age;
mod full;
mod kek;
mod leaders;
mod traffic;

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use controlplane_server::Server;
use controlplane_server::clock::{HostClock, WallClock};
use controlplane_state::command::{VariableApply, VariableChange};
use controlplane_state::{RootKeyState, Snapshot, VariableKey};
use futures::future::join_all;
use protocol_client::{Client, ClientError, Query};
use protocol_model::UnixNanos;
use serde_json::{Value, json};

use crate::keyring::{keks, keyring};
use crate::world::PATIENCE;

const ROTATE: &str = "/v1/operator/keyring/rotate";
const NAMESPACES: [&str; 3] = ["default", "dev", "prod"];
/// Variables that are proposed at a time.
const AT_A_TIME: usize = 100;

/// The host's clock, ahead by what a test says.
#[derive(Debug, Default)]
struct AheadClock(AtomicI64);

impl AheadClock {
    fn move_on(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).expect("less than 292 years");
        self.0.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl WallClock for AheadClock {
    fn now(&self) -> UnixNanos {
        UnixNanos(HostClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

/// The name of the variable with this number: neighbours are in different namespaces.
fn name(number: usize) -> VariableKey {
    let namespace = NAMESPACES[number % NAMESPACES.len()];
    VariableKey::new(namespace, format!("app/{number}"))
}

fn text(value: u64) -> String {
    format!("value-{value}")
}

/// Makes the namespaces, and variables of the value 0: sealed here, as a server would.
async fn seed(server: &Server, data_dir: &Path, count: usize) {
    let cluster = server.cluster();
    for name in &NAMESPACES[1..] {
        let body = json!({ "Name": name });
        let (client, none) = (crate::three::client(server), Query::new());
        let made = client.put::<_, Value>("/v1/namespace", &none, &body).await;
        made.expect("a namespace");
    }
    let snapshot = cluster.consistent().await.expect("a state");
    let keyring = keyring(&snapshot, keks(data_dir));
    let items = json!({ "key": text(0) }).to_string();
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(AT_A_TIME) {
        let written = numbers.iter().map(|number| {
            let key = name(*number);
            let nonce = controlplane_keyring::fresh_nonce();
            let sealed = keyring.seal_variable(&key, items.as_bytes(), nonce);
            cluster.change(
                VariableApply {
                    key,
                    cas: None,
                    lock_id: None,
                    change: VariableChange::Write(sealed.expect("it is sealed")),
                }
                .into(),
            )
        });
        for written in join_all(written).await {
            written.expect("it is written");
        }
    }
}

async fn rotate(client: &Client, query: Query) -> Result<Value, ClientError> {
    let rotated = client.put::<_, Value>(ROTATE, &query, &Value::Null).await?;
    Ok(rotated.value["Key"].clone())
}

async fn rotate_full(client: &Client) {
    let full = rotate(client, Query::new().with("full", true)).await;
    full.expect("rotated");
}

/// The newest state of a server that `wanted` accepts.
async fn until(server: &Server, wanted: impl FnMut(&Snapshot) -> bool) -> Snapshot {
    let mut newest = server.cluster().hub().watch();
    // Thousands of values move meanwhile.
    let found = tokio::time::timeout(6 * PATIENCE, newest.wait_for(wanted)).await;
    let found = found.expect("it happens in time");
    found.expect("the state is there").clone()
}

fn state_of(snapshot: &Snapshot, number: u32) -> Option<RootKeyState> {
    snapshot.root_key(number).map(|key| key.state)
}
