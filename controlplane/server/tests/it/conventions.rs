//! What is the same on every route.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::world::{World, refusal, service};

#[tokio::test]
async fn answers_tell_index_and_leader() {
    let world = World::start().await;
    let answer = world.get_whole("/v1/jobs").await.expect("a list");
    assert!(
        answer.index >= 1,
        "a client would query again at once: {answer:?}"
    );
    assert!(answer.known_leader);
    assert_eq!(answer.last_contact_ms, 0);
    let leader = world.get("/v1/status/leader").await.expect("a leader");
    assert_eq!(
        leader,
        json!(world.server.quic_address().expect("an address").to_string())
    );
    assert_eq!(
        world.get("/v1/status/peers").await.expect("peers"),
        json!([leader])
    );
}

#[tokio::test]
async fn a_read_that_finds_nothing_tells_the_index_to_wait_from() {
    let world = World::start().await;
    let id = "11111111-2222-3333-4444-555555555555";
    for path in [
        "/v1/job/absent".to_owned(),
        "/v1/job/absent/summary".to_owned(),
        "/v1/namespace/absent".to_owned(),
        format!("/v1/allocation/{id}"),
        format!("/v1/node/{id}"),
        format!("/v1/evaluation/{id}"),
        format!("/v1/deployment/{id}"),
    ] {
        let (status, head, _) = world.raw(&format!("GET {path} HTTP/1.1"), "").await;
        assert_eq!(status, 404, "{path}");
        assert!(head.contains("x-nomad-index: "), "{path}: {head}");
        assert!(head.contains("content-type: text/plain"), "{path}: {head}");
    }
    let (status, head, _) = world.raw("GET /v1/nothing HTTP/1.1", "").await;
    assert_eq!((status, head.contains("x-nomad-index")), (404, false));
}

#[tokio::test]
async fn wrong_methods_and_paths_are_refused_in_plain_text() {
    let world = World::start().await;
    let (status, head, body) = world.raw("PATCH /v1/jobs HTTP/1.1", "").await;
    assert_eq!((status, body.as_str()), (405, "Invalid method"));
    assert!(head.contains("content-type: text/plain"), "{head}");
    for path in [
        "DELETE /v1/nodes",
        "PUT /v1/allocations",
        "GET /v1/system/gc",
    ] {
        assert_eq!(
            world.raw(&format!("{path} HTTP/1.1"), "").await.0,
            405,
            "{path}"
        );
    }
    assert_eq!(world.raw("GET /v1/nothing HTTP/1.1", "").await.0, 404);
    assert_eq!(world.raw("GET /v1/services HTTP/1.1", "").await.0, 501);
    let (status, head, _) = world.raw("GET / HTTP/1.1", "").await;
    assert_eq!(status, 307);
    assert!(head.contains("location: /ui/"), "{head}");
    assert_eq!(world.raw("GET /ui/ HTTP/1.1", "").await.0, 404);
}

#[tokio::test]
async fn a_page_of_another_site_gets_nothing() {
    let world = World::start().await;
    let head = "PUT /v1/system/gc HTTP/1.1\r\nSec-Fetch-Site: cross-site";
    assert_eq!(world.raw(head, "").await.0, 403);
    let head = "PUT /v1/system/gc HTTP/1.1\r\nSec-Fetch-Site: same-origin";
    assert_eq!(world.raw(head, "").await.0, 200);
}

#[tokio::test]
async fn put_and_post_are_one() {
    let world = World::start().await;
    for method in ["PUT", "POST"] {
        let body = json!({ "Job": service(method) }).to_string();
        let (status, _, answer) = world
            .raw(&format!("{method} /v1/jobs HTTP/1.1"), &body)
            .await;
        assert_eq!(status, 200, "{answer}");
    }
}

