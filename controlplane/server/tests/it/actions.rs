//! Actions of jobs: listed, run over a WebSocket, refused.

use futures::{SinkExt, StreamExt};
use protocol_client::Query;
use protocol_model::{TaskEvent, TaskEventKind, UnixNanos};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

/// A world whose job `web` has the action `greet` and a running allocation.
async fn placed() -> (World, FakeNode) {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let mut job = service("web");
    job["TaskGroups"][0]["Tasks"][0]["Actions"] =
        json!([{ "Name": "greet", "Command": "/bin/sh", "Args": ["-i"] }]);
    let registered = world.put("/v1/jobs", json!({ "Job": job })).await;
    let registered = registered.expect("registered");
    assert_eq!(registered["Warnings"], "", "an action is honoured");
    let snapshot = world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let alloc = snapshot.allocs().next().expect("one").id;
    let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(alloc, "server", event).await;
    (world, node)
}

#[tokio::test]
async fn actions_of_a_job_are_listed() {
    let (world, _node) = placed().await;
    assert_eq!(
        world.get("/v1/job/web/actions").await.expect("a list"),
        json!([{ "Name": "greet", "TaskName": "server", "TaskGroupName": "web" }])
    );
    assert_eq!(refusal(world.get("/v1/job/none/actions").await).0, 404);
}

#[tokio::test]
async fn an_action_runs_the_command_of_the_job_file() {
    let (world, _node) = placed().await;
    let query = Query::new()
        .with("task", "server")
        .with("action", "greet")
        .with("command", r#"["/bin/false"]"#)
        .with("tty", "true");
    let socket = world.client.websocket("/v1/job/web/action", &query).await;
    let mut socket = socket.expect("a WebSocket");
    for input in [
        json!({ "tty_size": { "width": 80, "height": 24 } }),
        json!({ "stdin": { "data": "aGk=" } }),
        json!({ "stdin": { "close": true } }),
    ] {
        let message = Message::Text(input.to_string().into());
        socket.send(message).await.expect("is sent");
    }
    let mut said = Vec::new();
    while let Some(Ok(Message::Text(text))) = socket.next().await {
        said.push(serde_json::from_str::<Value>(&text).expect("a frame"));
    }
    // The imitated node prints the command that it got.
    assert_eq!(
        said.first(),
        Some(&json!({ "stderr": { "data": "L2Jpbi9zaCAtaQ==" } }))
    );
    let last = json!({ "exited": true, "result": { "exit_code": 3 } });
    assert_eq!(said.last(), Some(&last));
}

#[tokio::test]
async fn an_action_that_does_not_exist_is_refused_by_name() {
    let (world, _node) = placed().await;
    for (query, status, words) in [
        ("", 400, "must provide a task name"),
        ("task=server", 400, "must provide an action name"),
        ("task=server&action=none", 404, "has no action"),
        ("task=none&action=greet", 404, "is running"),
        ("task=server&action=greet&group=none", 404, "is running"),
        (
            "task=server&action=greet&allocID=00000000-0000-4000-8000-000000000000",
            404,
            "Unknown allocation",
        ),
        ("task=server&action=greet", 400, "WebSocket"),
    ] {
        let (code, text) = refusal(world.get(&format!("/v1/job/web/action?{query}")).await);
        assert_eq!(code, status, "{query}: {text}");
        assert!(text.contains(words), "{query}: {text}");
    }
}
