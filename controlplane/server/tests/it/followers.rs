//! What only one server knows or may do, asked of every server.

use std::sync::Arc;

use controlplane_server::Server;
use protocol_client::{Answer, Client, ClientError, Query};
use protocol_model::{Allocation, TaskEvent, TaskEventKind, UnixNanos};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::three::{client, cluster};
use crate::world::{PATIENCE, raw, refusal, service};

#[tokio::test(flavor = "multi_thread")]
async fn lists_show_events_whichever_server_knows_them() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let none = Query::new();
    let node = FakeNode::join_server(&servers[2], root.path()).await;
    let body = json!({ "Job": service("web") });
    let _: Answer<Value> = clients[0]
        .put("/v1/jobs", &none, &body)
        .await
        .expect("registered");
    let alloc = placed(&servers[2]).await;
    let (id, eval) = (alloc.id, alloc.eval_id);
    let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(id, "server", event).await;
    let lists = [
        "/v1/allocations".to_owned(),
        "/v1/job/web/allocations".to_owned(),
        format!("/v1/evaluation/{eval}/allocations"),
        format!("/v1/node/{}/allocations", node.id),
    ];
    for path in &lists {
        for client in &clients {
            shows_events(client, path).await;
        }
    }
}

/// The one allocation, once `server` knows it.
async fn placed(server: &Server) -> Arc<Allocation> {
    let mut newest = server.cluster().hub().watch();
    let placed = newest.wait_for(|snapshot| snapshot.allocs().next().is_some());
    let placed = tokio::time::timeout(PATIENCE, placed)
        .await
        .expect("in time")
        .expect("there");
    Arc::clone(placed.allocs().next().expect("one"))
}

/// A server that is slow to answer another one is not waited for: whoever wants its events asks
/// again.
async fn shows_events(client: &Client, path: &str) {
    let asking = async {
        loop {
            let list: Answer<Value> = client.get(path, &Query::new()).await.expect("a list");
            let events = &list.value[0]["TaskStates"]["server"]["Events"];
            if events[0]["DisplayMessage"] == "it runs" {
                return;
            }
            assert_eq!(events, &Value::Null, "{path}");
        }
    };
    let shown = tokio::time::timeout(PATIENCE, asking).await;
    shown.unwrap_or_else(|_| panic!("{path} never showed the events"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_is_told_that_events_are_missing() {
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster(root.path()).await;
    let node = FakeNode::join_server(&servers[2], root.path()).await;
    let body = json!({ "Job": service("web") });
    let _: Answer<Value> = client(&servers[0])
        .put("/v1/jobs", &Query::new(), &body)
        .await
        .expect("registered");
    let id = placed(&servers[2]).await.id;
    let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(id, "server", event).await;
    shows_events(&client(&servers[0]), "/v1/allocations").await;

    // The one that knows them goes; what is replicated is shown without them.
    servers.remove(2).shutdown().await;
    for path in [format!("/v1/allocation/{id}"), "/v1/allocations".to_owned()] {
        let request = format!("GET {path}?stale HTTP/1.1");
        let (status, head, body) = raw(&servers[0], &request, "").await;
        assert_eq!(status, 200, "{body}");
        assert!(head.contains("x-drover-detail: missing"), "{path}: {head}");
        assert!(
            body.contains("\"server\"") && !body.contains("it runs"),
            "{body}"
        );
    }
}

async fn members(client: &Client) -> Vec<Value> {
    let path = "/v1/operator/raft/configuration";
    let answer: Answer<Value> = client.get(path, &Query::new()).await.expect("the members");
    answer.value["Servers"].as_array().expect("a list").clone()
}

/// Asks again until it is known what became of it: on a host that is busy an election may take
/// longer than a server waits for it.
async fn known(ask: impl AsyncFn() -> Result<Answer<Value>, ClientError>) {
    let asking = async {
        let mut asked_before = false;
        while let Err(error) = ask().await {
            let words = error.to_string();
            if asked_before && words.contains("is not a member") {
                return;
            }
            let unknown = words.contains("the outcome of the change is not known");
            assert!(unknown, "{words}");
            asked_before = true;
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .expect("in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_changed_through_any_server() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let leads = servers
        .iter()
        .position(|server| server.cluster().is_leader());
    let leader = leads.expect("one leads");
    let (chosen, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let id = |number: usize| servers[number].cluster().server_id().to_string();
    let path = "/v1/operator/raft/transfer-leadership";
    let query = Query::new().with("id", id(chosen));
    // Asked of a server that does not lead.
    known(async || clients[other].put(path, &query, &json!({})).await).await;
    let mut status = servers[other].cluster().watch_status();
    let taken = status.wait_for(|status| {
        let leader = status.leader.as_ref().map(|leader| leader.id.to_string());
        leader == Some(id(chosen))
    });
    let taken = tokio::time::timeout(PATIENCE, taken).await;
    drop(taken.expect("in time").expect("the log is there"));

    let path = "/v1/operator/raft/peer";
    let nobody = Query::new().with("id", "ffffffffffffffff");
    let answer = clients[other].delete::<Value>(path, &nobody).await;
    assert_eq!(refusal(answer).0, 404);
    let query = Query::new().with("id", id(leader));
    known(async || clients[other].delete(path, &query).await).await;
    let left = members(&clients[chosen]).await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left.iter()
            .all(|server| server["ID"] != id(leader).as_str())
    );
}
