//! The keyring of servers that run: one KEK, the first root key, KEKs that are missing, and secrets
//! that are in no file.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use controlplane_keyring::{
    FileKeks, Kek, KekId, KekStore as _, Keyring, Purpose, RootKeys, fresh_nonce,
};
use controlplane_server::Server;
use controlplane_server::config::Config;
use controlplane_state::command::AclTokens;
use controlplane_state::{AclToken, AclTokenKind, Digest, RootKey, Snapshot};
use protocol_model::UnixNanos;
use serde_json::{Value, json};

use crate::three::{addresses, client, start};
use crate::world::{PATIENCE, World, refusal, service};

/// These tests have no nodes.
fn silent(config: &mut Config) {
    config.liveness.silence = Duration::from_secs(3600);
}

/// The KEKs below a server's data directory.
pub(crate) fn keks(data_dir: &Path) -> Vec<Kek> {
    let loaded = FileKeks::new(data_dir.join("keyring")).load();
    let loaded = loaded.expect("the directory is listed");
    assert!(loaded.unusable.is_empty(), "all can be used");
    loaded.keks
}

pub(crate) fn ids(data_dir: &Path) -> Vec<KekId> {
    keks(data_dir).iter().map(Kek::id).collect()
}

/// Puts the KEK of one server beside that of another one.
pub(crate) fn copy_kek(from: &Path, to: &Path) {
    let keks = FileKeks::new(to.join("keyring"));
    for kek in self::keks(from) {
        keks.store(&kek).expect("it is stored");
    }
}

/// The first state of a server that has a root key.
pub(crate) async fn keyed(server: &Server) -> Snapshot {
    let mut newest = server.cluster().hub().watch();
    let keyed = newest.wait_for(|snapshot| snapshot.active_root_key().is_some());
    let keyed = tokio::time::timeout(PATIENCE, keyed).await;
    keyed
        .expect("the first root key is made in time")
        .expect("the state is there")
        .clone()
}

/// Waits until `done` is.
pub(crate) async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{what}"));
}

