//! What a node answers, through the API: output, files, signals, exec.

use futures::{SinkExt, StreamExt};
use protocol_client::{Client, Query};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

/// A world with one allocation on a node that answers.
async fn placed() -> (World, FakeNode, String) {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    let snapshot = world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let id = snapshot
        .allocs()
        .next()
        .map(|alloc| alloc.id.to_string())
        .expect("one");
    (world, node, id)
}

async fn text(world: &World, path: &str) -> String {
    let (path, rest) = path.split_once('?').unwrap_or((path, ""));
    let mut query = Query::new();
    for (key, value) in rest.split('&').filter_map(|pair| pair.split_once('=')) {
        query = query.with(key, value);
    }
    let mut stream = world.client.stream(path, &query).await.expect("a stream");
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await.expect("a part") {
        bytes.extend_from_slice(&part);
    }
    String::from_utf8(bytes).expect("text")
}

/// The JSON objects of a framed stream.
fn frames(text: &str) -> Vec<Value> {
    let all = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    all.map(|frame| frame.expect("a frame")).collect()
}

#[tokio::test]
async fn logs_come_plain_or_framed() {
    let (world, _node, id) = placed().await;
    let logs = format!("/v1/client/fs/logs/{id}?task=server&type=stdout");
    assert_eq!(
        text(&world, &format!("{logs}&plain=true")).await,
        "0123456789"
    );
    assert_eq!(
        text(&world, &format!("{logs}&plain=true&offset=8")).await,
        "89"
    );
    let framed = frames(&text(&world, &logs).await);
    assert_eq!(
        framed,
        [json!({ "Data": "MDEyMzQ1Njc4OQ==", "File": "alloc/logs/server.stdout.0" })]
    );
    let followed = frames(&text(&world, &format!("{logs}&follow=true")).await);
    assert_eq!(followed.len(), 3);
    assert_eq!(followed[1], json!({}), "a heartbeat");
    assert_eq!(followed[2]["File"], "alloc/logs/server.stdout.1");
}

#[tokio::test]
async fn refusals_of_a_node_keep_their_status() {
    let (world, _node, id) = placed().await;
    let cases = [
        (format!("/v1/client/fs/logs/{id}"), 400),
        (format!("/v1/client/fs/logs/{id}?task=nobody"), 404),
        (
            format!("/v1/client/fs/logs/{id}?task=server&type=both"),
            400,
        ),
        (
            format!("/v1/client/fs/logs/{id}?task=server&origin=middle"),
            400,
        ),
        (format!("/v1/client/fs/cat/{id}"), 400),
        (format!("/v1/client/fs/readat/{id}?path=a&offset=-1"), 400),
        (format!("/v1/client/fs/nothing/{id}"), 404),
        (
            "/v1/client/fs/ls/00000000-0000-4000-8000-000000000000".to_owned(),
            404,
        ),
        (format!("/v1/client/allocation/{id}/exec?task=server"), 400),
    ];
    for (path, status) in cases {
        let (code, words) = refusal(world.get(&path).await);
        assert_eq!(code, status, "{path}: {words}");
    }
    let signal = format!("/v1/client/allocation/{id}/signal");
    let wrong = world.put(&signal, json!({ "Signal": "SIGNOTHING" })).await;
    assert_eq!(refusal(wrong), (400, "no such signal".to_owned()));
}

#[tokio::test]
async fn files_are_listed_and_read() {
    let (world, node, id) = placed().await;
    let list = world
        .get(&format!("/v1/client/fs/ls/{id}?path=/"))
        .await
        .expect("a list");
    assert_eq!(list[0]["Name"], "alloc");
    let stat = world
        .get(&format!("/v1/client/fs/stat/{id}?path=a"))
        .await
        .expect("a file");
    assert_eq!(stat["Size"], 10);
    let path = format!("/v1/client/fs/cat/{id}?path=a");
    assert_eq!(text(&world, &path).await, "0123456789");
    let path = format!("/v1/client/fs/readat/{id}?path=a&offset=4&limit=100");
    assert_eq!(text(&world, &path).await, "456789");
    let path = format!("/v1/client/fs/readat/{id}?path=a&offset=4&limit=-1");
    assert_eq!(text(&world, &path).await, "456789", "no limit");
    let path = format!("/v1/client/fs/stream/{id}?path=a&offset=9&follow=false");
    let framed = frames(&text(&world, &path).await);
    assert_eq!(
        framed,
        [json!({ "Data": "OQ==", "File": "a", "Offset": 9 })]
    );
    let path = format!("/v1/client/allocation/{id}/stats");
    assert_eq!(world.get(&path).await.expect("statistics")["Timestamp"], 1);
    let path = format!("/v1/client/stats?node_id={}", node.id);
    assert_eq!(world.get(&path).await.expect("statistics")["Timestamp"], 1);
}

