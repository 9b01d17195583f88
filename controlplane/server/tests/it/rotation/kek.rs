//! Key-encryption keys: one that replaces another, one of the host, and the one of a snapshot that
//! is restored into new servers.

use std::path::Path;

use controlplane_keyring::{FileKeks, Kek, KekId, KekSource, KekStore as _, WrappingKek};
use controlplane_server::Server;
use controlplane_server::config::Config;
use controlplane_state::{RootKeyState, Snapshot};
use protocol_client::Query;
use serde_json::{Value, json};

use super::{rotate, state_of, until};
use crate::keyring::{copy_kek, health, ids, keks, keyed, until as happens};
use crate::restore::{restore, save};
use crate::three::{addresses, client, cluster, start};
use crate::world::{World, refusal};

const VARIABLE: &str = "/v1/var/app";

async fn put(server: &Server, value: &str) {
    let body = json!({ "Items": { "key": value } });
    let put = client(server)
        .put::<_, Value>(VARIABLE, &Query::new(), &body)
        .await;
    put.expect("written");
}

async fn value(server: &Server) -> Value {
    let read = client(server).get::<Value>(VARIABLE, &Query::new()).await;
    read.expect("it opens").value["Items"]["key"].clone()
}

fn silent(config: &mut Config) {
    config.liveness.silence = std::time::Duration::from_secs(3600);
}

fn store(data_dir: &Path, kek: &Kek) {
    let stored = FileKeks::new(data_dir.join("keyring")).store(kek);
    stored.expect("it is stored");
}

fn all_wrapped_with(snapshot: &Snapshot, kek: KekId) -> bool {
    snapshot
        .root_keys()
        .all(|key| KekId::from(key.kek_id) == kek)
}

/// Two root keys, three servers. The first KEK is on no disk when the servers start last.
#[tokio::test(flavor = "multi_thread")]
async fn a_kek_that_replaces_another_wraps_all_root_keys_and_the_old_file_goes() {
    let root = tempfile::tempdir().expect("a directory");
    let data_dir = |number: usize| root.path().join(number.to_string());
    let addresses = addresses();
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(start(root.path(), number, &addresses, silent).await);
    }
    for server in &servers {
        keyed(server).await;
    }
    put(&servers[0], "old").await;
    rotate(&client(&servers[0]), Query::new())
        .await
        .expect("rotated");
    let former = KekId::from(
        keyed(&servers[0])
            .await
            .root_keys()
            .next()
            .map_or([0; 8], |key| key.kek_id),
    );
    for number in 0..3 {
        happens("every server has the KEK", async || {
            ids(&data_dir(number)) == [former]
        })
        .await;
    }
    let next = Kek::generate();
    for number in 0..3 {
        store(&data_dir(number), &next);
    }
    let id = next.id();
    let active = move |config: &mut Config| {
        silent(config);
        config.wrapping_kek = WrappingKek::File(id);
    };
    for number in 0..3 {
        servers.remove(0).shutdown().await;
        servers.push(start(root.path(), number, &addresses, active).await);
    }
    for server in &servers {
        let rewrapped = until(server, |it| {
            it.root_keys().count() == 2 && all_wrapped_with(it, id)
        })
        .await;
        assert_eq!(state_of(&rewrapped, 1), Some(RootKeyState::Inactive));
    }
    for server in servers {
        server.shutdown().await;
    }
    for number in 0..3 {
        let file = FileKeks::new(data_dir(number).join("keyring")).path_of(former);
        std::fs::remove_file(file).expect("the old file goes");
    }
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(start(root.path(), number, &addresses, active).await);
    }
    for server in &servers {
        happens("it opens", async || health(server).await.1 == "ok").await;
        assert_eq!(value(server).await, "old");
    }
    put(&servers[1], "new").await;
    assert_eq!(value(&servers[2]).await, "new");
    assert!((0..3).all(|number| ids(&data_dir(number)) == [id]));
}

