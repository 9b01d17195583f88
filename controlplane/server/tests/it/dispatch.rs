//! Dispatches of parameterized jobs.

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::world::{World, refusal, service};

fn template(id: &str) -> Value {
    let mut job = service(id);
    job["Type"] = json!("batch");
    job["ParameterizedJob"] = json!({ "MetaRequired": ["who"], "MetaOptional": ["how"] });
    job
}

async fn with_template() -> World {
    let world = World::start().await;
    let body = json!({ "Job": template("work") });
    world.put("/v1/jobs", body).await.expect("registered");
    world
}

#[tokio::test]
async fn a_dispatch_makes_a_child_with_payload_meta_and_evaluation() {
    let world = with_template().await;
    let body = json!({
        "JobID": "work", "Payload": "aGkK", "Meta": { "who": "me", "how": "fast" },
        "IdPrefixTemplate": "nightly", "Priority": 70,
    });
    let answer = world.put("/v1/job/work/dispatch", body).await;
    let answer = answer.expect("dispatched");
    let id = answer["DispatchedJobID"].as_str().expect("an id");
    let rest = id.strip_prefix("work/dispatch-nightly-").expect("a prefix");
    let (unix, unique) = rest.split_once('-').expect("two parts");
    assert!(
        unix.parse::<u64>().is_ok_and(|it| it > 1_700_000_000),
        "{id}"
    );
    assert!(
        unique.len() == 8 && unique.chars().all(|c| c.is_ascii_hexdigit()),
        "{id}"
    );
    assert_eq!(answer["JobCreateIndex"], answer["Index"]);
    assert_eq!(answer["EvalCreateIndex"], answer["Index"]);

    let child = world.get(&format!("/v1/job/{id}")).await.expect("a child");
    assert_eq!(child["Name"], id);
    assert_eq!(child["ParentID"], "work");
    assert_eq!(child["Dispatched"], true);
    assert_eq!(child["Priority"], 70);
    assert_eq!(child["Payload"], "AwhoaQo=");
    assert_eq!(child["Meta"]["who"], "me");
    assert_eq!(child["Meta"]["owner"], "tests");
    let eval = answer["EvalID"].as_str().expect("an evaluation");
    let eval = world
        .get(&format!("/v1/evaluation/{eval}"))
        .await
        .expect("it");
    assert_eq!(
        (&eval["JobID"], &eval["Priority"]),
        (&json!(id), &json!(70))
    );
    assert_eq!(eval["TriggeredBy"], "job-register");
    let summary = world.get("/v1/job/work/summary").await.expect("counters");
    let children = &summary["Children"];
    let count = |name: &str| children[name].as_u64().expect("a number");
    assert_eq!(count("Pending") + count("Running") + count("Dead"), 1);
}

#[tokio::test]
async fn the_body_of_dispatch_payload_is_the_payload() {
    let world = World::start().await;
    let mut job = template("work");
    job["ParameterizedJob"] = json!({ "Payload": "required" });
    let body = json!({ "Job": job });
    world.put("/v1/jobs", body).await.expect("registered");
    let head = "POST /v1/job/work/dispatch/payload HTTP/1.1";
    let (status, _, answer) = world.raw(head, "hi\n").await;
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let id = answer["DispatchedJobID"].as_str().expect("an id");
    let child = world.get(&format!("/v1/job/{id}")).await.expect("a child");
    assert_eq!(child["Payload"], "AwhoaQo=");
    let (status, _, text) = world.raw(head, &"x".repeat(20_000)).await;
    assert_eq!(
        (status, text.as_str()),
        (400, "Payload exceeds maximum size; 20000 > 16384")
    );
}

#[tokio::test]
async fn concurrent_calls_with_one_token_make_one_child() {
    let world = with_template().await;
    let body = json!({ "Meta": { "who": "me" } });
    let path = "/v1/job/work/dispatch?idempotency_token=t";
    let calls = (0..16).map(|_| world.put(path, body.clone()));
    // The template changes meanwhile, so that some children are built anew.
    let mut changed = template("work");
    changed["Priority"] = json!(60);
    let change = world.put("/v1/jobs", json!({ "Job": changed }));
    let (answers, changed) = tokio::join!(join_all(calls), change);
    changed.expect("registered");
    let answers: Vec<Value> = answers
        .into_iter()
        .map(|answer| answer.expect("dispatched"))
        .collect();
    let of = |name: &str| -> BTreeSet<String> {
        answers.iter().map(|it| it[name].to_string()).collect()
    };
    assert_eq!(of("DispatchedJobID").len(), 1, "{answers:?}");
    assert_eq!(of("JobCreateIndex").len(), 1, "{answers:?}");
    let evals = answers.iter().filter(|it| it["EvalID"] != "").count();
    assert_eq!(evals, 1, "{answers:?}");
    let children = world.get("/v1/jobs?prefix=work/").await.expect("a list");
    assert_eq!(children.as_array().map(Vec::len), Some(1));
    // The purge of the child frees the token.
    let child = answers[0]["DispatchedJobID"].as_str().expect("an id");
    let purge = format!("/v1/job/{child}?purge=true");
    world.delete(&purge).await.expect("purged");
    let again = world.put(path, body).await.expect("dispatched");
    assert_ne!(again["DispatchedJobID"], child);
}

