//! `/v1/node/pools` and `/v1/node/pool/:name`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

fn pool(name: &str) -> Value {
    json!({
        "Name": name,
        "Description": "for the night",
        "Meta": { "env": "prod" },
        "SchedulerConfiguration": { "SchedulerAlgorithm": "spread" },
    })
}

async fn join(world: &World, number: u8, pool: &str) -> FakeNode {
    let mut facts = hack_testkit::nodes::node(number);
    facts.node_pool = pool.to_owned();
    FakeNode::join_with(&world.server, &world.data_dir(), facts).await
}

fn names(list: &Value, key: &str) -> Vec<String> {
    let items = list.as_array().expect("a list").iter();
    let names = items.map(|item| item[key].as_str().expect("a name").to_owned());
    names.collect()
}

#[tokio::test]
async fn a_pool_is_made_changed_read_and_deleted() {
    let world = World::start().await;
    world
        .put("/v1/node/pools", pool("batch"))
        .await
        .expect("made");
    let made = world.get("/v1/node/pool/batch").await.expect("the pool");
    let index = made["CreateIndex"].as_u64().expect("an index");
    let expected = json!({
        "Name": "batch",
        "Description": "for the night",
        "Meta": { "env": "prod" },
        "SchedulerConfiguration": {
            "SchedulerAlgorithm": "spread",
            "MemoryOversubscriptionEnabled": null,
        },
        "CreateIndex": index,
        "ModifyIndex": index,
    });
    assert_eq!(made, expected);
    let change = json!({ "Description": "by day" });
    let path = "/v1/node/pool/batch";
    world.put(path, change).await.expect("changed");
    let changed = world.get(path).await.expect("the pool");
    assert_eq!(changed["SchedulerConfiguration"], Value::Null);
    assert_eq!(changed["CreateIndex"], index);
    assert!(changed["ModifyIndex"].as_u64() > Some(index));
    world.delete(path).await.expect("deleted");
    let gone = refusal(world.get(path).await);
    assert_eq!(gone, (404, "node pool not found".to_owned()));
    let gone = refusal(world.delete(path).await);
    assert_eq!(gone, (404, "node pool \"batch\" not found".to_owned()));
}

#[tokio::test]
async fn pools_are_listed_by_prefix_page_and_filter() {
    let world = World::start().await;
    for name in ["dev", "prod-a", "prod_b"] {
        world.put("/v1/node/pools", pool(name)).await.expect("made");
    }
    let list = async |query: &str| {
        let path = format!("/v1/node/pools{query}");
        let answer = world.get_whole(&path).await.expect("a list");
        (names(&answer.value, "Name"), answer.next_token)
    };
    let all = ["all", "default", "dev", "prod-a", "prod_b"];
    assert_eq!(list("").await.0, all);
    assert_eq!(list("?prefix=prod").await.0, all[3..]);
    let (page, token) = list("?per_page=2").await;
    assert_eq!(
        (page, token.as_deref()),
        (vec!["all".to_owned(), "default".to_owned()], Some("dev"))
    );
    let (page, token) = list("?per_page=3&next_token=dev").await;
    assert_eq!((page.len(), token), (3, None));
    let filter = "?filter=Meta.env == \"prod\" and Name matches \"a$\"";
    assert_eq!(list(filter).await.0, ["prod-a"]);
    let shown = world.get("/v1/node/pools?prefix=all").await.expect("all");
    assert_eq!(
        shown[0]["Description"],
        "Node pool with all nodes in the cluster."
    );
    assert_eq!(shown[0]["Meta"], Value::Null);
    assert_eq!(shown[0]["SchedulerConfiguration"], Value::Null);
}

#[tokio::test]
async fn a_pool_that_cannot_be_is_refused_with_the_reason() {
    let world = World::start().await;
    let write = async |path: &str, body: Value| refusal(world.put(path, body).await);
    for name in ["", "a b", "a/b"] {
        let (status, words) = write("/v1/node/pools", pool(name)).await;
        assert_eq!(status, 400);
        assert!(
            words.starts_with(&format!("invalid name {name:?}")),
            "{words}"
        );
    }
    let mut wrong = pool("x");
    wrong["SchedulerConfiguration"]["SchedulerAlgorithm"] = json!("best");
    let (status, words) = write("/v1/node/pools", wrong).await;
    assert_eq!((status, words.contains("\"best\"")), (400, true), "{words}");
    let long = json!({ "Name": "x", "Description": "x".repeat(257) });
    assert_eq!(write("/v1/node/pools", long).await.0, 400);
    let identity = json!({ "Name": "x", "NodeIdentityTTL": "24h" });
    let (status, words) = write("/v1/node/pools", identity).await;
    assert_eq!(
        (status, words.contains("NodeIdentityTTL")),
        (400, true),
        "{words}"
    );
    let other = write("/v1/node/pool/y", pool("x")).await;
    let words = "Node pool name does not match request path";
    assert_eq!(other, (400, words.to_owned()));
    for name in ["all", "default"] {
        let words = format!("modifying node pool {name:?} is not allowed");
        assert_eq!(write("/v1/node/pools", pool(name)).await, (400, words));
        let deleted = world.delete(&format!("/v1/node/pool/{name}")).await;
        let words = format!("deleting node pool {name:?} is not allowed");
        assert_eq!(refusal(deleted), (400, words));
    }
}