/// A file in a directory stands for the credential: systemd gives no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_wraps_and_opens_and_is_never_on_the_servers_disk() {
    let root = tempfile::tempdir().expect("a directory");
    let (data, given) = (root.path().join("data"), root.path().join("credentials"));
    std::fs::create_dir(&given).expect("a directory");
    let kek = Kek::generate();
    std::fs::write(given.join("drover-kek"), kek.to_text().as_bytes()).expect("is written");
    let start = async |with: bool| {
        let mut config = Config::dev(data.clone()).expect("a configuration");
        config.http.listen.set_port(0);
        config.quic_listen.set_port(0);
        silent(&mut config);
        if with {
            config.kek_sources = vec![KekSource::Credential {
                directory: Some(given.clone()),
                name: "drover-kek".to_owned(),
            }];
            config.wrapping_kek = WrappingKek::Source(0);
        }
        Server::start(config).await.expect("a server")
    };
    let server = start(true).await;
    assert!(all_wrapped_with(&keyed(&server).await, kek.id()));
    put(&server, "sealed").await;
    server.shutdown().await;
    assert!(ids(&data).is_empty());
    let server = start(true).await;
    happens("it opens", async || health(&server).await.1 == "ok").await;
    assert_eq!(value(&server).await, "sealed");
    server.shutdown().await;
    // Without the credential: named, and never another key in silence.
    let server = start(false).await;
    let missing = format!(
        "the keyring is not available on this server: KEK {} is missing",
        kek.id()
    );
    happens("it is named", async || {
        health(&server).await == (200, missing.clone())
    })
    .await;
    let read = client(&server).get::<Value>(VARIABLE, &Query::new()).await;
    assert_eq!(refusal(read), (503, missing.clone()));
    let body = json!({ "Items": { "key": "other" } });
    let none = Query::new();
    let written = client(&server)
        .put::<_, Value>(VARIABLE, &none, &body)
        .await;
    assert_eq!(refusal(written), (503, missing.clone()));
    let rotated = rotate(&client(&server), Query::new()).await;
    assert_eq!(refusal(rotated), (503, missing));
    // Requests that need no secret work: names of variables, and the public keys.
    for path in [
        "/v1/vars",
        "/.well-known/jwks.json",
        "/v1/operator/keyring/keys",
    ] {
        let read = client(&server).get::<Value>(path, &none).await;
        read.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    assert!(ids(&data).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_opens_in_new_servers_when_one_of_them_has_its_kek() {
    let source = World::start().await;
    put(&source.server, "saved").await;
    let saved = save(&source.client).await;
    let own = keks(&source.data_dir()).remove(0).id();
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let data_dir = |number: usize| root.path().join(number.to_string());
    let present = KekId::from(
        keyed(&servers[0])
            .await
            .active_root_key()
            .expect("a key")
            .kek_id,
    );
    for server in &servers {
        let refused = refusal(restore(&client(server), saved.clone()).await);
        assert_eq!(refused.0, 400, "{}", refused.1);
        let named = [own, present].map(|kek| refused.1.contains(&kek.to_string()));
        assert_eq!(named, [true, true], "{}", refused.1);
    }
    // Into one of them; it need not be the leader.
    let follower = servers.iter().position(|it| !it.cluster().is_leader());
    let asked = follower.expect("a follower");
    copy_kek(&source.data_dir(), &data_dir(asked));
    let restored = restore(&client(&servers[asked]), saved).await;
    restored.expect("this server opens it");
    for (number, server) in servers.iter().enumerate() {
        happens("every server opens it", async || {
            health(server).await.1 == "ok"
        })
        .await;
        assert_eq!(value(server).await, "saved");
        assert!(ids(&data_dir(number)).contains(&own), "server {number}");
    }
    put(&servers[(asked + 1) % 3], "after").await;
    assert_eq!(value(&servers[asked]).await, "after");
}
