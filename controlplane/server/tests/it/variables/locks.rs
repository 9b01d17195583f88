//! Locks over HTTP: acquired, renewed, released, and what others get meanwhile.

use serde_json::{Value, json};

use super::{delete, items, put};
use crate::three::{client, cluster};
use crate::world::World;

fn of(id: &Value) -> Value {
    json!({ "Lock": { "ID": id } })
}

#[tokio::test]
async fn a_lock_is_acquired_renewed_and_released() {
    let world = World::start().await;
    let body = json!({ "Items": { "k": "v" }, "Lock": { "TTL": "20s", "LockDelay": "1s" } });
    let (status, acquired) = put(&world, "/v1/var/app?lock-acquire", body).await;
    assert_eq!(status, 200, "{acquired}");
    let lock = &acquired["Lock"];
    assert_eq!(
        (&lock["TTL"], &lock["LockDelay"]),
        (&json!("20s"), &json!("1s"))
    );
    let id = lock["ID"].clone();
    assert!(id.is_string(), "{acquired}");
    // A renewal moves no index and answers metadata.
    let (status, renewed) = put(&world, "/v1/var/app?lock-renew", of(&id)).await;
    assert_eq!((status, &renewed["Lock"]["ID"]), (200, &id), "{renewed}");
    assert_eq!(renewed["ModifyIndex"], acquired["ModifyIndex"]);
    assert!(renewed.get("Items").is_none(), "{renewed}");
    // Others get a variable that shows its name alone.
    for (path, body) in [
        ("/v1/var/app", items("2")),
        ("/v1/var/app?lock-acquire", items("2")),
    ] {
        let (status, answer) = put(&world, path, body).await;
        assert_eq!((status, &answer["ModifyIndex"]), (409, &json!(0)), "{path}");
        assert_eq!(answer["Path"], "app");
        assert!(answer["Items"].is_null(), "{answer}");
    }
    assert_eq!(delete(&world, "/v1/var/app").await.0, 409);
    // Its holder writes and keeps the lock.
    let mut body = items("3");
    body["Lock"] = json!({ "ID": id });
    let (status, written) = put(&world, "/v1/var/app", body).await;
    assert_eq!((status, &written["Lock"]["ID"]), (200, &id), "{written}");
    let (status, released) = put(&world, "/v1/var/app?lock-release", of(&id)).await;
    assert_eq!(status, 200, "{released}");
    assert!(released["Items"].is_null() && released.get("Lock").is_none());
    let read = world.get("/v1/var/app").await.expect("it is read");
    assert_eq!(read["Items"]["key"], "3");
}

#[tokio::test]
async fn lock_operations_with_mistakes_are_refused_in_nomads_words() {
    let world = World::start().await;
    let other = json!("11111111-2222-3333-4444-555555555555");
    let missing = json!("variable doesn't exist");
    for operation in ["lock-renew", "lock-release"] {
        let path = format!("/v1/var/app?{operation}");
        let answer = put(&world, &path, of(&other)).await;
        assert_eq!(answer, (404, missing.clone()), "{operation}");
        let answer = put(&world, &path, json!({})).await;
        assert_eq!(answer, (400, json!("missing lock information")));
    }
    put(&world, "/v1/var/app", items("1")).await;
    for operation in ["lock-renew", "lock-release"] {
        let path = format!("/v1/var/app?{operation}");
        let answer = put(&world, &path, of(&other)).await;
        assert_eq!(answer, (409, json!("variable doesn't hold a lock")));
    }
    let (status, acquired) = put(&world, "/v1/var/app?lock-acquire", json!({})).await;
    assert_eq!(status, 200, "{acquired}");
    assert_eq!(acquired["Items"]["key"], "1", "its items are kept");
    for operation in ["lock-renew", "lock-release"] {
        let path = format!("/v1/var/app?{operation}");
        let answer = put(&world, &path, of(&other)).await;
        assert_eq!(answer, (409, json!("attempting to modify locked variable")));
    }
    let mut body = of(&acquired["Lock"]["ID"]);
    body["Items"] = json!({ "k": "v" });
    let answer = put(&world, "/v1/var/app?lock-release", body).await;
    let text = "lock release operation doesn't take variable items";
    assert_eq!(answer, (400, json!(text)));
    let short = json!({ "Lock": { "TTL": "9s" } });
    let answer = put(&world, "/v1/var/b?lock-acquire", short).await;
    assert_eq!(
        answer,
        (400, json!("TTL must be between 10 seconds and 24 hours"))
    );
}

#[tokio::test]
async fn lock_is_acquired_by_one_of_fifty_at_a_time() {
    let world = World::start().await;
    let asked = (0..50).map(|_| put(&world, "/v1/var/app?lock-acquire", json!({})));
    let answers = futures::future::join_all(asked).await;
    let won = answers.iter().filter(|(status, _)| *status == 200).count();
    let lost = answers.iter().filter(|(status, _)| *status == 409).count();
    assert_eq!((won, lost), (1, 49));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_renewed_through_every_server() {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = cluster(directory.path()).await;
    let acquire = protocol_client::Query::new().with("lock-acquire", "");
    let first = client(&servers[0]);
    let acquired: Value = first
        .put("/v1/var/app", &acquire, &json!({}))
        .await
        .expect("it is free")
        .value;
    let renew = protocol_client::Query::new().with("lock-renew", "");
    let body = of(&acquired["Lock"]["ID"]);
    for server in &servers {
        let client = client(server);
        let renewed: Value = client
            .put("/v1/var/app", &renew, &body)
            .await
            .expect("it is renewed")
            .value;
        assert_eq!(renewed["ModifyIndex"], acquired["ModifyIndex"]);
    }
}
