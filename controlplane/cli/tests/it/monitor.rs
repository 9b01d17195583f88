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
        "FailedTGAllocs": failed,
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
    let alloc = json!({
        "ID": ALLOC, "EvalID": EVAL, "Name": "web.web[0]", "Namespace": "default",
        "NodeID": ALLOC, "NodeName": "n1", "JobID": "web", "JobType": "service", "JobVersion": 0,
        "TaskGroup": "web", "DesiredStatus": "run", "DesiredDescription": "",
        "ClientStatus": "failed", "ClientDescription": "Failed tasks",
        "CreateIndex": 5, "ModifyIndex": 7, "CreateTime": 1, "ModifyTime": 2,
        "TaskStates": { "server": task, "side": other },
    });
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
