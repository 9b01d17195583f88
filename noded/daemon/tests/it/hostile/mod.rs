//! Requests through a task's socket, to a server that remembers what reached it.

mod planted;
mod secrets;
mod smuggling;
mod streams;

use std::path::{Path, PathBuf};

use protocol_model::{AllocId, ClientStatus};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::fake_server::PATIENCE;
use crate::jobs::{alloc, is, job, sh};
use crate::scene::Scene;

/// A token, as far as a node can tell.
const TOKEN: &str = "11111111-2222-3333-4444-555555555555";

/// A node whose sockets take connections of the tasks' user, as this process is, and the socket of
/// a task that runs.
async fn with_socket(number: u128) -> (Scene, AllocId, PathBuf) {
    let mut scene = Scene::new();
    scene
        .server
        .until("a session", |known| !known.synced.is_empty())
        .await;
    assert!(scene.stop());
    scene.configure("task_api {\n  peers = \"user\"\n  rate = 1000\n}\n");
    scene.start();
    let job = job("speaker", "raw_exec", &sh("exec sleep 1000"), json!({}));
    let alloc = alloc(&job, number);
    let id = alloc.id;
    scene.server.want(alloc, &job);
    scene
        .server
        .until("running", |known| is(known, id, ClientStatus::Running))
        .await;
    let socket = scene.alloc_path(id).join("main/secrets/api.sock");
    (scene, id, socket)
}

/// Sends these bytes, and reads until the node closes the connection. `None` where it does not.
async fn said(socket: &Path, bytes: &[u8]) -> Option<String> {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    let mut answer = Vec::new();
    let exchange = async {
        // The node may close before it has read all of it.
        let _ = stream.write_all(bytes).await;
        let _ = stream.read_to_end(&mut answer).await;
    };
    let ended = tokio::time::timeout(PATIENCE, exchange).await.is_ok();
    ended.then(|| String::from_utf8_lossy(&answer).into_owned())
}
