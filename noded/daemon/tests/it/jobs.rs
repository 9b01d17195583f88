//! What tests want of a node and how they look at it: jobs, allocations, reports, output.

use std::sync::Arc;

use protocol_model::{AllocId, Allocation, ClientStatus, DesiredStatus, Job};
use protocol_wire::report::AllocReport;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;
use serde_json::{Value, json};

use crate::fake_server::{Known, PATIENCE};
use crate::scene::Scene;

pub(crate) const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

pub(crate) fn job(id: &str, driver: &str, config: &Value, more: Value) -> Arc<Job> {
    let mut task = json!({
        "Name": "main",
        "Driver": driver,
        "Config": config,
        "KillTimeout": 2_000_000_000_u64,
        "RestartPolicy": {"Attempts": 0, "Mode": "fail", "Interval": 1_000_000_000_u64, "Delay": 1_000_000_000_u64},
    });
    let Value::Object(more) = more else {
        panic!("no object")
    };
    task.as_object_mut().unwrap().extend(more);
    let job = json!({
        "ID": id, "Name": id, "Namespace": "default", "Type": "service", "Region": "global",
        "TaskGroups": [{"Name": "group", "Count": 1, "Tasks": [task]}],
    });
    Arc::new(serde_json::from_value(job).unwrap())
}

pub(crate) fn alloc(job: &Job, id: u128) -> Allocation {
    let json = json!({
        "ID": AllocId::from_u128(id), "Namespace": "default", "EvalID": uuid::Uuid::nil(),
        "Name": format!("{}.group[0]", job.id), "NodeID": uuid::Uuid::nil(), "JobID": job.id,
        "TaskGroup": "group", "SpecHash": job.spec_hash(),
        "AllocatedResources": {"Tasks": {"main": {
            "Cpu": {"CpuShares": 100}, "Memory": {"MemoryMB": 64}
        }}},
    });
    serde_json::from_value(json).unwrap()
}

pub(crate) fn stopped(mut alloc: Allocation) -> Allocation {
    alloc.desired_status = DesiredStatus::Stop;
    alloc
}

pub(crate) fn report(known: &Known, id: AllocId) -> Option<&AllocReport> {
    known.reports.get(&id)
}

pub(crate) fn is(known: &Known, id: AllocId, status: ClientStatus) -> bool {
    report(known, id).is_some_and(|report| report.client_status == status)
}

/// Polls what no message announces.
pub(crate) async fn eventually(mut condition: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition() {
            tokio::time::sleep(PAUSE).await;
        }
    });
    waited.await.expect("it never happened");
}

/// Reads the task's output until it fits: pump may be a moment behind.
pub(crate) async fn output(scene: &Scene, id: AllocId, fits: impl Fn(&str) -> bool) -> String {
    read_until(scene, id, false, fits).await
}

/// As [`output`], on the other stream.
pub(crate) async fn errors(scene: &Scene, id: AllocId, fits: impl Fn(&str) -> bool) -> String {
    read_until(scene, id, true, fits).await
}

async fn read_until(
    scene: &Scene,
    id: AllocId,
    stderr: bool,
    fits: impl Fn(&str) -> bool,
) -> String {
    let mut text = String::new();
    let waited = tokio::time::timeout(PATIENCE, async {
        while !fits(&text) {
            tokio::time::sleep(PAUSE).await;
            text = scene.server.logs(id, "main", stderr).await;
        }
    });
    let in_time = waited.await.is_ok();
    assert!(in_time, "the output never fit: {text:?}");
    text
}

pub(crate) fn sh(script: &str) -> Value {
    json!({"command": "/bin/sh", "args": ["-c", script]})
}

/// The one JSON that a call answers.
pub(crate) async fn json_of(scene: &Scene, id: AllocId, request: Request) -> Value {
    let replies = scene.server.call(id, request).await.unwrap();
    match replies.as_slice() {
        [Reply::Json(json)] => serde_json::from_slice(json).unwrap(),
        other => panic!("{other:?}"),
    }
}