/// A keyring of this state and of these KEKs.
pub(crate) fn keyring(snapshot: &Snapshot, keks: Vec<Kek>) -> Keyring {
    let keyring = Keyring::default();
    keks.into_iter().for_each(|kek| keyring.add_kek(kek));
    keyring.set_root_keys(RootKeys::of(snapshot));
    keyring
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_server_makes_one_kek_and_a_root_key_that_seals() {
    let world = World::start().await;
    let snapshot = keyed(&world.server).await;
    assert_eq!(snapshot.root_keys().count(), 1);
    let keys = keks(&world.data_dir());
    assert_eq!(keys.len(), 1);
    let keyring = keyring(&snapshot, keys);
    assert_eq!(keyring.trouble(), None);
    let sealed = keyring.seal(Purpose::Tokens, b"a", b"secret", fresh_nonce());
    assert_eq!(sealed.expect("it is sealed").key, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_have_one_kek_and_one_root_key() {
    let root = tempfile::tempdir().expect("a directory");
    let addresses = addresses();
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(start(root.path(), number, &addresses, silent).await);
    }
    let mut wrapped = Vec::new();
    for server in &servers {
        let snapshot = keyed(server).await;
        wrapped.push(RootKeys::of(&snapshot));
    }
    assert!(wrapped.iter().all(|keys| *keys == wrapped[0]));
    let kek = wrapped[0].wrapped[0].kek;
    for number in 0..3 {
        let data_dir = root.path().join(number.to_string());
        until("every server gets the KEK", async || {
            ids(&data_dir) == [kek]
        })
        .await;
    }
}

/// A leader that was lost between making the KEK and the first root key has left this.
#[tokio::test(flavor = "multi_thread")]
async fn a_kek_that_a_lost_leader_left_is_used_and_none_is_made() {
    let root = tempfile::tempdir().expect("a directory");
    let left = Kek::generate();
    for number in [1, 2] {
        let data_dir = root.path().join(number.to_string());
        std::fs::create_dir(&data_dir).expect("a directory");
        let keks = FileKeks::new(data_dir.join("keyring"));
        keks.store(&left).expect("it is stored");
    }
    let addresses = addresses();
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(start(root.path(), number, &addresses, silent).await);
    }
    let snapshot = keyed(&servers[0]).await;
    let key = snapshot.active_root_key().expect("a root key");
    assert_eq!(KekId::from(key.kek_id), left.id());
    for number in 0..3 {
        let data_dir = root.path().join(number.to_string());
        until("every server gets it", async || {
            ids(&data_dir) == [left.id()]
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_its_kek_asks_the_others_for_it() {
    let root = tempfile::tempdir().expect("a directory");
    let addresses = addresses();
    let mut servers = Vec::new();
    for number in 0..3 {
        servers.push(start(root.path(), number, &addresses, silent).await);
    }
    let data_dir = root.path().join("2");
    let snapshot = keyed(&servers[2]).await;
    let kek = RootKeys::of(&snapshot).wrapped[0].kek;
    until("every server gets the KEK", async || {
        ids(&data_dir) == [kek]
    })
    .await;
    servers.remove(2).shutdown().await;
    std::fs::remove_dir_all(data_dir.join("keyring")).expect("it is lost");
    let again = start(root.path(), 2, &addresses, silent).await;
    until("it gets the KEK again", async || ids(&data_dir) == [kek]).await;
    // The file is written before the keyring takes the key over.
    let sound = (200, "ok".to_owned());
    until("its health says so", async || health(&again).await == sound).await;
}

/// The status and the message of `agent/health`.
pub(crate) async fn health(server: &Server) -> (u16, String) {
    let head = "GET /v1/agent/health?type=server HTTP/1.1";
    let (status, _, body) = crate::world::raw(server, head, "").await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let message = body["server"]["message"].as_str().expect("a message");
    (status, message.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_kek_names_it_and_serves_all_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = async || {
        let mut config = Config::dev(directory.path().to_owned()).expect("a configuration");
        config.http.listen.set_port(0);
        config.quic_listen.set_port(0);
        silent(&mut config);
        Server::start(config).await.expect("a server")
    };
    let server = start().await;
    let snapshot = keyed(&server).await;
    let kek = RootKeys::of(&snapshot).wrapped[0].kek;
    server.shutdown().await;
    std::fs::remove_dir_all(directory.path().join("keyring")).expect("it is lost");
    let server = start().await;
    let missing = format!("the keyring is not available on this server: KEK {kek} is missing");
    until("it is named", async || {
        health(&server).await == (200, missing.clone())
    })
    .await;
    let none = protocol_client::Query::new();
    let body = json!({ "Job": service("web") });
    let client = client(&server);
    let registered = client.put::<_, Value>("/v1/jobs", &none, &body);
    registered.await.expect("jobs need no keyring");
    // Never another key in silence.
    assert!(ids(directory.path()).is_empty());
    let snapshot = server.cluster().consistent().await.expect("it leads");
    assert_eq!(snapshot.root_keys().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshot_of_a_foreign_kek_is_restored_by_force_or_with_its_file() {
    let (one, other) = (World::start().await, World::start().await);
    let saved = crate::restore::save(&one.client).await;
    let kek = keks(&one.data_dir()).remove(0);
    let own = ids(&other.data_dir())[0];
    let refused = refusal(crate::restore::restore(&other.client, saved.clone()).await);
    assert_eq!(refused.0, 400);
    for named in [kek.id(), own] {
        assert!(refused.1.contains(&named.to_string()), "{}", refused.1);
    }
    let force = protocol_client::Query::new().with("force", true);
    let path = "/v1/operator/snapshot";
    let forced = other
        .client
        .put_bytes::<Value>(path, &force, saved.clone().into())
        .await;
    forced.expect("it is restored by force");
    let missing = format!("KEK {} is missing", kek.id());
    until("its secrets are shut", async || {
        health(&other.server).await.1.contains(&missing)
    })
    .await;
    copy_kek(&one.data_dir(), &other.data_dir());
    let restored = crate::restore::restore(&other.client, saved).await;
    restored.expect("this server opens it");
    until("they open", async || health(&other.server).await.1 == "ok").await;
}

/// The clear material of a root key, by the page that describes the format alone.
fn material(key: &RootKey, kek: &Kek) -> Vec<u8> {
    let aad = [
        b"drover-root-key/1",
        key.id.as_bytes().as_slice(),
        &key.kek_id,
    ]
    .concat();
    let (nonce, sealed) = key.wrapped.split_at(12);
    let nonce = Nonce::try_assume_unique_for_key(nonce).expect("12 bytes");
    let opens = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, kek.reveal()).expect("32 bytes"));
    let mut sealed = sealed.to_vec();
    let opened = opens.open_in_place(nonce, Aad::from(aad), &mut sealed);
    opened.expect("the KEK opens it").to_vec()
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => directories.push(path),
                false => found.push(path),
            }
        }
    }
    found
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A file's bytes, and behind them all that it holds compressed.
fn content(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).expect("a readable file");
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let frames: Vec<usize> = (0..bytes.len())
        .filter(|at| bytes[*at..].starts_with(&magic))
        .collect();
    let mut unpacked = Vec::new();
    for at in frames {
        if let Ok(mut decoder) = zstd::stream::read::Decoder::new(&bytes[at..]) {
            let _ = decoder.by_ref().take(1 << 26).read_to_end(&mut unpacked);
        }
    }
    bytes.extend(unpacked);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_secrets_are_in_no_file_but_that_of_the_kek() {
    let world = World::start().await;
    let snapshot = keyed(&world.server).await;
    let kek = keks(&world.data_dir()).remove(0);
    let key = snapshot.active_root_key().expect("a root key");
    let material = material(key, &kek);
    let keyring = keyring(&snapshot, vec![kek.clone()]);
    let secret = b"planted-d41d8cd98f00b204";
    let accessor = "8d777f38-5d3d-fec8-815d-20f7496026dc";
    let sealed = keyring.seal(Purpose::Tokens, accessor.as_bytes(), secret, fresh_nonce());
    let token = AclToken {
        accessor_id: accessor.to_owned(),
        secret_hash: Digest([3; 32]),
        sealed: Some(sealed.expect("it is sealed")),
        name: "planted".to_owned(),
        kind: AclTokenKind::Management,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        expiration: None,
        ttl: None,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    };
    let tokens = vec![token];
    let cluster = world.server.cluster();
    let created = cluster.change(AclTokens::Create { tokens }.into()).await;
    created.expect("the token is made");
    let saved = crate::restore::save(&world.client).await;
    std::fs::write(world.data_dir().join("saved.snapshot"), saved).expect("is written");

    let (seed, rsa) = (&material[..32], &material[400..500]);
    let planted = [secret.as_slice(), kek.reveal(), seed, rsa];
    let planted: Vec<Vec<u8>> = planted
        .into_iter()
        .flat_map(|it| [it.to_vec(), hex(it).into_bytes()])
        .collect();
    let kek_file = FileKeks::new(world.data_dir().join("keyring")).path_of(kek.id());
    let mut with_the_token = 0;
    for path in files(&world.data_dir()) {
        let content = content(&path);
        let found = planted.iter().any(|secret| holds(&content, secret));
        assert_eq!(found, path == kek_file, "{}", path.display());
        with_the_token += usize::from(holds(&content, accessor.as_bytes()));
    }
    // The log, the server's own snapshot and the saved one.
    assert!(
        with_the_token >= 3,
        "the token is found in {with_the_token} files"
    );
}
