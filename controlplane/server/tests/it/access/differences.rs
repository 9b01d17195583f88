//! Servers that are not set up alike say so.

use std::sync::atomic::{AtomicUsize, Ordering};

use controlplane_server::Server;
use serde_json::Value;

use crate::three;
use crate::world::{PATIENCE, raw};

/// The status and the message of a server's health.
async fn health(server: &Server) -> (u16, String) {
    let head = "GET /v1/agent/health?type=server HTTP/1.1";
    let (status, _, body) = raw(server, head, "").await;
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let message = body["server"]["message"].as_str().expect("a message");
    (status, message.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn health_names_a_server_with_another_access_control() {
    let root = tempfile::tempdir().expect("a directory");
    let number = AtomicUsize::new(0);
    // Access control is off on the third server alone.
    let servers = three::cluster_with(root.path(), |config| {
        config.acl_enabled = number.fetch_add(1, Ordering::SeqCst) < 2;
    })
    .await;
    for (server, named) in [
        (&servers[0], "true here and false on server server-2"),
        (&servers[1], "true here and false on server server-2"),
        (&servers[2], "false here and true on server server-"),
    ] {
        let told = async {
            loop {
                let (status, message) = health(server).await;
                if message.contains(named) {
                    return status;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let status = tokio::time::timeout(PATIENCE, told).await;
        assert_eq!(status.expect("it is told"), 200, "{named}");
    }
}
