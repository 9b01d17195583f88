//! `/v1/var` and `/v1/vars`: what is written, read back, listed, waited for and refused.

mod foreign;
mod locks;
mod rights;
mod swapped;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::three::{client, cluster};
use crate::world::{World, refusal};

fn items(value: &str) -> Value {
    json!({ "Items": { "key": value } })
}

/// The status and the JSON of an answer.
async fn put(world: &World, path: &str, body: Value) -> (u16, Value) {
    let head = format!("PUT {path} HTTP/1.1");
    let (status, _, answer) = world.raw(&head, &body.to_string()).await;
    (
        status,
        serde_json::from_str(&answer).unwrap_or(Value::String(answer)),
    )
}

async fn delete(world: &World, path: &str) -> (u16, String) {
    let (status, _, answer) = world.raw(&format!("DELETE {path} HTTP/1.1"), "").await;
    (status, answer)
}

#[tokio::test]
async fn a_variable_is_read_as_it_was_written_and_deleted() {
    let world = World::start().await;
    let missing = (404, "variable not found".to_owned());
    assert_eq!(refusal(world.get("/v1/var/app/db").await), missing);
    // The path and the namespace of the body count for nothing, and for the namespace.
    let body = json!({ "Path": "other", "Namespace": "", "Items": { "a": "1", "b": "" } });
    let (status, written) = put(&world, "/v1/var/app/db", body).await;
    assert_eq!(status, 200, "{written}");
    assert_eq!(written["Path"], "app/db");
    assert_eq!(written["Namespace"], "default");
    assert_eq!(written["Items"], json!({ "a": "1", "b": "" }));
    assert!(written.get("Lock").is_none(), "{written}");
    let read = world.get_whole("/v1/var/app/db").await.expect("it is read");
    assert_eq!(read.value, written);
    assert_eq!(Some(read.index), written["ModifyIndex"].as_u64());
    // A slash may be escaped, and one at the end is part of the path.
    let escaped = world.get("/v1/var/app%2Fdb").await;
    assert_eq!(escaped.expect("it is read"), written);
    assert_eq!(refusal(world.get("/v1/var/app/db/").await), missing);
    // Unchanged items still write.
    let body = json!({ "Items": { "a": "1", "b": "" } });
    let (_, again) = put(&world, "/v1/var/app/db", body).await;
    assert!(again["ModifyIndex"].as_u64() > written["ModifyIndex"].as_u64());
    assert_eq!(again["CreateIndex"], written["CreateIndex"]);
    for _ in 0..2 {
        let deleted = delete(&world, "/v1/var/app/db").await;
        assert_eq!(deleted, (204, String::new()));
    }
    assert_eq!(refusal(world.get("/v1/var/app/db").await), missing);
}

#[tokio::test]
async fn check_and_set_answers_409_with_the_present_variable() {
    let world = World::start().await;
    let (status, made) = put(&world, "/v1/var/app?cas=0", items("1")).await;
    assert_eq!(status, 200, "{made}");
    let conflict = put(&world, "/v1/var/app?cas=0", items("2")).await;
    assert_eq!(conflict, (409, made.clone()));
    let (status, none) = put(&world, "/v1/var/other?cas=9", items("2")).await;
    assert_eq!(status, 409);
    assert_eq!(
        (&none["Path"], &none["ModifyIndex"], &none["Items"]),
        (&json!("other"), &json!(0), &Value::Null)
    );
    let index = made["ModifyIndex"].as_u64().expect("an index");
    let (status, answer) = delete(&world, &format!("/v1/var/app?cas={}", index + 1)).await;
    assert_eq!(status, 409);
    assert_eq!(serde_json::from_str::<Value>(&answer).expect("JSON"), made);
    let path = format!("/v1/var/app?cas={index}");
    let (status, second) = put(&world, &path, items("2")).await;
    assert_eq!((status, &second["Items"]["key"]), (200, &json!("2")));
    let index = second["ModifyIndex"].as_u64().expect("an index");
    let deleted = delete(&world, &format!("/v1/var/app?cas={index}")).await;
    assert_eq!(deleted.0, 204);
}

