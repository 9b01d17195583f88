//! Every read of one recorded state answers byte for byte as it was recorded.
//!
//! ```text
//! tests/recorded/state.snap ---restore---> a server ---each line of QUESTIONS---> answers.txt
//! ```
//!
//! With `DROVER_REWRITE=1` the answers are recorded anew; the state is too, if its file is gone.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use controlplane_state::checkpoint::inspect;
use controlplane_state::command::{DeploymentChange, DeploymentStatusUpdate};
use controlplane_state::{Command, Snapshot};
use protocol_model::{DeploymentStatus, EvalStatus, TaskEvent, TaskEventKind, UnixNanos};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::fake_node::FakeNode;
use crate::restore::{restore, save};
use crate::world::{World, service};

/// Reads, and writes of which the state keeps nothing. `ALLOC`, `NODE`, `EVAL` and `DEPLOYMENT` are
/// ids of the recorded state.
const QUESTIONS: &[&str] = &[
    "GET /v1/jobs",
    "GET /v1/jobs?meta=true&namespace=*&pretty",
    "GET /v1/jobs?per_page=1",
    "GET /v1/jobs?prefix=w&reverse=true",
    "GET /v1/jobs?filter=Priority+%3D%3D+70",
    "GET /v1/jobs?namespace=nowhere",
    "GET /v1/job/web",
    "GET /v1/job/none",
    "GET /v1/job/template",
    "GET /v1/job/web/summary",
    "GET /v1/job/template/summary",
    "GET /v1/job/huge/summary",
    "GET /v1/job/web/versions",
    "GET /v1/job/web/versions?diffs=true",
    "GET /v1/job/web/versions?diffs=true&diff_version=1",
    "GET /v1/job/web/submission",
    "GET /v1/job/web/submission?version=1",
    "GET /v1/job/web/allocations",
    "GET /v1/job/web/evaluations",
    "GET /v1/job/web/deployments",
    "GET /v1/job/web/deployment",
    "GET /v1/job/template/deployment",
    "GET /v1/allocations",
    "GET /v1/allocations?resources=true",
    "GET /v1/allocations?task_states=false&reverse=true",
    "GET /v1/allocation/ALLOC",
    "GET /v1/allocation/11111111-2222-3333-4444-555555555555",
    "GET /v1/evaluations",
    "GET /v1/evaluations?job=huge",
    "GET /v1/evaluation/EVAL",
    "GET /v1/evaluation/EVAL?related=true",
    "GET /v1/evaluation/EVAL/allocations",
    "GET /v1/deployments",
    "GET /v1/deployment/DEPLOYMENT",
    "GET /v1/deployment/allocations/DEPLOYMENT",
    "GET /v1/nodes",
    "GET /v1/nodes?resources=true&os=true",
    "GET /v1/node/NODE",
    "GET /v1/node/NODE/allocations",
    "GET /v1/namespaces",
    "GET /v1/namespaces?prefix=te",
    "GET /v1/namespace/team",
    "GET /v1/namespace/none",
    "GET /v1/regions",
    "GET /v1/agent/self",
    "GET /v1/agent/members",
    "GET /v1/agent/health",
    "GET /v1/operator/scheduler/configuration",
    "PUT /v1/search {\"Prefix\":\"w\",\"Context\":\"all\"}",
    "PUT /v1/search {\"Prefix\":\"\",\"Context\":\"namespaces\"}",
    "PUT /v1/job/web/plan {\"Diff\":true,\"Job\":WEB}",
    "PUT /v1/job/huge/plan {\"Job\":HUGE}",
    "PUT /v1/validate/job {\"Job\":WEB}",
    "PUT /v1/validate/job {\"Job\":{\"ID\":\"x y\",\"TaskGroups\":[{}]}}",
    "PUT /v1/jobs/parse {\"JobHCL\":\"job \\\"a\\\" { }\"}",
    // From here on the state changes.
    "PUT /v1/jobs {\"Job\":WEB}",
    "PUT /v1/job/web/evaluate {\"JobID\":\"web\"}",
    "PUT /v1/allocation/ALLOC/stop",
    "PUT /v1/node/NODE/eligibility {\"Eligibility\":\"ineligible\"}",
    "PUT /v1/node/NODE/evaluate",
    "PUT /v1/namespace/other {\"Name\":\"other\"}",
    "DELETE /v1/namespace/other",
    "PUT /v1/operator/scheduler/configuration {\"SchedulerAlgorithm\":\"spread\"}",
    "DELETE /v1/job/web",
    "DELETE /v1/job/none",
    "PUT /v1/system/reconcile/summaries",
];

