//! Deployments that are steered by hand: canaries, promotion, pauses, failures, health.

use protocol_client::ClientError;
use protocol_model::{Allocation, Deployment, JobKey};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

/// A service whose health only the API sets, in this version.
fn version(argument: &str, canary: u32) -> Value {
    let mut job = service("web");
    let group = &mut job["TaskGroups"][0];
    group["Count"] = json!(2);
    group["Tasks"][0]["Config"]["args"] = json!([argument]);
    group["Update"] = json!({
        "MaxParallel": 2,
        "Canary": canary,
        "HealthCheck": "manual",
        "AutoRevert": true,
    });
    job
}

async fn register(world: &World, argument: &str) -> Value {
    let body = json!({ "Job": version(argument, 1) });
    world.put("/v1/jobs", body).await.expect("registered")
}

/// The newest deployment, once it is so.
async fn deployment(world: &World, wanted: impl Fn(&Deployment) -> bool) -> Deployment {
    let key = JobKey::new("default", "web");
    let latest = |deployment: Option<&std::sync::Arc<Deployment>>| {
        deployment.map(|found| Deployment::clone(found))
    };
    let snapshot = world
        .until(|snapshot| latest(snapshot.latest_deployment(&key)).is_some_and(|it| wanted(&it)))
        .await;
    latest(snapshot.latest_deployment(&key)).expect("it was there")
}

/// Those of a version that stand, once there are so many.
async fn standing(world: &World, version: u64, count: usize) -> Vec<Allocation> {
    let of_version = |snapshot: &controlplane_state::Snapshot| -> Vec<Allocation> {
        let all = snapshot.allocs().filter(|alloc| !alloc.terminal());
        let all = all.filter(|alloc| alloc.job_version == version);
        all.map(|alloc| Allocation::clone(alloc)).collect()
    };
    let snapshot = world
        .until(|snapshot| of_version(snapshot).len() == count)
        .await;
    of_version(&snapshot)
}

async fn steer(
    world: &World,
    what: &str,
    deployment: &Deployment,
    mut body: Value,
) -> Result<Value, ClientError> {
    let id = deployment.id.to_string();
    body["DeploymentID"] = json!(id);
    world
        .put(&format!("/v1/deployment/{what}/{id}"), body)
        .await
}

async fn set_healthy(world: &World, deployment: &Deployment, allocs: &[Allocation]) {
    let ids: Vec<String> = allocs.iter().map(|alloc| alloc.id.to_string()).collect();
    let body = json!({ "HealthyAllocationIDs": ids });
    let answer = steer(world, "allocation-health", deployment, body).await;
    let answer = answer.expect("their health is set");
    assert_ne!(answer["EvalID"], "");
}

/// Version 0 stands, and version 1 is tried by one canary.
async fn trial(world: &World) -> Deployment {
    register(world, "0").await;
    let allocs = standing(world, 0, 2).await;
    let first = deployment(world, |_| true).await;
    set_healthy(world, &first, &allocs).await;
    deployment(world, |it| !it.status.is_active()).await;
    register(world, "1").await;
    standing(world, 1, 1).await;
    let trial = deployment(world, |it| it.job_version == 1).await;
    assert_eq!(trial.status_description, Deployment::NEEDS_PROMOTION);
    trial
}

fn text(answer: Result<Value, ClientError>) -> String {
    let (status, text) = refusal(answer);
    assert_eq!(status, 400, "{text}");
    text
}

#[tokio::test]
async fn a_canary_is_promoted_once_a_person_says_that_it_is_healthy() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let found = trial(&world).await;
    let all = || json!({ "All": true });
    let short = text(steer(&world, "promote", &found, all()).await);
    assert_eq!(short, "Task group \"web\" has 0/1 healthy allocations");
    let canary = standing(&world, 1, 1).await;
    set_healthy(&world, &found, &canary).await;
    assert_eq!(standing(&world, 0, 2).await.len(), 2, "not promoted yet");
    let answer = steer(&world, "promote", &found, all())
        .await
        .expect("healthy");
    assert_ne!(answer["EvalID"], "");
    assert_eq!(answer["EvalCreateIndex"], answer["Index"]);
    assert_eq!(answer["DeploymentModifyIndex"], answer["Index"]);
    assert_eq!(answer["RevertedJobVersion"], Value::Null);
    let again = steer(&world, "promote", &found, all()).await;
    assert!(again.is_ok(), "to promote again is no error: {again:?}");
    let both = standing(&world, 1, 2).await;
    assert!(standing(&world, 0, 0).await.is_empty());
    set_healthy(&world, &found, &both).await;
    let over = deployment(&world, |it| !it.status.is_active()).await;
    assert_eq!(over.status_description, Deployment::SUCCESSFUL);
}