#[tokio::test]
async fn requests_with_mistakes_are_refused_in_nomads_words() {
    let world = World::start().await;
    let large = json!({ "Items": { "k": "v".repeat(64 * 1024) } });
    for (path, body, text) in [
        ("/v1/var/", items("1"), "missing variable path"),
        (
            "/v1/var/a",
            json!({}),
            "variable missing required Items object",
        ),
        (
            "/v1/var/a",
            json!({ "Items": {} }),
            "empty variables are invalid",
        ),
        (
            "/v1/var/a",
            large,
            "variables are limited to 64KiB in total size",
        ),
        ("/v1/var/a.b", items("1"), "invalid path \"a.b\""),
        (
            "/v1/var/nomad/x",
            items("1"),
            "only paths at \"nomad/jobs\" or \"nomad/job-templates\" and below are valid paths under the top-level \"nomad\" directory",
        ),
        (
            "/v1/var/a?cas=x",
            items("1"),
            "can not parse cas: \"x\" is not an index",
        ),
        (
            "/v1/var/a?namespace=*",
            items("1"),
            "can not target wildcard (\"*\")namespace",
        ),
        (
            "/v1/var/a?namespace=none",
            items("1"),
            "namespace \"none\" not found",
        ),
        (
            "/v1/var/a?lock-acquire&cas=1",
            items("1"),
            "CAS can't be used with lock operations",
        ),
        (
            "/v1/var/a?lock-acquire&lock-renew",
            items("1"),
            "multiple lock operations",
        ),
        (
            "/v1/var/a",
            json!({ "Items": { "k": "v" }, "Lock": { "TTL": "20s" } }),
            "variable should not contain lock definition",
        ),
    ] {
        let refused = put(&world, path, body).await;
        assert_eq!(refused, (400, json!(text)), "{path}");
    }
}

#[tokio::test]
async fn bodies_of_another_shape_are_refused() {
    let world = World::start().await;
    let (status, answer) = put(&world, "/v1/var/a", json!({ "Items": { "k": 1 } })).await;
    assert_eq!(status, 400);
    assert!(
        answer
            .as_str()
            .expect("a text")
            .contains("the value of \"k\" is no text"),
        "{answer}"
    );
    let (status, _, answer) = world.raw("PUT /v1/var/a HTTP/1.1", "").await;
    assert_eq!((status, answer.as_str()), (400, "the request has no body"));
    let wildcard = refusal(world.get("/v1/var/a?namespace=*").await);
    assert_eq!(wildcard.0, 400);
}

#[tokio::test]
async fn lists_are_sorted_filtered_paged_and_without_items() {
    let world = World::start().await;
    let empty = world.get_whole("/v1/vars").await.expect("a list");
    assert_eq!((empty.value, empty.index), (json!([]), 1));
    world
        .put("/v1/namespace", json!({ "Name": "dev" }))
        .await
        .expect("a namespace");
    for path in ["b/2", "a", "b/1"] {
        put(&world, &format!("/v1/var/{path}"), items("secret")).await;
    }
    put(&world, "/v1/var/b/3?namespace=dev", items("secret")).await;
    let list = async |query: &str| {
        let answer = world.get_whole(&format!("/v1/vars{query}")).await;
        let answer = answer.expect("a list");
        assert!(!answer.value.to_string().contains("secret"));
        let rows = answer.value.as_array().expect("a list").clone();
        let paths = rows
            .iter()
            .map(|it| it["Path"].as_str().expect("a path").to_owned());
        (paths.collect::<Vec<_>>(), answer.next_token)
    };
    assert_eq!(list("").await.0, ["a", "b/1", "b/2"]);
    assert_eq!(list("?namespace=*").await.0, ["a", "b/1", "b/2", "b/3"]);
    assert_eq!(list("?prefix=b").await.0, ["b/1", "b/2"]);
    assert_eq!(list("?prefix=b&namespace=*").await.0, ["b/1", "b/2", "b/3"]);
    assert_eq!(list("?filter=Path == a").await.0, ["a"]);
    let (first, token) = list("?per_page=3&namespace=*").await;
    assert_eq!(first, ["a", "b/1", "b/2"]);
    let token = token.expect("there is more");
    let rest = list(&format!("?per_page=3&namespace=*&next_token={token}")).await;
    assert_eq!(rest, (vec!["b/3".to_owned()], None));
    let (page, token) = list("?per_page=1&prefix=b").await;
    assert_eq!(
        (page, token.as_deref()),
        (vec!["b/1".to_owned()], Some("default.b/2"))
    );
}

