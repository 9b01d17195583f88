//! Bodies whose keys are written in another case, as clients that are no Go programs send them.

use serde_json::{Value, json};

use crate::world::{World, refusal, service};

/// Keys of structures in lower case, at every depth; those of `Meta` and `Config` stay.
fn lower(value: &Value) -> Value {
    match value {
        Value::Array(all) => all.iter().map(lower).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| {
                let is_map = ["Meta", "Config"].contains(&key.as_str());
                let inside = if is_map { value.clone() } else { lower(value) };
                (key.to_lowercase(), inside)
            });
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

#[tokio::test]
async fn a_job_is_registered_planned_and_validated_in_any_case() {
    let world = World::start().await;
    let body = lower(&json!({ "Job": service("web"), "EnforceIndex": true }));
    for path in ["/v1/validate/job", "/v1/job/web/plan", "/v1/jobs"] {
        world.put(path, body.clone()).await.expect(path);
    }
    let job = world.get("/v1/job/web").await.expect("a job");
    assert_eq!(job["TaskGroups"][0]["Tasks"][0]["Resources"]["CPU"], 100);
    assert_eq!(job["Meta"], json!({ "owner": "tests" }));
    // It exists: `enforceindex` with index 0 is read, too.
    let (status, _) = refusal(world.put("/v1/jobs", body).await);
    assert_eq!(status, 500);
}

#[tokio::test]
async fn every_other_body_is_read_in_any_case() {
    let world = World::start().await;
    let file = "job \"j\" {\n group \"g\" {\n task \"t\" {\n driver = \"exec\"\n }\n }\n }\n";
    let parsed = world.put("/v1/jobs/parse", json!({ "jobhcl": file })).await;
    assert_eq!(parsed.expect("a job")["ID"], "j");
    let refused = world.put("/v1/jobs/parse", json!({ "JobHCL": file, "hclv1": true }));
    assert_eq!(refusal(refused.await).0, 400);
    world
        .put("/v1/jobs", json!({ "JOB": service("web") }))
        .await
        .expect("registered");
    let found = world
        .put("/v1/search", json!({ "prefix": "we", "context": "jobs" }))
        .await;
    assert_eq!(found.expect("matches")["Matches"]["jobs"], json!(["web"]));
    let refused = world.put("/v1/job/web/evaluate", json!({ "jobid": "other" }));
    assert_eq!(
        refusal(refused.await),
        (400, "JobID does not match".to_owned())
    );
    let namespace = json!({ "name": "n", "description": "d", "meta": { "Key": "v" } });
    world.put("/v1/namespace", namespace).await.expect("made");
    let namespace = world.get("/v1/namespace/n").await.expect("a namespace");
    assert_eq!(
        (&namespace["Description"], &namespace["Meta"]),
        (&json!("d"), &json!({ "Key": "v" }))
    );
    let scheduler = json!({ "scheduleralgorithm": "spread" });
    world
        .put("/v1/operator/scheduler/configuration", scheduler)
        .await
        .expect("set");
    let scheduler = world
        .get("/v1/operator/scheduler/configuration")
        .await
        .expect("settings");
    assert_eq!(scheduler["SchedulerConfig"]["SchedulerAlgorithm"], "spread");
}

#[tokio::test]
async fn a_wrong_type_in_another_case_is_refused_with_its_place() {
    let world = World::start().await;
    let body = "{\"job\": {\n \"id\": 5}}";
    let (status, _, words) = world.raw("PUT /v1/jobs HTTP/1.1", body).await;
    assert_eq!(status, 400);
    assert!(words.contains("invalid type: integer `5`"), "{words}");
    assert!(words.ends_with("at line 2 column 8"), "{words}");
}