#[tokio::test]
async fn a_blocking_query_returns_when_its_table_changes_and_not_before() {
    let world = World::start().await;
    let index = world.get_whole("/v1/jobs").await.expect("a list").index;
    let path = format!("/v1/jobs?index={index}&wait=300ms");
    let begun = Instant::now();
    let answer = world.get_whole(&path).await.expect("a list");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(answer.index, index, "nothing changed");

    let path = format!("/v1/jobs?index={index}&wait=60s");
    let blocked = world.get_whole(&path);
    let change = world.put("/v1/namespace/other", json!({ "Name": "other" }));
    let register = async {
        change.await.expect("a change of another table");
        world
            .put("/v1/jobs", json!({ "Job": service("web") }))
            .await
            .expect("registered")
    };
    let begun = Instant::now();
    let (answer, _) = tokio::join!(blocked, register);
    let answer = answer.expect("a list");
    assert!(answer.index > index);
    assert_eq!(answer.value[0]["ID"], "web");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn parameters_that_make_no_sense_are_refused() {
    let world = World::start().await;
    let cases = [
        ("/v1/jobs?index=x", 400),
        ("/v1/jobs?index=1&wait=soon", 400),
        ("/v1/jobs?meta=perhaps", 400),
        ("/v1/jobs?per_page=2&next_token=nonsense", 400),
        ("/v1/jobs?filter=ID=x", 400),
        ("/v1/jobs?region=elsewhere", 404),
        ("/v1/allocations?prefix=zz", 400),
        ("/v1/allocation/short", 400),
        ("/v1/allocation/00000000-0000-4000-8000-000000000000", 404),
        ("/v1/evaluation/00000000-0000-4000-8000-000000000000", 404),
        ("/v1/node/00000000-0000-4000-8000-000000000000", 404),
        ("/v1/deployment/00000000-0000-4000-8000-000000000000", 404),
        ("/v1/job/nobody", 404),
        ("/v1/namespace/nobody", 404),
        ("/v1/client/stats", 400),
    ];
    for (path, status) in cases {
        let (code, words) = refusal(world.get(path).await);
        assert_eq!(code, status, "{path}: {words}");
        assert!(!words.is_empty(), "{path}");
    }
    let (_, words) = refusal(world.get("/v1/jobs?region=elsewhere").await);
    assert_eq!(words, "No path to region");
}

#[tokio::test]
async fn a_body_that_is_too_large_or_no_json_is_refused() {
    let world = World::start_with(|config| config.limits.body_bytes = 2048).await;
    let (status, _, _) = world.raw("PUT /v1/jobs HTTP/1.1", &"x".repeat(5000)).await;
    assert_eq!(status, 413);
    for body in ["", "{", "[]", "{\"Job\": null}", "{\"Job\": {\"Type\": 7}}"] {
        let (status, _, words) = world.raw("PUT /v1/jobs HTTP/1.1", body).await;
        assert_eq!(status, 400, "{body}: {words}");
    }
    assert_eq!(world.get("/v1/jobs").await.expect("still there"), json!([]));
}

#[tokio::test]
async fn pretty_answers_have_lines_and_operators_headers_are_added() {
    let world = World::start_with(|config| {
        config.http.response_headers = vec![("X-Cluster".to_owned(), "ours".to_owned())];
    })
    .await;
    let (_, head, body) = world.raw("GET /v1/namespaces?pretty HTTP/1.1", "").await;
    assert!(body.lines().count() > 3, "{body}");
    assert!(head.contains("x-cluster: ours"), "{head}");
    let (_, head, _) = world.raw("GET /v1/nothing HTTP/1.1", "").await;
    assert!(head.contains("x-cluster: ours"), "{head}");
}

#[tokio::test]
async fn the_end_of_the_server_ends_blocking_queries() {
    let world = World::start().await;
    let index = world
        .get_whole("/v1/nodes")
        .await
        .expect("a list")
        .index
        .max(100_000);
    let client = world.client.clone();
    let query = protocol_client::Query::new()
        .with("index", index)
        .with("wait", "10m");
    let blocked =
        tokio::spawn(async move { client.get::<serde_json::Value>("/v1/nodes", &query).await });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    world.server.shutdown().await;
    // Answered or cut off, but over.
    let _ = blocked.await.expect("the query's task ends");
    assert!(begun.elapsed() < Duration::from_secs(10));
}
