//! Bodies that are almost right, for every route that reads one: cut at every place, and with each
//! value replaced by what borders are made of. Whatever comes, there is an answer, and a refusal
//! says why: a handler that panics would leave its caller without one.

use protocol_client::{ClientError, Query};
use serde_json::{Value, json};

use crate::world::{World, service};

/// Cuts of one body; a longer one is cut at even distances.
const CUTS_MAX: usize = 24;

/// What a value is replaced by.
fn edges() -> Vec<Value> {
    vec![
        Value::Null,
        json!(-1),
        json!(u64::MAX),
        json!(1e308),
        json!(true),
        json!(""),
        json!("\u{0}\u{fffd}${"),
        json!([]),
        json!([[[[{}]]]]),
        json!({}),
        json!({"": {"": null}}),
    ]
}

/// Every route that reads a body, with one that it understands.
fn bodies() -> Vec<(&'static str, Value)> {
    let node = "/v1/node/11111111-2222-3333-4444-555555555555/eligibility";
    let restart = "/v1/client/allocation/11111111-2222-3333-4444-555555555555/restart";
    let signal = "/v1/client/allocation/11111111-2222-3333-4444-555555555555/signal";
    let job = json!({
        "Job": service("web"), "EnforceIndex": true, "JobModifyIndex": 7, "EvalPriority": 60,
        "PreserveCounts": true, "Diff": true,
    });
    vec![
        ("/v1/jobs", job.clone()),
        ("/v1/job/web", job.clone()),
        ("/v1/job/web/plan", job.clone()),
        ("/v1/validate/job", job),
        (
            "/v1/jobs/parse",
            json!({
                "JobHCL": "variable \"a\" {\n}\njob \"web\" {\n meta {\n  a = var.a\n }\n}\n",
                "Variables": "a = [1, 2]\n", "Canonicalize": true,
            }),
        ),
        (
            "/v1/job/web/evaluate",
            json!({ "JobID": "web", "EvalOptions": { "ForceReschedule": true } }),
        ),
        ("/v1/search", json!({ "Prefix": "w", "Context": "jobs" })),
        (
            "/v1/search/fuzzy",
            json!({ "Text": "we", "Context": "jobs", "AllowStale": true }),
        ),
        (
            "/v1/namespace",
            json!({ "Name": "team", "Description": "d", "Meta": { "a": "b" } }),
        ),
        (node, json!({ "NodeID": "x", "Eligibility": "eligible" })),
        (restart, json!({ "TaskName": "t", "AllTasks": true })),
        (signal, json!({ "Task": "t", "Signal": "SIGHUP" })),
        (
            "/v1/operator/scheduler/configuration",
            json!({ "SchedulerAlgorithm": "binpack", "PreemptionConfig": { "SystemSchedulerEnabled": true } }),
        ),
        ("/v1/acl/bootstrap", json!({ "BootstrapSecret": "x" })),
    ]
}

/// The body with the value at each place replaced in turn.
fn bent(body: &Value) -> Vec<Value> {
    let mut places = Vec::new();
    collect(body, &mut String::new(), &mut places);
    let mut all = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let edges = edges();
        // Every edge somewhere, and three at each place.
        for edge in edges.iter().cycle().skip(number * 3).take(3) {
            let mut body = body.clone();
            if let Some(value) = body.pointer_mut(place) {
                *value = edge.clone();
            }
            all.push(body);
        }
    }
    all
}

fn collect(value: &Value, at: &mut String, out: &mut Vec<String>) {
    out.push(at.clone());
    let length = at.len();
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                at.push('/');
                at.push_str(key);
                collect(value, at, out);
                at.truncate(length);
            }
        }
        Value::Array(elements) => {
            for (position, value) in elements.iter().enumerate() {
                at.push_str(&format!("/{position}"));
                collect(value, at, out);
                at.truncate(length);
            }
        }
        _ => {}
    }
}

async fn send(world: &World, path: &str, body: Vec<u8>) {
    let shown = String::from_utf8_lossy(&body).into_owned();
    let answer = world
        .client
        .put_bytes::<Value>(path, &Query::new(), body.into())
        .await;
    match answer {
        Ok(_) => {}
        Err(ClientError::Status { code, message }) => {
            assert!(!message.is_empty(), "{path} {shown}: {code} without a word");
        }
        Err(error) => panic!("{path} {shown}: {error}"),
    }
}

#[tokio::test]
async fn no_body_upsets_a_route() {
    let world = World::start().await;
    for (path, body) in bodies() {
        let whole = body.to_string().into_bytes();
        let step = whole.len() / CUTS_MAX + 1;
        for end in (0..whole.len()).step_by(step) {
            send(&world, path, whole[..end].to_vec()).await;
        }
        for body in bent(&body) {
            send(&world, path, body.to_string().into_bytes()).await;
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        send(&world, path, deep.into_bytes()).await;
    }
    let health = world.get("/v1/agent/health").await.expect("it lives");
    assert_eq!(health["server"]["ok"], true);
}
