//! Counts of groups, scaling events and scaling policies.

use serde_json::{Value, json};

use crate::world::{World, refusal, service};

fn bounded(id: &str) -> Value {
    let mut job = service(id);
    job["TaskGroups"][0]["Count"] = json!(2);
    job["TaskGroups"][0]["Scaling"] = json!({
        "Min": 2, "Max": 3, "Policy": { "cooldown": "1m" },
    });
    // No rollout is in the way.
    job["TaskGroups"][0]["Update"] = json!({ "MaxParallel": 0 });
    job
}

async fn with_job() -> World {
    let world = World::start().await;
    let body = json!({ "Job": bounded("web") });
    world.put("/v1/jobs", body).await.expect("registered");
    world
}

#[tokio::test]
async fn a_group_is_scaled_within_its_bounds_and_the_event_is_kept() {
    let world = with_job().await;
    let body = json!({
        "Count": 3, "Target": { "Group": "web" }, "Message": "load", "Meta": { "a": [1] },
    });
    let answer = world.put("/v1/job/web/scale", body).await.expect("scaled");
    let eval = answer["EvalID"].as_str().expect("an evaluation");
    let found = world
        .get(&format!("/v1/evaluation/{eval}"))
        .await
        .expect("it");
    assert_eq!(found["TriggeredBy"], "job-scaling");
    // A note changes nothing.
    let note = json!({ "Target": { "Group": "web" }, "Error": true, "Message": "no metrics" });
    let noted = world.put("/v1/job/web/scale", note).await.expect("noted");
    assert_eq!(noted["EvalID"], "");
    let scale = world.get("/v1/job/web/scale").await.expect("the scale");
    assert_eq!(
        (&scale["JobID"], &scale["JobStopped"]),
        (&json!("web"), &json!(false))
    );
    let group = &scale["TaskGroups"]["web"];
    assert_eq!(group["Desired"], 3);
    let events = group["Events"].as_array().expect("events");
    assert_eq!(
        (&events[0]["Error"], &events[0]["Count"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        (&events[1]["Count"], &events[1]["PreviousCount"]),
        (&json!(3), &json!(2))
    );
    assert_eq!(
        (&events[1]["EvalID"], &events[1]["Meta"]["a"][0]),
        (&json!(eval), &json!(1))
    );
    assert_eq!(events[1]["CreateIndex"], answer["Index"]);
    for _ in 0..25 {
        let note = json!({ "Target": { "Group": "web" } });
        world.put("/v1/job/web/scale", note).await.expect("noted");
    }
    let scale = world.get("/v1/job/web/scale").await.expect("the scale");
    let events = scale["TaskGroups"]["web"]["Events"].as_array();
    assert_eq!(events.map(Vec::len), Some(20));
}

#[tokio::test]
async fn a_count_that_may_not_be_is_refused() {
    let world = with_job().await;
    let mut everywhere = service("agent");
    everywhere["Type"] = json!("system");
    let body = json!({ "Job": everywhere });
    world.put("/v1/jobs", body).await.expect("registered");
    let to = |count: i64| json!({ "Count": count, "Target": { "Group": "web" } });
    let cases = [
        (
            "web",
            json!({ "Count": 3 }),
            400,
            "missing task group name for scaling action",
        ),
        (
            "web",
            json!({ "Count": 3, "Target": { "Group": "x" } }),
            400,
            "task group \"x\" specified for scaling does not exist in job",
        ),
        (
            "web",
            json!({ "Target": { "Group": "x" } }),
            400,
            "task group \"x\" specified for scaling does not exist in job",
        ),
        ("web", to(-1), 400, "scaling action count can't be negative"),
        (
            "web",
            json!({ "Count": 3, "Error": true, "Target": { "Group": "web" } }),
            400,
            "scaling action should not contain count if error is true",
        ),
        (
            "web",
            to(1),
            400,
            "group count was less than scaling policy minimum: 1 < 2",
        ),
        (
            "web",
            to(5),
            400,
            "group count was greater than scaling policy maximum: 5 > 3",
        ),
        ("none", to(3), 404, "job not found"),
    ];
    for (job, body, status, text) in cases {
        let refused = refusal(
            world
                .put(&format!("/v1/job/{job}/scale"), body.clone())
                .await,
        );
        assert_eq!(refused, (status, text.to_owned()), "{body}");
    }
    let refused = refusal(world.put("/v1/job/agent/scale", to(2)).await);
    let text = "jobs of type \"system\" can only be scaled between 0 and 1";
    assert_eq!(refused, (400, text.to_owned()));
    let mut stale = to(3);
    stale["JobModifyIndex"] = json!(1);
    let (status, text) = refusal(world.put("/v1/job/web/scale", stale).await);
    assert!(
        status == 500 && text.starts_with("Enforcing job modify index 1"),
        "{text}"
    );
}

#[tokio::test]
async fn scaling_policies_have_the_same_id_in_all_versions() {
    let world = with_job().await;
    let body = json!({ "Job": service("plain") });
    world.put("/v1/jobs", body).await.expect("registered");
    let list = world.get("/v1/scaling/policies").await.expect("a list");
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    let policy = &list[0];
    assert_eq!(
        (&policy["Type"], &policy["Enabled"]),
        (&json!("horizontal"), &json!(true))
    );
    let target = json!({ "Namespace": "default", "Job": "web", "Group": "web" });
    assert_eq!(policy["Target"], target);
    let id = policy["ID"].as_str().expect("an id").to_owned();
    let read = format!("/v1/scaling/policy/{id}");
    let whole = world.get(&read).await.expect("the policy");
    assert_eq!((&whole["Min"], &whole["Max"]), (&json!(2), &json!(3)));
    assert_eq!(whole["Policy"]["cooldown"], "1m");
    for (query, count) in [
        ("job=web", 1),
        ("job=plain", 0),
        ("type=hori", 1),
        ("type=vert", 0),
    ] {
        let list = world.get(&format!("/v1/scaling/policies?{query}")).await;
        let list = list.expect("a list");
        assert_eq!(list.as_array().map(Vec::len), Some(count), "{query}");
    }
    let mut changed = bounded("web");
    changed["TaskGroups"][0]["Scaling"]["Max"] = json!(9);
    world
        .put("/v1/jobs", json!({ "Job": changed }))
        .await
        .expect("registered");
    let whole = world.get(&read).await.expect("the same id");
    assert_eq!(whole["Max"], 9);
    world.delete("/v1/job/web").await.expect("stopped");
    let refused = refusal(world.get(&read).await);
    assert_eq!(refused, (404, "policy not found".to_owned()));
}