#[tokio::test]
async fn a_deployment_that_is_failed_by_hand_goes_back() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let found = trial(&world).await;
    let answer = steer(&world, "fail", &found, json!({})).await;
    let answer = answer.expect("it is running");
    assert_eq!(answer["RevertedJobVersion"], 0);
    assert_ne!(answer["EvalID"], "");
    let snapshot = world.until(|_| true).await;
    let failed = snapshot.deployment(found.id).expect("kept");
    assert_eq!(
        failed.status_description,
        "Deployment marked as failed - rolling back to job version 0"
    );
    assert!(standing(&world, 1, 0).await.is_empty(), "the canary stops");
    assert_eq!(standing(&world, 2, 2).await.len(), 2, "changed in place");
    for (what, body, verb) in [
        ("pause", json!({ "Pause": true }), "pause"),
        ("pause", json!({ "Pause": false }), "resume"),
        ("promote", json!({ "All": true }), "promote"),
        ("fail", json!({}), "fail"),
        ("unblock", json!({}), "unblock"),
    ] {
        let refused = text(steer(&world, what, &found, body).await);
        assert_eq!(refused, format!("can't {verb} terminal deployment"));
    }
    let ids = json!({ "HealthyAllocationIDs": [found.id.to_string()] });
    assert_eq!(
        text(steer(&world, "allocation-health", &found, ids).await),
        "can't set health of allocations for a terminal deployment"
    );
}

#[tokio::test]
async fn a_paused_deployment_resumes_where_it_was() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let found = trial(&world).await;
    let answer = steer(&world, "pause", &found, json!({ "Pause": true })).await;
    let answer = answer.expect("it is running");
    assert_eq!(
        (&answer["EvalID"], &answer["EvalCreateIndex"]),
        (&json!(""), &json!(0))
    );
    let paused = deployment(&world, |_| true).await;
    assert_eq!(paused.status_description, "Deployment is paused");
    let answer = steer(&world, "pause", &found, json!({ "Pause": false })).await;
    assert_ne!(answer.expect("it is paused")["EvalID"], "");
    let resumed = deployment(&world, |_| true).await;
    assert_eq!(resumed.status_description, Deployment::NEEDS_PROMOTION);
    let refused = text(steer(&world, "unblock", &found, json!({})).await);
    assert_eq!(refused, "can't unblock running deployment");
}

#[tokio::test]
async fn an_unhealthy_alloc_fails_its_deployment_in_the_same_entry() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let found = trial(&world).await;
    let old = standing(&world, 0, 2).await[0].id.to_string();
    let canary = standing(&world, 1, 1).await[0].id.to_string();
    let stranger = "0c0ffee0-0000-4000-8000-000000000000";
    for (id, expected) in [
        (stranger, format!("unknown alloc \"{stranger}\"")),
        ("web", "unknown alloc \"web\"".to_owned()),
        (
            &old,
            format!("alloc \"{old}\" is not part of deployment \"{}\"", found.id),
        ),
    ] {
        let ids = json!({ "HealthyAllocationIDs": [canary, id] });
        assert_eq!(
            text(steer(&world, "allocation-health", &found, ids).await),
            expected
        );
    }
    let canaries = standing(&world, 1, 1).await;
    let health = canaries[0].deployment_status.as_ref().expect("a canary's");
    assert_eq!(health.healthy, None, "a refused mark changes nothing");
    let ids = json!({ "UnhealthyAllocationIDs": [canary] });
    let answer = steer(&world, "allocation-health", &found, ids).await;
    assert_eq!(answer.expect("it is its canary")["RevertedJobVersion"], 0);
    let snapshot = world.until(|_| true).await;
    let failed = snapshot.deployment(found.id).expect("kept");
    assert_eq!(
        failed.status_description,
        "Failed due to unhealthy allocations - rolling back to job version 0"
    );
}

#[tokio::test]
async fn bodies_that_name_no_deployment_or_another_one_are_refused() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    let found = trial(&world).await;
    for what in ["pause", "promote", "unblock", "allocation-health"] {
        let path = format!("/v1/deployment/{what}/{}", found.id);
        let refused = text(world.put(&path, json!({})).await);
        assert_eq!(refused, "DeploymentID must be specified", "{what}");
        let other = json!({ "DeploymentID": "0c0ffee0-0000-4000-8000-000000000000" });
        let refused = text(world.put(&path, other).await);
        assert_eq!(refused, "Deployment ID does not match", "{what}");
        let nobody = "0c0ffee0-0000-4000-8000-000000000000";
        let path = format!("/v1/deployment/{what}/{nobody}");
        let body = json!({ "DeploymentID": nobody, "HealthyAllocationIDs": [nobody] });
        let missing = refusal(world.put(&path, body).await);
        assert_eq!(missing, (404, "deployment not found".to_owned()), "{what}");
    }
    let groups = json!({ "Groups": ["web", "db"] });
    let refused = text(steer(&world, "promote", &found, groups).await);
    assert!(refused.contains("no task group \"db\""), "{refused}");
}

#[tokio::test]
async fn a_plan_counts_canaries() {
    let world = World::start().await;
    let _node = FakeNode::join(&world).await;
    trial(&world).await;
    let body = json!({ "Job": version("2", 2), "Diff": true });
    let answer = world.put("/v1/job/web/plan", body).await.expect("a plan");
    let updates = &answer["Annotations"]["DesiredTGUpdates"]["web"];
    assert_eq!(
        (&updates["Canary"], &updates["Place"]),
        (&json!(2), &json!(0))
    );
    assert_eq!(
        (&updates["Stop"], &updates["Ignore"]),
        (&json!(1), &json!(2))
    );
    let group = &answer["Diff"]["TaskGroups"][0];
    assert_eq!(group["Updates"]["canary"], 2);
}