#[tokio::test]
async fn a_pool_with_nodes_or_jobs_is_not_deleted_and_lists_them() {
    let world = World::start().await;
    let _one = join(&world, 1, "default").await;
    let _two = join(&world, 2, "batch").await;
    let mut web = service("web");
    web["NodePool"] = json!("batch");
    let body = json!({ "Job": web });
    world.put("/v1/jobs", body).await.expect("registered");
    let body = json!({ "Job": service("other") });
    world.put("/v1/jobs", body).await.expect("registered");
    let list = async |path: &str, key| names(&world.get(path).await.expect("a list"), key);
    assert_eq!(list("/v1/node/pool/batch/nodes", "Name").await, ["node-2"]);
    assert_eq!(list("/v1/node/pool/all/nodes", "Name").await.len(), 2);
    assert_eq!(list("/v1/node/pool/batch/jobs", "ID").await, ["web"]);
    assert_eq!(list("/v1/node/pool/default/jobs", "ID").await, ["other"]);
    let unknown = refusal(world.get("/v1/node/pool/none/nodes").await);
    assert_eq!(unknown, (404, "node pool not found".to_owned()));
    let deleted = refusal(world.delete("/v1/node/pool/batch").await);
    let words = "node pool \"batch\" has nodes in regions: [global]";
    assert_eq!(deleted, (400, words.to_owned()));
    let node = world.get("/v1/nodes").await.expect("nodes");
    let node = node.as_array().expect("a list").iter();
    let node = node
        .clone()
        .find(|it| it["NodePool"] == "batch")
        .expect("it");
    let purge = format!("/v1/node/{}/purge", node["ID"].as_str().expect("an id"));
    world.put(&purge, Value::Null).await.expect("purged");
    let deleted = refusal(world.delete("/v1/node/pool/batch").await);
    let words = "node pool \"batch\" has non-terminal jobs in regions: [global]";
    assert_eq!(deleted, (400, words.to_owned()));
    world
        .delete("/v1/job/web?purge=true")
        .await
        .expect("purged");
    world.delete("/v1/node/pool/batch").await.expect("deleted");
}

#[tokio::test]
async fn a_job_of_an_unknown_pool_is_refused_by_register_plan_and_validate() {
    let world = World::start().await;
    let mut web = service("web");
    web["NodePool"] = json!("nowhere");
    let body = json!({ "Job": web });
    let words = "job \"web\" is in nonexistent node pool \"nowhere\"".to_owned();
    let registered = refusal(world.put("/v1/jobs", body.clone()).await);
    assert_eq!(registered, (400, words.clone()));
    let planned = refusal(world.put("/v1/job/web/plan", body.clone()).await);
    assert_eq!(planned, (400, words.clone()));
    let judged = world.put("/v1/validate/job", body).await.expect("judged");
    assert_eq!(judged["ValidationErrors"], json!([words]));
}

#[tokio::test]
async fn a_blocking_query_wakes_when_a_node_makes_a_pool() {
    let world = World::start().await;
    let first = world.get_whole("/v1/node/pools").await.expect("a list");
    let path = format!("/v1/node/pools?index={}&wait=20s", first.index);
    let waiting = world.get(&path);
    let joining = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        join(&world, 1, "gpu").await
    };
    let (woken, _node) = tokio::join!(waiting, joining);
    let woken = woken.expect("a list");
    assert_eq!(names(&woken, "Name"), ["all", "default", "gpu"]);
}

#[tokio::test]
async fn memory_max_without_oversubscription_is_warned_about() {
    let world = World::start().await;
    let mut web = service("web");
    web["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMaxMB"] = json!(128);
    let body = json!({ "Job": web });
    let words = "Memory oversubscription is not enabled; Task \"web.server\" memory_max value will \
                 be ignored";
    for path in ["/v1/validate/job", "/v1/job/web/plan", "/v1/jobs"] {
        let answer = world.put(path, body.clone()).await.expect(path);
        let warnings = answer["Warnings"].as_str().expect("warnings");
        assert!(warnings.contains(words), "{path}: {warnings}");
    }
    let config = json!({ "MemoryOversubscriptionEnabled": true });
    let path = "/v1/operator/scheduler/configuration";
    world.put(path, config).await.expect("set");
    let answer = world.put("/v1/validate/job", body).await.expect("judged");
    assert_eq!(answer["Warnings"], "");
}

#[tokio::test]
async fn pools_are_found_by_their_prefix_and_by_a_part_of_their_name() {
    let world = World::start().await;
    world
        .put("/v1/node/pools", pool("night"))
        .await
        .expect("made");
    let body = json!({ "Prefix": "ni", "Context": "node_pools" });
    let found = world.put("/v1/search", body).await.expect("matches");
    assert_eq!(found["Matches"], json!({ "node_pools": ["night"] }));
    let body = json!({ "Text": "GHT", "Context": "node_pools" });
    let found = world.put("/v1/search/fuzzy", body).await.expect("matches");
    assert_eq!(
        found["Matches"],
        json!({ "node_pools": [{ "ID": "night" }] })
    );
}