#[tokio::test]
async fn tasks_are_restarted_and_signalled() {
    let (world, _node, id) = placed().await;
    let path = format!("/v1/client/allocation/{id}/restart");
    world
        .put(&path, json!({ "TaskName": "server" }))
        .await
        .expect("restarted");
    world
        .put(&path, json!({ "AllTasks": true }))
        .await
        .expect("restarted");
    let both = world
        .put(&path, json!({ "TaskName": "server", "AllTasks": true }))
        .await;
    assert_eq!(refusal(both).0, 400);
    let path = format!("/v1/client/allocation/{id}/signal");
    world
        .put(&path, json!({ "Task": "server", "Signal": "SIGHUP" }))
        .await
        .expect("signalled");
}

#[tokio::test]
async fn a_node_is_asked_for_what_the_cluster_does_not_know_and_to_collect() {
    let (world, node, id) = placed().await;
    let path = format!("/v1/node/{}/foreign-allocations", node.id);
    let listed = world.get(&path).await.expect("a list");
    assert_eq!(listed[0]["ID"], "a0000000-0000-4000-8000-000000000009");
    let path = format!("/v1/node/{}/release-foreign", node.id);
    let released = world.put(&path, json!({})).await.expect("released");
    assert_eq!(released, listed);
    assert_eq!(refusal(world.get(&path).await).0, 405, "not by reading");
    let path = format!("/v1/client/gc?node_id={}", node.id);
    world.get(&path).await.expect("collected");
    let path = format!("/v1/client/allocation/{id}/gc");
    let named = (400, format!("allocation {id} has not ended"));
    assert_eq!(refusal(world.get(&path).await), named);
    assert_eq!(refusal(world.put(&path, json!({})).await), named);
}

#[tokio::test]
async fn a_call_without_node_id_is_for_the_servers_own_node() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("identity");
    let world = World::start_with(|config| config.own_node = Some(file.clone())).await;
    let node = FakeNode::join(&world).await;
    let (code, words) = refusal(world.get("/v1/client/stats").await);
    assert_eq!(code, 404, "{words}");
    let (code, words) = refusal(world.get("/v1/agent/health").await);
    assert_eq!(code, 500);
    assert!(words.contains("the node has not joined"), "{words}");
    let identity = format!("drover-node-identity 1\n{}\n00ff\n", node.id);
    std::fs::write(&file, identity).expect("is written");
    let stats = world.get("/v1/client/stats").await.expect("statistics");
    assert_eq!(stats["Timestamp"], 1);
    world.get("/v1/client/gc").await.expect("collected");
    let well = json!({ "ok": true, "message": "ok" });
    for (path, wanted) in [
        (
            "/v1/agent/health",
            json!({ "server": well, "client": well }),
        ),
        ("/v1/agent/health?type=client", json!({ "client": well })),
        ("/v1/agent/health?type=server", json!({ "server": well })),
    ] {
        assert_eq!(world.get(path).await.expect("is well"), wanted, "{path}");
    }
    let unknown = refusal(world.get("/v1/agent/health?type=both").await);
    assert_eq!(unknown.0, 400, "{}", unknown.1);
    let nobody = "/v1/client/stats?node_id=00000000-0000-4000-8000-000000000000";
    assert_eq!(refusal(world.get(nobody).await).0, 404);
}

