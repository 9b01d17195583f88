//! A right that was given or taken away counts with the next request, on every server.

use std::time::Duration;

use controlplane_state::command::AclTokens;
use protocol_client::Query;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Holder, delete, make, policy, token, world};
use crate::three;
use crate::world::{PATIENCE, refusal, service};

const READ: &str = "namespace \"default\" { policy = \"read\" }";

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_query_ends_when_its_token_is_deleted() {
    let (world, _) = world().await;
    let cluster = world.server.cluster().clone();
    policy(&cluster, "read", READ).await;
    let reader = token(&cluster, &["read"]).await;
    let client = reader.of(&world.client);
    let first = client.get::<Value>("/v1/jobs", &Query::new()).await;
    let index = first.expect("a list").index;
    let query = Query::new()
        .with("index", index.to_string())
        .with("wait", "60s");
    let waiting = tokio::spawn(async move { client.get::<Value>("/v1/jobs", &query).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    // A token more wakes nobody who keeps his right.
    token(&cluster, &["read"]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished());
    delete(&cluster, &reader).await;
    let ended = timeout(PATIENCE, waiting).await.expect("it ends");
    let (status, _) = refusal(ended.expect("no panic"));
    assert_eq!(status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_query_is_refused_when_its_policy_loses_the_right() {
    let (world, manager) = world().await;
    let cluster = world.server.cluster().clone();
    let (body, none) = (json!({ "Job": service("web") }), Query::new());
    let registered = manager.put::<_, Value>("/v1/jobs", &none, &body).await;
    registered.expect("registered");
    policy(&cluster, "read", READ).await;
    let reader = token(&cluster, &["read"]).await;
    for path in ["/v1/jobs", "/v1/job/web"] {
        let client = reader.of(&world.client);
        let query = Query::new().with("index", "1000000000").with("wait", "60s");
        let waiting = tokio::spawn(async move { client.get::<Value>(path, &query).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting.is_finished());
        policy(&cluster, "read", "node { policy = \"read\" }").await;
        let ended = timeout(PATIENCE, waiting).await.expect("it ends");
        assert_eq!(refusal(ended.expect("no panic")).0, 403, "{path}");
        policy(&cluster, "read", READ).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_counts_with_the_next_request() {
    let (world, _) = world().await;
    let cluster = world.server.cluster();
    policy(cluster, "changing", READ).await;
    let client = token(cluster, &["changing"]).await.of(&world.client);
    let none = Query::new();
    for _ in 0..20 {
        client
            .get::<Value>("/v1/jobs", &none)
            .await
            .expect("it may");
        policy(cluster, "changing", "node { policy = \"read\" }").await;
        let (status, _) = refusal(client.get::<Value>("/v1/jobs", &none).await);
        assert_eq!(status, 403);
        client
            .get::<Value>("/v1/nodes", &none)
            .await
            .expect("it may");
        policy(cluster, "changing", READ).await;
    }
}

#[tokio::test]
async fn an_expired_token_is_refused_before_it_is_collected() {
    let (world, _) = world().await;
    let cluster = world.server.cluster();
    policy(cluster, "read", READ).await;
    let holder = token(cluster, &["read"]).await;
    let snapshot = cluster.snapshot();
    let mut expired = (**snapshot
        .acl_token(&holder.accessor_id)
        .expect("it is there"))
    .clone();
    expired.accessor_id = uuid::Uuid::new_v4().to_string();
    let secret = uuid::Uuid::new_v4().to_string();
    expired.secret_hash = super::digest(&secret);
    expired.ttl = Some(Duration::from_millis(300));
    let tokens = vec![expired];
    cluster
        .change(AclTokens::Create { tokens }.into())
        .await
        .expect("made");
    let client = world.client.clone().with_token(Some(secret));
    client
        .get::<Value>("/v1/jobs", &Query::new())
        .await
        .expect("it may");
    tokio::time::sleep(Duration::from_millis(400)).await;
    let (status, _) = refusal(client.get::<Value>("/v1/jobs", &Query::new()).await);
    assert_eq!(status, 403);
}

/// A token that was refused a moment before is accepted: it was not made yet, or had no right.
#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_given_count_on_every_server_with_the_next_request() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = three::cluster_with(root.path(), |config| config.acl_enabled = true).await;
    let none = Query::new();
    let ask = async |server: usize, holder: &Holder| {
        let client = holder.of(&three::client(&servers[server]));
        client.get::<Value>("/v1/jobs", &none).await
    };
    for round in 0..10 {
        let [maker, other] = [round % 3, (round + 1) % 3].map(|it| servers[it].cluster());
        policy(maker, "changing", READ).await;
        let holder = Holder::unmade();
        for server in 0..3 {
            assert_eq!(refusal(ask(server, &holder).await).0, 403);
        }
        make(maker, &holder, &["changing"]).await;
        for server in 0..3 {
            ask(server, &holder).await.expect("known at once");
        }
        policy(other, "changing", "node { policy = \"read\" }").await;
        for server in 0..3 {
            assert_eq!(refusal(ask(server, &holder).await).0, 403);
        }
        policy(maker, "changing", READ).await;
        for server in 0..3 {
            ask(server, &holder)
                .await
                .expect("it has the right at once");
        }
    }
}

/// Each server in turn makes a token; each other one knows it with the next request, and refuses it
/// with the first request after the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_count_on_every_server_with_the_next_request() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = three::cluster_with(root.path(), |config| config.acl_enabled = true).await;
    policy(
        servers[0].cluster(),
        "write",
        "namespace \"default\" { policy = \"write\" }",
    )
    .await;
    let none = Query::new();
    let body = json!({ "Job": service("web") });
    for round in 0..30 {
        let maker = servers[round % 3].cluster();
        let holder = token(maker, &["write"]).await;
        for server in &servers {
            let client = holder.of(&three::client(server));
            client
                .get::<Value>("/v1/jobs", &none)
                .await
                .expect("known at once");
        }
        let writer = holder.of(&three::client(&servers[(round + 1) % 3]));
        writer
            .put::<_, Value>("/v1/jobs", &none, &body)
            .await
            .expect("registered");
        delete(servers[(round + 2) % 3].cluster(), &holder).await;
        for server in &servers {
            let client = holder.of(&three::client(server));
            let (status, _) = refusal(client.get::<Value>("/v1/jobs", &none).await);
            assert_eq!(status, 403);
            let answer = client.put::<_, Value>("/v1/jobs", &none, &body).await;
            assert_eq!(refusal(answer).0, 403);
        }
    }
}
