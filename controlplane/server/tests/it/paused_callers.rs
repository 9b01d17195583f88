//! Callers that take nothing of what a node says for them: others do not wait for them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use protocol_client::{ByteStream, Client, Query};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::fake_answers::{ENDLESS, RESTING};
use crate::fake_node::FakeNode;
use crate::three::{client, cluster};
use crate::world::{PATIENCE, World, refusal, service};

/// More than fill a connection's usual window, each with its own.
const PAUSED: usize = 24;
/// One test at a time: they count together.
static TURN: Mutex<()> = Mutex::const_new(());
/// Calls of one node at a time.
const CALLS_OF_NODE_MAX: usize = 64;

/// Begins to read what never ends, and stops at once.
async fn paused(client: &Client, id: &str) -> ByteStream {
    let path = format!("/v1/client/fs/cat/{id}");
    let query = Query::new().with("path", ENDLESS);
    let opened = timeout(PATIENCE, client.stream(&path, &query)).await;
    let mut stream = opened.expect("in time").expect("a stream");
    stream.next().await.expect("a part").expect("not the end");
    stream
}

/// Waits until every way to so many callers is full.
async fn until_resting(callers: usize) {
    let full = async {
        while RESTING.load(Ordering::SeqCst) < callers {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = timeout(PATIENCE, full).await;
    let resting = RESTING.load(Ordering::SeqCst);
    waited.unwrap_or_else(|_| panic!("{resting} of {callers} rest"));
}

async fn list(client: &Client, id: &str) -> Value {
    let path = format!("/v1/client/fs/ls/{id}");
    let (query, none) = (Query::new().with("path", "/"), Query::new());
    let listed = timeout(PATIENCE, client.get(&path, &query)).await;
    let _: protocol_client::Answer<Value> = timeout(PATIENCE, client.get("/v1/jobs", &none))
        .await
        .expect("in time")
        .expect("jobs");
    listed.expect("in time").expect("a list").value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_called_although_many_callers_rest() {
    let _turn = TURN.lock().await;
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    world.placed("web").await;
    let id = first_alloc(&world);
    let mut held = Vec::new();
    for _ in 0..PAUSED {
        held.push(paused(&world.client, &id).await);
    }
    until_resting(PAUSED).await;
    assert_eq!(list(&world.client, &id).await[0]["Name"], "alloc");

    while held.len() < CALLS_OF_NODE_MAX {
        held.push(paused(&world.client, &id).await);
    }
    let path = format!("/v1/client/fs/ls/{id}?path=/");
    let (status, words) = refusal(world.get(&path).await);
    assert_eq!(status, 429, "{words}");
    assert!(words.contains("too many calls"), "{words}");
    drop(held);
    let again = async {
        while world.get(&path).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("places come back");
    drop(node);
}

fn first_alloc(world: &World) -> String {
    let snapshot = world.server.cluster().snapshot();
    let id = snapshot.allocs().next().map(|alloc| alloc.id.to_string());
    id.expect("one")
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_hear_each_other_although_many_callers_of_another_one_rest() {
    let _turn = TURN.lock().await;
    let root = tempfile::tempdir().expect("a directory");
    let servers = cluster(root.path()).await;
    let node = FakeNode::join_server(&servers[0], root.path()).await;
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let body = json!({ "Job": service("web") });
    let none = Query::new();
    let registered = clients[1].put::<_, Value>("/v1/jobs", &none, &body);
    registered.await.expect("registered");
    let mut newest = servers[1].cluster().hub().watch();
    let placed = newest.wait_for(|snapshot| snapshot.allocs().next().is_some());
    let placed = timeout(PATIENCE, placed).await.expect("in time");
    let id = placed.expect("there").allocs().next().map(|it| it.id);
    let id = id.expect("one").to_string();

    let mut held = Vec::new();
    for number in 0..PAUSED {
        held.push(paused(&clients[1 + number % 2], &id).await);
    }
    until_resting(PAUSED).await;
    for client in &clients {
        assert_eq!(list(client, &id).await[0]["Name"], "alloc");
    }
    let registered = clients[1].put::<_, Value>("/v1/jobs", &none, &body);
    let registered = timeout(PATIENCE, registered).await.expect("in time");
    registered.expect("registered again");
    drop((held, node));
}
