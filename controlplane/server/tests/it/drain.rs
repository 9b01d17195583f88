//! Drains over HTTP: the route's answers and refusals, and what a node shows of its drains.

use controlplane_state::Snapshot;
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

const HOUR: i64 = 3_600_000_000_000;

async fn node_of(world: &World, path: &str) -> Value {
    world.get(path).await.expect("the node")
}

fn is_drained(snapshot: &Snapshot) -> bool {
    let mut nodes = snapshot.nodes();
    nodes.all(|record| !record.node.drain)
}

#[tokio::test]
async fn a_drain_is_set_changed_and_ended_over_http() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let path = format!("/v1/node/{}", node.id);
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let drain = json!({ "DrainSpec": { "Deadline": HOUR }, "Meta": { "message": "disk" } });
    let answer = world
        .put(&format!("{path}/drain"), drain)
        .await
        .expect("drains");
    assert_eq!(answer["EvalIDs"], json!([]));
    assert!(answer["NodeModifyIndex"].as_u64() > Some(0));
    let shown = node_of(&world, &path).await;
    assert_eq!(shown["Drain"], true);
    assert_eq!(shown["SchedulingEligibility"], "ineligible");
    assert_eq!(shown["DrainStrategy"]["Deadline"], HOUR);
    assert_eq!(shown["DrainStrategy"]["IgnoreSystemJobs"], false);
    assert_eq!(shown["LastDrain"]["Status"], "draining");
    assert_eq!(shown["LastDrain"]["Meta"], json!({ "message": "disk" }));
    let list = world.get("/v1/nodes").await.expect("a list");
    assert_eq!(list[0]["Drain"], true);
    assert_eq!(list[0]["LastDrain"]["Status"], "draining");
    let on = json!({ "Eligibility": "eligible" });
    let refused = world.put(&format!("{path}/eligibility"), on).await;
    let words = "can not set node's scheduling eligibility to eligible while it is draining";
    assert_eq!(refusal(refused), (400, words.to_owned()));
    let started = shown["DrainStrategy"]["StartedAt"].clone();
    let longer = json!({ "DrainSpec": { "Deadline": 2 * HOUR, "IgnoreSystemJobs": true } });
    world
        .put(&format!("{path}/drain"), longer)
        .await
        .expect("drains still");
    let shown = node_of(&world, &path).await;
    assert_eq!(shown["DrainStrategy"]["Deadline"], 2 * HOUR);
    assert_eq!(shown["DrainStrategy"]["StartedAt"], started);
    let end = json!({ "DrainSpec": null, "MarkEligible": true });
    world
        .put(&format!("{path}/drain"), end)
        .await
        .expect("ends");
    let shown = node_of(&world, &path).await;
    assert_eq!(shown["Drain"], false);
    assert_eq!(shown["DrainStrategy"], json!(null));
    assert_eq!(shown["SchedulingEligibility"], "eligible");
    assert_eq!(shown["LastDrain"]["Status"], "canceled");
    let events = shown["Events"].as_array().expect("events");
    let of_drain = events.iter().filter(|event| event["Subsystem"] == "Drain");
    let messages: Vec<&str> = of_drain.filter_map(|it| it["Message"].as_str()).collect();
    assert_eq!(
        messages,
        [
            "Node drain strategy set",
            "Node drain strategy updated",
            "Node drain disabled"
        ]
    );
}

#[tokio::test]
async fn the_leader_completes_the_drain_of_a_node_that_is_empty() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let path = format!("/v1/node/{}", node.id);
    let now = json!({ "DrainSpec": { "Deadline": -1 } });
    world
        .put(&format!("{path}/drain"), now)
        .await
        .expect("drains");
    world.until(is_drained).await;
    let shown = node_of(&world, &path).await;
    assert_eq!(shown["LastDrain"]["Status"], "complete");
    assert_eq!(shown["SchedulingEligibility"], "ineligible");
    let events = shown["Events"].as_array().expect("events");
    let last = events.last().expect("one");
    assert_eq!(last["Message"], "Node drain complete");
    assert_eq!(last["Details"], json!({ "deadline_reached": "true" }));
}

#[tokio::test]
async fn mistakes_of_a_drain_are_the_callers() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let path = format!("/v1/node/{}/drain", node.id);
    let unknown = "/v1/node/11111111-2222-3333-4444-555555555555/drain";
    let drain = json!({ "DrainSpec": { "Deadline": 0 } });
    let refused = world.put(unknown, drain).await;
    assert_eq!(refusal(refused), (404, "node not found".to_owned()));
    let long = json!({ "DrainSpec": {}, "Meta": { "message": "x".repeat(20_000) } });
    let (status, words) = refusal(world.put(&path, long).await);
    assert_eq!(status, 400);
    assert!(words.contains("at most 16384"), "{words}");
    let wrong = json!({ "DrainSpec": { "Deadline": "soon" } });
    assert_eq!(refusal(world.put(&path, wrong).await).0, 400);
}