#[tokio::test]
async fn a_waiting_read_wakes_for_its_own_variable_alone() {
    let world = World::start().await;
    let (_, made) = put(&world, "/v1/var/app", items("1")).await;
    let index = made["ModifyIndex"].as_u64().expect("an index");
    let waits = |path: &'static str, index: u64| {
        let client = world.client.clone();
        tokio::spawn(async move {
            let query = protocol_client::Query::new().with("wait", "60s");
            client.get::<Value>(path, &query.with("index", index)).await
        })
    };
    let changed = waits("/v1/var/app", index);
    let missing = {
        let answer = world.raw("GET /v1/var/new HTTP/1.1", "").await;
        let line = answer.1.to_lowercase();
        let index = line.split("x-nomad-index: ").nth(1).expect("an index");
        index.split("\r\n").next().expect("a line").to_owned()
    };
    let made = waits("/v1/var/new", missing.parse().expect("an index"));
    for number in 0..20 {
        put(&world, &format!("/v1/var/noise/{number}"), items("1")).await;
    }
    assert!(!changed.is_finished() && !made.is_finished());
    let (_, second) = put(&world, "/v1/var/app", items("2")).await;
    let woken = timeout(Duration::from_secs(30), changed)
        .await
        .expect("it wakes");
    let woken = woken.expect("it ends").expect("it is read");
    assert_eq!(woken.value, second);
    assert!(!made.is_finished());
    put(&world, "/v1/var/new", items("3")).await;
    let woken = timeout(Duration::from_secs(30), made)
        .await
        .expect("it wakes");
    let woken = woken.expect("it ends").expect("it is read");
    assert_eq!(woken.value["Items"]["key"], "3");
    // A deletion wakes the variable's readers, too.
    let index = woken.index;
    let gone = waits("/v1/var/new", index);
    delete(&world, "/v1/var/new").await;
    let woken = timeout(Duration::from_secs(30), gone)
        .await
        .expect("it wakes");
    let status = woken.expect("it ends").expect_err("it is gone").status();
    assert_eq!(status, Some(404));
}

#[tokio::test]
async fn a_full_namespace_names_its_limit_and_is_not_deleted() {
    let world = World::start().await;
    let namespace = json!({ "Name": "dev", "VariablesBytesMax": 100 });
    world
        .put("/v1/namespace", namespace)
        .await
        .expect("written");
    let (status, _) = put(&world, "/v1/var/a?namespace=dev", items("1")).await;
    assert_eq!(status, 200);
    let refused = put(&world, "/v1/var/b?namespace=dev", items(&"x".repeat(100))).await;
    assert_eq!(refused.0, 400);
    let text = refused.1.as_str().expect("a text").to_owned();
    assert!(
        text.starts_with("variables of namespace \"dev\" would take ")
            && text.ends_with(" bytes: at most 100 are kept"),
        "{text}"
    );
    let held = refusal(world.delete("/v1/namespace/dev").await);
    let text = "namespace \"dev\" has variables associated with it in regions: [global] (1)";
    assert_eq!(held, (400, text.to_owned()));
    delete(&world, "/v1/var/a?namespace=dev").await;
    world.delete("/v1/namespace/dev").await.expect("deleted");
}

#[tokio::test]
async fn variables_are_searched_by_their_paths() {
    let world = World::start().await;
    put(&world, "/v1/var/app/db", items("1")).await;
    let body = json!({ "Prefix": "app", "Context": "vars" });
    let found = world.put("/v1/search", body).await.expect("found");
    assert_eq!(found["Matches"]["vars"], json!(["app/db"]));
    let body = json!({ "Text": "DB", "Context": "all" });
    let found = world.put("/v1/search/fuzzy", body).await.expect("found");
    assert_eq!(found["Matches"]["vars"][0]["ID"], "app/db");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_was_acknowledged_is_read_on_every_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = cluster(directory.path()).await;
    let leader = client(&servers[0]);
    let query = protocol_client::Query::new();
    let written: Value = leader
        .put("/v1/var/app", &query, &items("1"))
        .await
        .expect("written")
        .value;
    for server in &servers {
        let read = client(server).get::<Value>("/v1/var/app", &query).await;
        assert_eq!(read.expect("it opens here").value, written);
    }
}
