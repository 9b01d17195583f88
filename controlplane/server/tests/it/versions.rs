//! Earlier versions of a job: reverts, stability, tags; and counts that are kept.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::world::{World, refusal, service};

/// The job `web` in as many versions as priorities, from 50 on.
async fn with_versions(count: i64) -> World {
    let world = World::start().await;
    for version in 0..count {
        register(&world, 50 + version).await;
    }
    world
}

async fn register(world: &World, priority: i64) {
    let mut job = service("web");
    job["Priority"] = json!(priority);
    let body =
        json!({ "Job": job, "Submission": { "Source": priority.to_string(), "Format": "hcl2" } });
    world.put("/v1/jobs", body).await.expect("registered");
}

async fn revert(world: &World, body: Value) -> Result<Value, protocol_client::ClientError> {
    world.put("/v1/job/web/revert", body).await
}

#[tokio::test]
async fn a_revert_registers_the_earlier_version_again() {
    let world = with_versions(2).await;
    let stable = json!({ "JobID": "web", "JobVersion": 0, "Stable": true });
    let answer = world
        .put("/v1/job/web/stable", stable)
        .await
        .expect("stable");
    assert!(answer["Index"].is_u64(), "{answer}");
    let tag = json!({ "Version": 0 });
    world
        .put("/v1/job/web/versions/old/tag", tag)
        .await
        .expect("tagged");
    let body = json!({ "JobID": "web", "JobVersion": 0, "EnforcePriorVersion": 1 });
    let answer = revert(&world, body).await.expect("reverted");
    assert_eq!(answer["EvalID"].as_str().map(str::len), Some(36));
    let job = world.get("/v1/job/web").await.expect("the job");
    assert_eq!((&job["Version"], &job["Priority"]), (&json!(2), &json!(50)));
    assert_eq!(
        (&job["Stable"], &job["VersionTag"]),
        (&json!(false), &Value::Null)
    );
    let source = world.get("/v1/job/web/submission").await.expect("a source");
    assert_eq!(source["Source"], "50");
}

#[tokio::test]
async fn a_revert_that_makes_no_sense_is_refused() {
    let world = with_versions(3).await;
    let cases = [
        (json!({ "JobVersion": 0 }), 400, "JobID must be specified"),
        (
            json!({ "JobID": "x", "JobVersion": 0 }),
            400,
            "Job ID does not match",
        ),
        (
            json!({ "JobID": "web", "JobVersion": 2 }),
            400,
            "can't revert to current version",
        ),
        (
            json!({ "JobID": "web", "JobVersion": 9 }),
            404,
            "job \"web\" in namespace \"default\" at version 9 not found",
        ),
        (
            json!({ "JobID": "web", "JobVersion": 0, "EnforcePriorVersion": 1 }),
            400,
            "Current job has version 2; enforcing version 1",
        ),
    ];
    for (body, status, text) in cases {
        let refused = refusal(revert(&world, body.clone()).await);
        assert_eq!(refused, (status, text.to_owned()), "{body}");
    }
    let body = json!({ "JobID": "web", "JobVersion": 9, "Stable": true });
    let refused = refusal(world.put("/v1/job/web/stable", body).await);
    let text = "job \"web\" in namespace \"default\" at version 9 not found";
    assert_eq!(refused, (404, text.to_owned()));
}

#[tokio::test]
async fn a_tag_names_one_version_and_keeps_it() {
    let world = with_versions(2).await;
    let path = "/v1/job/web/versions/golden/tag";
    let body = json!({ "Version": 0, "Description": "first" });
    let tag = world.put(path, body).await.expect("tagged");
    assert_eq!(
        (&tag["Name"], &tag["Description"]),
        (&json!("golden"), &json!("first"))
    );
    assert!(tag["TaggedTime"].as_i64().is_some_and(|it| it > 0), "{tag}");
    let again = json!({ "Version": 0, "Description": "again" });
    world.put(path, again).await.expect("the same version");
    // Without a version the newest is meant, which does not have it.
    let refused = refusal(world.put(path, json!({})).await);
    let text = "tag \"golden\" already exists on a different version of job \"web\"";
    assert_eq!(refused, (400, text.to_owned()));
    let refused = refusal(world.put(path, json!({ "Version": 9 })).await);
    assert_eq!(refused, (404, "job \"web\" version 9 not found".to_owned()));

    for priority in 60..70 {
        register(&world, priority).await;
    }
    let path_of_versions = "/v1/job/web/versions?diffs=true&diff_tag=golden";
    let answer = world.get(path_of_versions).await.expect("versions");
    let versions = answer["Versions"].as_array().expect("a list");
    let oldest = versions.last().expect("the tagged one");
    assert_eq!((&oldest["Version"], versions.len()), (&json!(0), 7));
    assert_eq!(oldest["VersionTag"]["Description"], "again");
    assert_eq!(answer["Diffs"].as_array().map(Vec::len), Some(6));

    world.delete(path).await.expect("untagged");
    let refused = refusal(world.delete(path).await);
    assert_eq!(
        refused,
        (404, "tag \"golden\" not found on job \"web\"".to_owned())
    );
    let answer = world.get("/v1/job/web/versions").await.expect("versions");
    assert_eq!(answer["Versions"].as_array().map(Vec::len), Some(6));
    let refused = refusal(world.get(path_of_versions).await);
    assert_eq!(refused.0, 404);
}

#[tokio::test]
async fn counts_are_kept_while_others_scale() {
    // No rollout is in the way of a scale.
    let without_rollouts = || {
        let mut job = service("web");
        job["TaskGroups"][0]["Update"] = json!({ "MaxParallel": 0 });
        job
    };
    let world = World::start().await;
    let body = json!({ "Job": without_rollouts() });
    world.put("/v1/jobs", body).await.expect("registered");
    let scale = async |count: i64| {
        let body = json!({ "Count": count, "Target": { "Group": "web" } });
        world.put("/v1/job/web/scale", body).await.expect("scaled");
    };
    let keep = async |priority: i64| {
        let mut job = without_rollouts();
        job["Priority"] = json!(priority);
        job["TaskGroups"][0]["Count"] = json!(99);
        let body = json!({ "Job": job, "PreserveCounts": true });
        world.put("/v1/jobs", body).await.expect("registered");
    };
    tokio::join!(join_all((2..6).map(scale)), join_all((60..64).map(keep)));
    // Each version that kept counts has the count of the version before it.
    let answer = world.get("/v1/job/web/versions").await.expect("versions");
    let versions = answer["Versions"].as_array().expect("a list");
    for pair in versions.windows(2) {
        let count = |job: &Value| job["TaskGroups"][0]["Count"].clone();
        if pair[0]["Priority"] != pair[1]["Priority"] {
            assert_eq!(count(&pair[0]), count(&pair[1]), "{pair:?}");
        }
    }
}
