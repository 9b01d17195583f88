//! When a node attaches its connection for calls.

use protocol_wire::v1;
use protocol_wire::v1::node_request::Request;

use crate::scene::{Scene, can_run};

fn host_stats() -> Request {
    Request::HostStats(v1::HostStatsRequest {})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_attaches_for_calls_whenever_the_server_asks() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let server = &scene.server;
    server
        .until("a live session", |known| known.heartbeats > 20)
        .await;
    assert_eq!(server.known().connections, 1, "nothing was asked");
    server.call(None, host_stats()).await.unwrap();
    assert_eq!(server.known().connections, 2);
    // Asked while it is attached.
    server.ask_for_calls();
    let now = server.known().heartbeats;
    server
        .until("it goes on", |known| known.heartbeats > now + 10)
        .await;
    assert_eq!((server.known().connections, server.standing()), (2, 2));
    server.cut_calls();
    server.call(None, host_stats()).await.unwrap();
    assert_eq!((server.known().connections, server.standing()), (3, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_attaches_for_calls_unasked_where_the_server_is_older() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let server = &scene.server;
    server
        .until("a live session", |known| known.heartbeats > 3)
        .await;
    server.set_protocol_max(1);
    server.cut();
    let attached = |known: &crate::fake_server::Known| known.connections == 3;
    let known = server.until("a session and its calls", attached).await;
    assert_eq!(known.calls_wanted, 0);
    server.call(None, host_stats()).await.unwrap();
}
