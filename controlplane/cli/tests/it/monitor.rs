//! What is told of an evaluation that is watched.

use serde_json::{Value, json};

use crate::fake_server::{Canned, FakeServer};
use crate::{drover, stderr};

const EVAL: &str = "e8b7cf53-0000-4000-8000-000000000001";
const ALLOC: &str = "abc10000-0000-4000-8000-000000000001";

fn watch(status: &str, failed: &Value, allocs: &Value) -> (i32, String) {
    let eval = json!({
        "ID": EVAL, "Namespace": "default", "Priority": 50, "Type": "service",
        "TriggeredBy": "job-register", "JobID": "web", "Status": status,
        "FailedTGAllocs": failed, "CreateIndex": 5,
    });
    let canned = |request, body: &Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    let server = FakeServer::start(vec![
        canned(
            "GET /v1/evaluation/e8b7cf53-0000-4000-8000-000000000001",
            &eval,
        ),
        canned(
            "GET /v1/evaluation/e8b7cf53-0000-4000-8000-000000000001/allocations",
            allocs,
        ),
    ])
    .expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "eval",
        "status",
        "-monitor",
        "-address",
        &server.address,
        EVAL,
    ];
    let output = drover(folder.path(), &arguments);
    (output.status.code().unwrap_or(-1), stderr(&output))
}

/// An allocation that was made at this index.
fn alloc(create_index: u64, status: &str) -> Value {
    json!({
        "ID": ALLOC, "EvalID": EVAL, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": ALLOC, "NodeName": "n1", "JobID": "web", "JobType": "service", "JobVersion": 0,
        "TaskGroup": "web", "DesiredStatus": "run", "DesiredDescription": "",
        "ClientStatus": status, "ClientDescription": "",
        "CreateIndex": create_index, "ModifyIndex": 7, "CreateTime": 1, "ModifyTime": 2,
        "TaskStates": {},
    })
}

#[test]
fn allocation_placed_by_the_evaluation_is_created() {
    let (_, err) = watch("complete", &Value::Null, &json!([alloc(5, "running")]));
    assert!(err.contains("\"abc10000\" created: node"), "{err}");
    let change = "\"abc10000\" status changed: \"pending\" -> \"running\"";
    assert!(err.contains(change), "{err}");
    assert!(!err.contains("modified"), "{err}");
}

#[test]
fn allocation_updated_in_place_is_modified() {
    let (_, err) = watch("complete", &Value::Null, &json!([alloc(4, "running")]));
    let line = "Allocation \"abc10000\" modified: node \"abc10000\", group \"web\"\n";
    assert!(err.contains(line), "{err}");
    assert!(!err.contains("created") && !err.contains("->"), "{err}");
}

#[test]
fn modified_allocation_that_failed_meanwhile_says_why() {
    let mut failed = alloc(4, "failed");
    failed["TaskStates"] = json!({ "server": { "State": "dead", "Failed": true, "Events": [
        { "Type": "Terminated", "DisplayMessage": "Exit Code: 1" },
    ]}});
    let (_, err) = watch("complete", &Value::Null, &json!([failed]));
    let lines =
        "\"abc10000\" status \"failed\"\n        task \"server\": Terminated: Exit Code: 1\n";
    assert!(err.contains(lines), "{err}");
}

#[test]
fn rollout_tells_modified_allocations_from_created_ones() {
    const DEPLOYMENT: &str = "de910000-0000-4000-8000-000000000001";
    let eval = json!({
        "ID": EVAL, "Namespace": "default", "Priority": 50, "Type": "service",
        "TriggeredBy": "job-register", "JobID": "web", "Status": "complete",
        "DeploymentID": DEPLOYMENT, "CreateIndex": 5,
    });
    let deployment = json!({
        "ID": DEPLOYMENT, "Namespace": "default", "JobID": "web", "JobVersion": 1,
        "TaskGroups": { "web": { "DesiredTotal": 2, "PlacedAllocs": 2, "HealthyAllocs": 2 } },
        "Status": "successful", "StatusDescription": "", "CreateIndex": 6,
    });
    let mut placed = alloc(6, "running");
    placed["ID"] = json!("abc20000-0000-4000-8000-000000000001");
    let allocs = json!([alloc(4, "running"), placed]);
    let canned = |request, body: &Value| Canned {
        request,
        status: 200,
        body: body.to_string(),
    };
    let server = FakeServer::start(vec![
        canned(
            "GET /v1/evaluation/e8b7cf53-0000-4000-8000-000000000001",
            &eval,
        ),
        canned(
            "GET /v1/deployment/de910000-0000-4000-8000-000000000001",
            &deployment,
        ),
        canned(
            "GET /v1/deployment/allocations/de910000-0000-4000-8000-000000000001",
            &allocs,
        ),
    ])
    .expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = [
        "eval",
        "status",
        "-monitor",
        "-address",
        &server.address,
        EVAL,
    ];
    let output = drover(folder.path(), &arguments);
    let err = stderr(&output);
    assert!(err.contains("\"abc10000\" modified: node"), "{err}");
    assert!(err.contains("\"abc20000\" created: node"), "{err}");
    assert_eq!(err.matches("->").count(), 1, "{err}");
}

#[test]
fn an_allocation_that_failed_says_why() {
    let event = |kind: &str, words: &str| json!({ "Type": kind, "DisplayMessage": words });
    let task = json!({ "State": "dead", "Failed": true, "Events": [
        event("Started", "Task started"),
        event("Terminated", "Exit Code: 1"),
        event("Not Restarting", "The restart policy allows no restarts"),
    ]});
    let other = json!({ "State": "dead", "Failed": false, "Events": [
        event("Terminated", "Exit Code: 0"),
    ]});
    let mut alloc = alloc(6, "failed");
    alloc["ClientDescription"] = json!("Failed tasks");
    alloc["TaskStates"] = json!({ "server": task, "side": other });
    let (_, err) = watch("complete", &Value::Null, &json!([alloc]));
    let lines = "-> \"failed\" (Failed tasks)\n        task \"server\": Terminated: Exit Code: 1\n";
    assert!(err.contains(lines), "{err}");
    assert!(!err.contains("side"), "{err}");
}

#[test]
fn what_is_blocked_waits_and_has_not_finished() {
    let failed = json!({ "web": { "NodesEvaluated": 1, "DimensionExhausted": { "memory": 1 } } });
    let (code, err) = watch("blocked", &failed, &json!([]));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("waits for capacity"), "{err}");
    assert!(err.contains("Dimension \"memory\" exhausted"), "{err}");
    assert!(!err.contains("finished"), "{err}");
}
