//! `/v1/search/fuzzy`: objects by a part of their name.

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

async fn search(world: &World, text: &str, context: &str) -> Value {
    let body = json!({ "Text": text, "Context": context });
    world.put("/v1/search/fuzzy", body).await.expect("matches")
}

async fn register(world: &World, job: Value) {
    let body = json!({ "Job": job });
    world.put("/v1/jobs", body).await.expect("registered");
}

#[tokio::test]
async fn fuzzy_search_finds_all_parts_of_a_job_with_their_scopes() {
    let world = World::start().await;
    let mut job = service("blog-1");
    job["Name"] = json!("My-Blog");
    let group = &mut job["TaskGroups"][0];
    group["Name"] = json!("a-blog-group");
    group["Tasks"][0]["Name"] = json!("blog-task");
    group["Tasks"][0]["Config"] =
        json!({ "command": "/bin/blog", "image": "the/blog:7", "class": "org.Blog" });
    group["Services"] = json!([{ "Name": "blog-svc", "Provider": "nomad" }]);
    register(&world, job).await;
    register(&world, service("other")).await;
    let found = search(&world, "BLOG", "jobs").await;
    let group = json!(["default", "blog-1", "a-blog-group"]);
    let task = json!(["default", "blog-1", "a-blog-group", "blog-task"]);
    let expected = json!({
        "jobs": [{ "ID": "My-Blog", "Scope": ["default", "blog-1"] }],
        "groups": [{ "ID": "a-blog-group", "Scope": ["default", "blog-1"] }],
        "services": [{ "ID": "blog-svc", "Scope": group }],
        "tasks": [{ "ID": "blog-task", "Scope": group }],
        "images": [{ "ID": "the/blog:7", "Scope": task }],
        "commands": [{ "ID": "/bin/blog", "Scope": task }],
        "classes": [{ "ID": "org.Blog", "Scope": task }],
    });
    assert_eq!(found["Matches"], expected, "{found}");
    assert_eq!(found["Truncations"]["tasks"], false);
    assert_eq!(found["Truncations"]["nodes"], Value::Null);
    let tasks = search(&world, "blog", "tasks").await;
    assert_eq!(tasks["Matches"], json!({ "tasks": expected["tasks"] }));
}

#[tokio::test]
async fn fuzzy_search_finds_allocs_nodes_pools_and_namespaces() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    world.placed("web").await;
    let shown = world.get("/v1/nodes").await.expect("nodes");
    let (name, id) = (&shown[0]["Name"], &shown[0]["ID"]);
    let found = search(&world, name.as_str().expect("a name"), "nodes").await;
    assert_eq!(
        found["Matches"]["nodes"],
        json!([{ "ID": name, "Scope": [id] }])
    );
    let allocs = world.get("/v1/allocations").await.expect("allocations");
    let found = search(&world, "eb.web[0", "all").await;
    let scope = json!(["default", allocs[0]["ID"]]);
    assert_eq!(
        found["Matches"],
        json!({ "allocs": [{ "ID": "web.web[0]", "Scope": scope }] })
    );
    let found = search(&world, "faul", "").await;
    let only = json!([{ "ID": "default" }]);
    let expected = json!({ "node_pools": only, "namespaces": only });
    assert_eq!(found["Matches"], expected);
    drop(node);
}

#[tokio::test]
async fn fuzzy_matches_are_sorted_by_place_then_name_and_cut_at_100() {
    let world = World::start().await;
    for id in ["x-web", "webs", "web"] {
        register(&world, service(id)).await;
    }
    let found = search(&world, "web", "jobs").await;
    let jobs = found["Matches"]["jobs"].as_array().expect("jobs");
    let ids: Vec<&str> = jobs.iter().filter_map(|job| job["ID"].as_str()).collect();
    assert_eq!(ids, ["web", "webs", "x-web"]);
    let mut large = service("large");
    let group = large["TaskGroups"][0].clone();
    let groups = (0..250).map(|at| {
        let mut group = group.clone();
        group["Name"] = json!(format!("part-{:03}", 249 - at));
        group
    });
    large["TaskGroups"] = groups.collect();
    register(&world, large).await;
    let found = search(&world, "part", "groups").await;
    let groups = found["Matches"]["groups"].as_array().expect("groups");
    assert_eq!(groups.len(), 100);
    assert_eq!(groups[99]["ID"], "part-099");
    assert_eq!(found["Truncations"]["groups"], true);
}

#[tokio::test]
async fn fuzzy_search_stays_in_the_namespaces_that_are_asked_for() {
    let world = World::start().await;
    let body = json!({ "Name": "team" });
    world.put("/v1/namespace", body).await.expect("written");
    let mut job = service("web");
    job["Namespace"] = json!("team");
    register(&world, job).await;
    let found = search(&world, "web", "jobs").await;
    assert_eq!(found["Matches"], json!({}));
    let body = json!({ "Text": "web", "AllowStale": true });
    let path = "/v1/search/fuzzy?namespace=*";
    let found = world.put(path, body).await.expect("matches");
    let scope = json!(["team", "web"]);
    assert_eq!(
        found["Matches"]["jobs"],
        json!([{ "ID": "web", "Scope": scope }])
    );
}

#[tokio::test]
async fn fuzzy_search_refuses_short_texts_and_unknown_contexts() {
    let world = World::start().await;
    let refused = world
        .put(
            "/v1/search/fuzzy",
            json!({ "Text": "a", "Context": "jobs" }),
        )
        .await;
    let short = "fuzzy search query must be at least 2 characters, got 1";
    assert_eq!(refusal(refused), (400, short.to_owned()));
    let refused = world
        .put(
            "/v1/search/fuzzy",
            json!({ "Text": "ab", "Context": "cats" }),
        )
        .await;
    let (code, text) = refusal(refused);
    assert_eq!(code, 400);
    assert!(text.starts_with("context must be one of"), "{text}");
}
