//! Lists: which items they show, and how they are packed.

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

/// A path whose parameters are as they stand here; the client encodes them.
fn names(list: &Value, key: &str) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let name = |item: &Value| item[key].as_str().unwrap_or_default().to_owned();
    items.map(name).collect()
}

async fn jobs(world: &World, filter: &str) -> Vec<String> {
    let list = world.get(&format!("/v1/jobs?filter={filter}")).await;
    names(
        &list.unwrap_or_else(|error| panic!("{filter}: {error}")),
        "ID",
    )
}

#[tokio::test]
async fn a_filter_chooses_jobs() {
    let world = World::start().await;
    for (id, priority) in [("api", 50), ("web", 70), ("worker", 30)] {
        let mut job = service(id);
        job["Priority"] = json!(priority);
        job["Meta"] = json!({ "owner": if id == "web" { "front" } else { "back" } });
        world
            .put("/v1/jobs", json!({ "Job": job }))
            .await
            .expect("registered");
    }
    assert_eq!(jobs(&world, "Priority == 70").await, ["web"]);
    assert_eq!(jobs(&world, "ID matches \"^w\"").await, ["web", "worker"]);
    assert_eq!(
        jobs(&world, "Meta.owner == back and ID != api").await,
        ["worker"]
    );
    assert_eq!(
        jobs(&world, "\"*\" in Datacenters").await,
        ["api", "web", "worker"]
    );
    assert!(jobs(&world, "Status == dead").await.is_empty());
    // What the filter looks at is not what the list shows.
    let list = world
        .get("/v1/jobs?filter=Meta.owner == front")
        .await
        .expect("a list");
    assert!(list[0].get("Meta").is_none(), "{list}");
}

#[tokio::test]
async fn pages_count_what_a_filter_leaves() {
    let world = World::start().await;
    for number in 0..6 {
        let kind = if number % 2 == 0 { "even" } else { "odd" };
        let job = service(&format!("{kind}-{number}"));
        world
            .put("/v1/jobs", json!({ "Job": job }))
            .await
            .expect("registered");
    }
    let path = "/v1/jobs?per_page=2&filter=ID contains odd";
    let first = world.get_whole(path).await.expect("a page");
    assert_eq!(names(&first.value, "ID"), ["odd-1", "odd-3"]);
    let token = first.next_token.expect("there is more");
    let second = world
        .get_whole(&format!("{path}&next_token={token}"))
        .await
        .expect("a page");
    assert_eq!(names(&second.value, "ID"), ["odd-5"]);
    assert_eq!(second.next_token, None);
}

#[tokio::test]
async fn every_list_has_filters() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    world.placed("web").await;
    let cases = [
        (
            "/v1/allocations",
            "JobID == web and DesiredStatus == run",
            1,
        ),
        (
            "/v1/allocations",
            "AllocatedResources.Shared.DiskMB == 300",
            1,
        ),
        ("/v1/allocations", "TaskGroup == other", 0),
        (
            "/v1/evaluations",
            "TriggeredBy == \"job-register\" and Status == complete",
            1,
        ),
        ("/v1/evaluations", "FailedTGAllocs is not empty", 0),
        ("/v1/nodes", "Status == ready", 1),
        (
            "/v1/nodes",
            "raw_exec in Drivers and Drivers.raw_exec.Healthy == true",
            1,
        ),
        ("/v1/nodes", "Attributes[\"kernel.name\"] == plan9", 0),
        ("/v1/deployments", "JobID == web and Status == running", 1),
        ("/v1/deployments", "Status == failed", 0),
    ];
    for (list, filter, count) in cases {
        let found = world.get(&format!("{list}?filter={filter}")).await;
        let found = found.unwrap_or_else(|error| panic!("{list} {filter}: {error}"));
        assert_eq!(
            found.as_array().map(Vec::len),
            Some(count),
            "{list} {filter}: {found}"
        );
    }
    drop(node);
}

#[tokio::test]
async fn a_filter_that_makes_no_sense_is_refused_with_its_place() {
    let world = World::start().await;
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    let cases = [
        ("/v1/jobs?filter=ID = web", "'=' at byte 3"),
        (
            "/v1/jobs?filter=Nope == 1",
            "selector \"Nope\" is not valid",
        ),
        ("/v1/jobs?filter=Priority == high", "is no number"),
        (
            "/v1/evaluations?status=complete&filter=JobID == web",
            "?job or ?status",
        ),
        ("/v1/job/web?filter=ID == web", "?filter is for lists"),
    ];
    for (path, expected) in cases {
        let (code, words) = refusal(world.get(path).await);
        assert_eq!(code, 400, "{path}");
        assert!(words.contains(expected), "{path}: {words}");
    }
}

#[tokio::test]
async fn task_states_are_left_out_on_request() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    world.placed("web").await;
    let list = world
        .get("/v1/allocations?task_states=false")
        .await
        .expect("a list");
    assert_eq!(list[0]["TaskStates"], Value::Null);
    let wrong = world.get("/v1/allocations?task_states=perhaps").await;
    assert_eq!(refusal(wrong).0, 400);
}

#[tokio::test]
async fn versions_show_what_each_of_them_changed() {
    let world = World::start().await;
    for count in 1..=3 {
        let mut job = service("web");
        job["TaskGroups"][0]["Count"] = json!(count);
        world
            .put("/v1/jobs", json!({ "Job": job }))
            .await
            .expect("registered");
    }
    let plain = world.get("/v1/job/web/versions").await.expect("versions");
    assert_eq!(plain["Diffs"], Value::Null);
    let counts = |diffs: &Value| -> Vec<(String, String)> {
        let diffs = diffs.as_array().expect("differences").iter();
        let field = |diff: &Value| diff["TaskGroups"][0]["Fields"][0].clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        diffs
            .map(field)
            .map(|field| (text(&field["Old"]), text(&field["New"])))
            .collect()
    };
    let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    let answer = world
        .get("/v1/job/web/versions?diffs=true")
        .await
        .expect("versions");
    assert_eq!(counts(&answer["Diffs"]), [pair("2", "3"), pair("1", "2")]);
    let path = "/v1/job/web/versions?diffs=true&diff_version=0";
    let answer = world.get(path).await.expect("versions");
    assert_eq!(counts(&answer["Diffs"]), [pair("1", "3"), pair("1", "2")]);
    let missing = world
        .get("/v1/job/web/versions?diffs=true&diff_version=9")
        .await;
    assert_eq!(refusal(missing).0, 404);
}

#[tokio::test]
async fn answers_are_packed_for_whoever_asks() {
    let world = World::start().await;
    for number in 0..5 {
        let job = service(&format!("job-{number}"));
        world
            .put("/v1/jobs", json!({ "Job": job }))
            .await
            .expect("registered");
    }
    let plain = world.raw("GET /v1/jobs HTTP/1.1", "").await;
    assert!(!plain.1.contains("content-encoding"), "{}", plain.1);
    let head = "GET /v1/jobs HTTP/1.1\r\nAccept-Encoding: gzip";
    let (status, head, packed) = world.raw(head, "").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-encoding: gzip"), "{head}");
    assert!(head.contains("vary: accept-encoding"), "{head}");
    assert!(head.contains("x-nomad-index"), "{head}");
    assert!(
        packed.len() < plain.2.len() / 2,
        "{} of {}",
        packed.len(),
        plain.2.len()
    );
}