#[tokio::test]
async fn a_command_is_run_over_a_websocket() {
    let (world, _node, id) = placed().await;
    let path = format!("/v1/client/allocation/{id}/exec");
    let query = Query::new()
        .with("task", "server")
        .with("command", r#"["/bin/sh","-i"]"#)
        .with("tty", "true");
    let mut socket = world
        .client
        .websocket(&path, &query)
        .await
        .expect("a WebSocket");
    let inputs = [
        json!({}),
        json!({ "tty_size": { "width": 80, "height": 24 } }),
        json!({ "stdin": { "data": "aGk=" } }),
        json!({ "stdin": { "close": true } }),
    ];
    for input in inputs {
        socket
            .send(Message::Text(input.to_string().into()))
            .await
            .expect("is sent");
    }
    let mut said = Vec::new();
    while let Some(message) = socket.next().await {
        match message.expect("a message") {
            Message::Text(text) => {
                said.push(serde_json::from_str::<Value>(&text).expect("a frame"));
            }
            Message::Close(frame) => {
                assert_eq!(frame.map(|frame| frame.code.into()), Some(1000u16));
                break;
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(
        said,
        [
            json!({ "stderr": { "data": "L2Jpbi9zaCAtaQ==" } }),
            json!({ "stdout": { "data": "ODB4MjQ=" } }),
            json!({ "stdout": { "data": "aGk=" } }),
            json!({ "exited": true, "result": { "exit_code": 3 } }),
        ]
    );
}

#[tokio::test]
async fn a_command_that_reads_no_input_ends_with_its_own_exit_code() {
    let (world, _node, id) = placed().await;
    run_deaf(&world.client, &id).await;
}

/// Runs a command that reads no input, and sends it some.
pub(crate) async fn run_deaf(client: &Client, id: &str) {
    let path = format!("/v1/client/allocation/{id}/exec");
    let query = Query::new()
        .with("task", "server")
        .with("command", r#"["deaf"]"#);
    let mut socket = client.websocket(&path, &query).await.expect("a WebSocket");
    let mut last = Value::Null;
    let mut sends = true;
    loop {
        match socket
            .next()
            .await
            .expect("it is closed")
            .expect("a message")
        {
            Message::Text(text) => last = serde_json::from_str(&text).expect("a frame"),
            Message::Close(frame) => {
                assert_eq!(frame.map(|frame| frame.code.into()), Some(1000u16));
                break;
            }
            other => panic!("unexpected {other:?}"),
        }
        if std::mem::take(&mut sends) {
            for _ in 0..20 {
                let input = json!({ "stdin": { "data": "aGk=" } }).to_string();
                socket
                    .send(Message::Text(input.into()))
                    .await
                    .expect("is sent");
            }
        }
    }
    assert_eq!(
        last,
        json!({ "exited": true, "result": { "exit_code": 7 } })
    );
}

#[tokio::test]
async fn a_websocket_of_a_stranger_is_closed_with_the_reason() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let path = "/v1/client/allocation/00000000-0000-4000-8000-000000000000/exec";
    let query = Query::new()
        .with("task", "server")
        .with("command", r#"["ls"]"#);
    let refused = world.client.websocket(path, &query).await.map(drop);
    assert_eq!(refusal(refused).0, 403);
    let query = query.with("ws_handshake", "true");
    let mut socket = world
        .client
        .websocket(path, &query)
        .await
        .expect("may show its token");
    let hello = json!({ "version": 1, "auth_token": "wrong" }).to_string();
    socket
        .send(Message::Text(hello.into()))
        .await
        .expect("is sent");
    let Some(Ok(Message::Close(Some(frame)))) = socket.next().await else {
        panic!("expected the socket to be closed");
    };
    assert_eq!(
        (u16::from(frame.code), frame.reason.as_str()),
        (4403, "Permission denied")
    );
}

#[tokio::test]
async fn a_websocket_is_a_connection_of_its_client_like_any_other() {
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        config.limits.http_connections_per_client = 1;
    })
    .await;
    // It may show its token as the first message, and until then costs nothing else.
    let path = "/v1/client/allocation/00000000-0000-4000-8000-000000000000/exec";
    let query = Query::new()
        .with("task", "server")
        .with("command", r#"["ls"]"#)
        .with("ws_handshake", "true");
    let socket = world.client.websocket(path, &query).await.expect("one");
    let another = world.client.websocket(path, &query).await.map(drop);
    assert_eq!(refusal(another).0, 429);
    drop(socket);
    let again = async {
        while world.client.websocket(path, &query).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let again = tokio::time::timeout(crate::world::PATIENCE, again).await;
    again.expect("the place is free again");
}