/// The recorded state, restored.
struct Recorded {
    /// The newest index in it.
    index: u64,
    /// Nanoseconds of the epoch; all its times are earlier.
    restored_at: u64,
    ids: HashSet<String>,
    /// Values of this server alone.
    server: [(&'static str, String); 3],
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded")
}

fn rewrites() -> bool {
    std::env::var_os("DROVER_REWRITE").is_some()
}

/// The second version of the service.
fn web() -> Value {
    let mut job = service("web");
    job["Priority"] = json!(70);
    job["Meta"] = json!({ "owner": "tests", "tier": "front" });
    job["TaskGroups"][0]["Count"] = json!(2);
    job
}

/// A job that fits on no node.
fn huge() -> Value {
    let mut job = service("huge");
    job["TaskGroups"][0]["Tasks"][0]["Resources"]["CPU"] = json!(1_000_000);
    job
}

async fn settled(world: &World) -> Snapshot {
    world
        .until(|snapshot| {
            let mut evals = snapshot.evals();
            evals.all(|eval| eval.status != EvalStatus::Pending)
        })
        .await
}

/// Ends every rollout that is under way: its deadline would pass one day.
async fn end_rollouts(world: &World) {
    for deployment in settled(world).await.deployments() {
        if deployment.status.is_active() {
            let change = DeploymentChange {
                id: deployment.id,
                status: DeploymentStatus::Successful,
                description: "recorded".to_owned(),
                from: None,
            };
            let update = DeploymentStatusUpdate {
                change,
                revert: None,
                eval: None,
            };
            let command = Command::DeploymentStatus(update);
            world.server.cluster().change(command).await.expect("ended");
        }
    }
}

/// A state with an object of every kind, as the operations of this API make it.
async fn record_state() -> Vec<u8> {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let put = async |path: &str, body: Value| {
        world.put(path, body).await.expect("written");
        end_rollouts(&world).await;
    };
    let source = json!({ "Source": "job \"web\" {}", "Format": "hcl2" });
    put("/v1/jobs", json!({ "Job": service("web") })).await;
    put("/v1/jobs", json!({ "Job": web(), "Submission": source })).await;
    put("/v1/jobs", json!({ "Job": huge() })).await;
    let mut template = service("template");
    template["Type"] = json!("batch");
    template["ParameterizedJob"] = json!({ "Payload": "optional", "MetaRequired": ["who"] });
    put("/v1/jobs", json!({ "Job": template })).await;
    put(
        "/v1/namespace/team",
        json!({ "Name": "team", "Meta": { "a": "b" } }),
    )
    .await;
    let mut other = service("whale");
    other["Namespace"] = json!("team");
    other["Type"] = json!("batch");
    put("/v1/jobs", json!({ "Job": other })).await;
    world
        .delete("/v1/job/whale?namespace=team")
        .await
        .expect("stopped");
    let snapshot = settled(&world).await;
    let alloc = snapshot.allocs().next().expect("an allocation").id;
    let event = TaskEvent::new(TaskEventKind::Started, "it runs", UnixNanos(7));
    node.report_running(alloc, "server", event).await;
    settled(&world).await;
    save(&world.client).await
}

/// A question with the ids and jobs that it names.
fn question(text: &str, snapshot: &Snapshot) -> (String, String) {
    let running = snapshot.allocs().find(|it| !it.task_states.is_empty());
    let alloc = running.expect("an allocation").id;
    let node = snapshot.nodes().next().expect("a node").node.id;
    let blocked = snapshot.evals().find(|it| it.status == EvalStatus::Blocked);
    let eval = blocked.expect("an evaluation").id;
    let deployment = snapshot.deployments().next().expect("a deployment").id;
    let text = text
        .replace("ALLOC", &alloc.to_string())
        .replace("NODE", &node.to_string())
        .replace("EVAL", &eval.to_string())
        .replace("DEPLOYMENT", &deployment.to_string())
        .replace("WEB", &web().to_string())
        .replace("HUGE", &huge().to_string());
    let (line, body) = text.split_once(" {").unwrap_or((&text, ""));
    let body = if body.is_empty() {
        String::new()
    } else {
        format!("{{{body}")
    };
    (line.to_owned(), body)
}

/// The part of an answer that a repetition does not make anew: without log indexes and times above
/// those of the recorded state, and ids that are not in it.
fn masked(body: &str, recorded: &Recorded) -> String {
    let number = Regex::new(r#"(Index|Time|UpdatedAt)":(\d+)"#).expect("a pattern");
    let body = number.replace_all(body, |found: &Captures<'_>| {
        let bound = match &found[1] {
            "Index" => recorded.index,
            "UpdatedAt" => recorded.restored_at / 1_000_000_000 - 1,
            _ => recorded.restored_at,
        };
        let is_new = found[2].parse().is_ok_and(|it: u64| it > bound);
        if is_new {
            format!("{}\":NEW", &found[1])
        } else {
            found[0].to_owned()
        }
    });
    let id = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").expect("a pattern");
    let body = id.replace_all(&body, |found: &Captures<'_>| {
        let id = &found[0];
        if recorded.ids.contains(id) {
            id.to_owned()
        } else {
            "NEW".to_owned()
        }
    });
    let own = Regex::new(r#"("(id|[a-z_]*_index|term)":")[0-9a-f]+"#).expect("a pattern");
    let mut body = own.replace_all(&body, "${1}NEW").into_owned();
    for (name, value) in &recorded.server {
        let value = Regex::new(&format!("([:\"]){}\\b", regex::escape(value)));
        let value = value.expect("a pattern");
        body = value
            .replace_all(&body, format!("${{1}}{name}"))
            .into_owned();
    }
    body
}

fn ids(snapshot: &Snapshot) -> HashSet<String> {
    let allocs = snapshot.allocs().map(|it| it.id.to_string());
    let nodes = snapshot.nodes().map(|it| it.node.id.to_string());
    let evals = snapshot.evals().map(|it| it.id.to_string());
    let deployments = snapshot.deployments().map(|it| it.id.to_string());
    allocs
        .chain(nodes)
        .chain(evals)
        .chain(deployments)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_of_a_recorded_state_answer_as_recorded() {
    let state = folder().join("state.snap");
    if rewrites() && !state.exists() {
        std::fs::create_dir_all(folder()).expect("the folder");
        std::fs::write(&state, record_state().await).expect("the state");
    }
    let world = World::start_with(|config| config.name = "server-1".to_owned()).await;
    let saved = std::fs::read(&state).expect("the recorded state");
    let index = inspect(saved.as_slice()).expect("a snapshot").index;
    let epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let restored_at = epoch.expect("after 1970").as_nanos();
    restore(&world.client, saved).await.expect("restored");
    world.until(|it| it.nodes().next().is_some()).await;
    settled(&world).await;
    let snapshot = world.until_signed().await;
    let recorded = Recorded {
        index,
        restored_at: restored_at.try_into().expect("before 2554"),
        ids: ids(&snapshot),
        server: [
            ("FOLDER", world.data_dir().display().to_string()),
            ("HTTP", world.server.http_address().port().to_string()),
            (
                "QUIC",
                world
                    .server
                    .quic_address()
                    .expect("an address")
                    .port()
                    .to_string(),
            ),
        ],
    };
    let mut answers = String::new();
    for text in QUESTIONS {
        let (line, body) = question(text, &snapshot);
        let (status, _, body) = world.raw(&format!("{line} HTTP/1.1"), &body).await;
        let body = masked(&body, &recorded);
        writeln!(answers, "{text}\n{status} {body}\n").expect("a text");
    }
    let path = folder().join("answers.txt");
    if rewrites() {
        std::fs::write(&path, &answers).expect("the answers");
    }
    let expected = std::fs::read_to_string(&path).expect("the recorded answers");
    for (answer, expected) in answers.lines().zip(expected.lines()) {
        assert_eq!(answer, expected);
    }
    assert_eq!(answers.len(), expected.len());
}