#[tokio::test]
async fn a_dispatch_that_the_template_does_not_take_is_refused() {
    let world = with_template().await;
    let plain = json!({ "Job": service("web") });
    world.put("/v1/jobs", plain).await.expect("registered");
    let good = json!({ "Meta": { "who": "me" } });
    let long = format!(
        "/v1/job/work/dispatch?idempotency_token={}",
        "t".repeat(257)
    );
    let cases = [
        (
            "/v1/job/none/dispatch",
            good.clone(),
            404,
            "parameterized job not found",
        ),
        (
            "/v1/job/web/dispatch",
            good.clone(),
            400,
            "Specified job \"web\" is not a parameterized job",
        ),
        (
            "/v1/job/work/dispatch",
            json!({}),
            400,
            "Dispatch did not provide required meta keys: [who]",
        ),
        (
            "/v1/job/work/dispatch",
            json!({ "Meta": { "who": "me", "b": "", "a": "" } }),
            400,
            "Dispatch request included unpermitted metadata keys: [a b]",
        ),
        (
            "/v1/job/work/dispatch",
            json!({ "Meta": { "who": "me" }, "Priority": 101 }),
            400,
            "dispatch job priority must be between [1, 100]",
        ),
        (
            "/v1/job/work/dispatch",
            json!({ "JobID": "other" }),
            400,
            "Job ID does not match",
        ),
        (
            &long,
            good.clone(),
            400,
            "the idempotency token has 257 bytes: at most 256 are taken",
        ),
    ];
    for (path, body, status, text) in cases {
        let refused = refusal(world.put(path, body).await);
        assert_eq!(refused, (status, text.to_owned()), "{path}");
    }
    world.delete("/v1/job/work").await.expect("stopped");
    let refused = refusal(world.put("/v1/job/work/dispatch", good).await);
    assert_eq!(
        refused,
        (400, "Specified job \"work\" is stopped".to_owned())
    );
}

#[tokio::test]
async fn a_dispatch_that_makes_no_sense_is_refused() {
    let world = with_template().await;
    for (body, text) in [
        (json!({ "Payload": "*" }), "cannot decode the body"),
        (
            json!({ "Meta": { "who": "me" }, "IdPrefixTemplate": "a b" }),
            "contains a space",
        ),
    ] {
        let (status, words) = refusal(world.put("/v1/job/work/dispatch", body).await);
        assert!(status == 400 && words.contains(text), "{status} {words}");
    }
}

#[tokio::test]
async fn a_child_outlives_its_template_and_is_not_forged() {
    let world = with_template().await;
    let body = json!({ "Meta": { "who": "me" } });
    let answer = world
        .put("/v1/job/work/dispatch", body)
        .await
        .expect("dispatched");
    let id = answer["DispatchedJobID"].as_str().expect("an id");
    world
        .delete("/v1/job/work?purge=true")
        .await
        .expect("purged");
    let mut child = world.get(&format!("/v1/job/{id}")).await.expect("a child");
    assert_eq!(child["Stop"], false);
    child["Payload"] = json!("AA==AA==");
    let changed = refusal(world.put("/v1/jobs", json!({ "Job": child })).await);
    assert_eq!(changed, (400, "field 'Payload' is read-only".to_owned()));
    let mut forged = service("work/dispatch-1-forged");
    forged["Dispatched"] = json!(true);
    let forged = refusal(world.put("/v1/jobs", json!({ "Job": forged })).await);
    let text = "job can't be submitted with 'Dispatched' set";
    assert_eq!(forged, (400, text.to_owned()));
}

#[tokio::test]
async fn a_dispatch_of_a_periodic_template_makes_no_evaluation() {
    let world = World::start().await;
    let mut job = template("work");
    job["ParameterizedJob"] = json!({});
    job["Periodic"] = json!({ "Spec": "@yearly", "SpecType": "cron", "Enabled": true });
    let body = json!({ "Job": job });
    world.put("/v1/jobs", body).await.expect("registered");
    let answer = world.put("/v1/job/work/dispatch", json!({})).await;
    let answer = answer.expect("dispatched");
    assert_eq!(
        (&answer["EvalID"], &answer["EvalCreateIndex"]),
        (&json!(""), &json!(0))
    );
    let id = answer["DispatchedJobID"].as_str().expect("an id");
    let child = world.get(&format!("/v1/job/{id}")).await.expect("a child");
    assert_eq!(child["Status"], "running");
}
