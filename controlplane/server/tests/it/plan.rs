//! Plans: what would happen, and that nothing did.

use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

async fn plan(world: &World, job: Value) -> Value {
    world
        .put("/v1/job/web/plan", json!({ "Job": job, "Diff": true }))
        .await
        .expect("a plan")
}

#[tokio::test]
async fn a_new_job_is_planned_and_nothing_changes() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let before = world.server.cluster().snapshot().index();
    let answer = plan(&world, service("web")).await;
    assert_eq!(answer["JobModifyIndex"], 0);
    assert_eq!(answer["FailedTGAllocs"], Value::Null);
    assert_eq!(answer["Annotations"]["DesiredTGUpdates"]["web"]["Place"], 1);
    assert_eq!(answer["Diff"]["Type"], "Added");
    assert_eq!(
        answer["Diff"]["TaskGroups"][0]["Updates"],
        json!({ "create": 1 })
    );
    assert_eq!(
        world.server.cluster().snapshot().index(),
        before,
        "a plan writes nothing"
    );
    assert_eq!(refusal(world.get("/v1/job/web").await).0, 404);
}

#[tokio::test]
async fn a_changed_job_shows_what_is_edited_and_what_it_forces() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    world.placed("web").await;

    let same = plan(&world, service("web")).await;
    assert_eq!(same["Diff"]["Type"], "None");
    assert_eq!(same["Annotations"]["DesiredTGUpdates"]["web"]["Ignore"], 1);

    let mut job = service("web");
    job["TaskGroups"][0]["Tasks"][0]["Config"]["args"] = json!(["900"]);
    let edited = plan(&world, job).await;
    assert!(edited["JobModifyIndex"].as_u64() > Some(0));
    assert_eq!(edited["Diff"]["Type"], "Edited");
    let group = &edited["Diff"]["TaskGroups"][0];
    assert_eq!(group["Updates"], json!({ "create/destroy update": 1 }));
    let task = &group["Tasks"][0];
    assert_eq!(task["Annotations"], json!(["forces create/destroy update"]));
    let field = &task["Objects"][0]["Fields"][0];
    assert_eq!(
        (&field["Name"], &field["Old"], &field["New"], &field["Type"]),
        (
            &json!("args[0]"),
            &json!("600"),
            &json!("900"),
            &json!("Edited")
        )
    );
}

#[tokio::test]
async fn spread_target_that_no_node_has_is_warned_of() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let mut job = service("web");
    job["Spreads"] = json!([{ "Attribute": "${node.datacenter}", "SpreadTarget": [
        { "Value": "dc1", "Percent": 50 }, { "Value": "dc9", "Percent": 50 }
    ]}]);
    let answer = plan(&world, job).await;
    let warnings = answer["Warnings"].as_str().expect("warnings");
    assert!(warnings.contains("target \"dc9\": no node"), "{warnings}");
    assert!(!warnings.contains("target \"dc1\""), "{warnings}");
}

#[tokio::test]
async fn what_cannot_be_placed_is_explained() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let mut job = service("web");
    job["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = json!(1_000_000);
    let answer = plan(&world, job).await;
    let metrics = &answer["FailedTGAllocs"]["web"];
    assert_eq!(metrics["NodesExhausted"], 1, "{metrics}");
    assert_eq!(metrics["DimensionExhausted"], json!({ "memory": 1 }));
}

#[tokio::test]
async fn plan_without_room_shows_the_blocked_evaluation() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let mut job = service("web");
    job["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = json!(1_000_000);
    let answer = plan(&world, job).await;
    let evals = answer["CreatedEvals"].as_array().expect("evaluations");
    assert_eq!(evals.len(), 1, "{answer}");
    let eval = &evals[0];
    assert_eq!(eval["Status"], "blocked");
    assert_eq!(eval["TriggeredBy"], "queued-allocs");
    assert_eq!(eval["JobID"], "web");
    assert_eq!(eval["FailedTGAllocs"]["web"]["NodesExhausted"], 1);
    let stored = world.get("/v1/evaluations").await.expect("a list");
    assert_eq!(stored, json!([]), "a plan writes nothing");
}

#[tokio::test]
async fn plan_with_room_makes_no_evaluation_and_has_no_launch() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let answer = plan(&world, service("web")).await;
    assert_eq!(answer["CreatedEvals"], Value::Null);
    let launch = answer.get("NextPeriodicLaunch");
    assert_eq!(launch, Some(&Value::Null));
}

#[tokio::test]
async fn plan_of_a_template_tries_a_launch_and_names_the_next_one() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let mut job = service("web");
    job["Type"] = json!("batch");
    let mut periodic = job.clone();
    periodic["Periodic"] = json!({ "Spec": "0 12 1 1 * 2030", "SpecType": "cron" });
    let answer = plan(&world, periodic.clone()).await;
    assert_eq!(answer["NextPeriodicLaunch"], "2030-01-01T12:00:00Z");
    assert_eq!(answer["Annotations"]["DesiredTGUpdates"]["web"]["Place"], 1);
    assert_eq!(answer["FailedTGAllocs"], Value::Null);
    assert_eq!(answer["CreatedEvals"], Value::Null);
    assert_eq!(answer["Diff"]["Type"], "Added");
    // Nothing is placed for the template itself.
    assert_eq!(answer["Diff"]["TaskGroups"][0]["Updates"], Value::Null);
    // A launch that would find no room says so, also where the template is registered already.
    let body = json!({ "Job": periodic });
    world.put("/v1/jobs", body).await.expect("registered");
    periodic["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = json!(1_000_000);
    let answer = plan(&world, periodic.clone()).await;
    assert_eq!(answer["FailedTGAllocs"]["web"]["NodesExhausted"], 1);
    let missing = &answer["Explanation"]["web"]["NearMisses"][0]["Missing"];
    let missing = missing[0].as_str().unwrap_or_default();
    assert!(missing.ends_with("MiB short of 1000000"), "{answer}");
    periodic["Periodic"]["Enabled"] = json!(false);
    let answer = plan(&world, periodic).await;
    assert_eq!(answer["NextPeriodicLaunch"], Value::Null);
    job["ParameterizedJob"] = json!({});
    job["ID"] = json!("work");
    let body = json!({ "Job": job });
    let answer = world.put("/v1/job/work/plan", body).await.expect("a plan");
    assert_eq!(answer["Annotations"]["DesiredTGUpdates"]["web"]["Place"], 1);
    assert_eq!(answer["NextPeriodicLaunch"], Value::Null);
}

#[tokio::test]
async fn plan_says_which_constraint_rules_out_how_many_nodes() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let mut job = service("web");
    job["Constraints"] = json!([{ "LTarget": "${node.datacenter}", "RTarget": "mars" }]);
    let answer = plan(&world, job).await;
    let explained = &answer["Explanation"]["web"];
    let filtered = json!([{ "Reason": "${node.datacenter} = mars", "Nodes": 1 }]);
    assert_eq!(explained["Filtered"], filtered);
    let missing = json!(["${node.datacenter} = mars"]);
    assert_eq!(explained["NearMisses"][0]["Missing"], missing);
}
