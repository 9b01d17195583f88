//! Metrics of requests: counted once, with a label for those who may see it.

use controlplane_server::config::Labels;
use protocol_client::{Client, Query};
use serde_json::{Value, json};

use super::{policy, token, world};
use crate::world::{World, refusal};

const NAME: &str = "nomad.nomad.rpc.job.list";

/// The counters of a name: their labels and counts.
async fn counters(client: &Client, name: &str) -> Vec<(Value, Value)> {
    let answer = client.get::<Value>("/v1/metrics", &Query::new()).await;
    let metrics = answer.expect("it may").value;
    let counters = metrics["Counters"].as_array().expect("a list").iter();
    let named = counters.filter(|counter| counter["Name"] == name);
    named
        .map(|counter| (counter["Labels"].clone(), counter["Count"].clone()))
        .collect()
}

#[tokio::test]
async fn requests_are_counted_by_identity_once_and_when_refused_too() {
    let (world, manager) = world().await;
    let holder = token(world.server.cluster(), &["none"]).await;
    let client = holder.of(&world.client);
    for _ in 0..3 {
        assert_eq!(
            refusal(client.get::<Value>("/v1/jobs", &Query::new()).await).0,
            403
        );
    }
    let bogus = world.client.clone().with_token(Some("bogus".to_owned()));
    refusal(bogus.get::<Value>("/v1/jobs", &Query::new()).await);
    let own = json!({ "identity": format!("token:{}", holder.accessor_id) });
    let address = json!({ "identity": "anonymous:127.0.0.1" });
    let counted = counters(&manager, NAME).await;
    assert_eq!(counted, [(own, json!(3)), (address, json!(1))]);
    let rejected = counters(&manager, "drover.auth.rejected").await;
    assert_eq!(rejected, [(json!({ "reason": "malformed" }), json!(1))]);
    let format = Query::new().with("format", "prometheus");
    let text = manager
        .text("/v1/metrics", &format)
        .await
        .expect("it may")
        .value;
    let line = format!(
        "nomad_nomad_rpc_job_list{{identity=\"token:{}\"}} 3\n",
        holder.accessor_id
    );
    assert!(text.contains(&line), "{text}");
}

#[tokio::test]
async fn identities_are_hidden_from_callers_without_agent_read() {
    let (world, manager) = world().await;
    manager
        .get::<Value>("/v1/jobs", &Query::new())
        .await
        .expect("it may");
    let sum = [(json!({}), json!(1))];
    assert_eq!(counters(&world.client, NAME).await, sum);
    let cluster = world.server.cluster();
    policy(cluster, "agents", "agent { policy = \"read\" }").await;
    policy(cluster, "nodes", "node { policy = \"read\" }").await;
    let blind = token(cluster, &["nodes"]).await.of(&world.client);
    assert_eq!(counters(&blind, NAME).await, sum);
    let seeing = token(cluster, &["agents"]).await.of(&world.client);
    let counted = counters(&seeing, NAME).await;
    let label = counted[0].0["identity"].as_str().expect("a label");
    assert!(label.starts_with("token:"), "{label}");
}

#[tokio::test]
async fn labels_are_left_out_where_the_configuration_says_so() {
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        config.telemetry.labels = Labels::Off;
    })
    .await;
    let manager = token(world.server.cluster(), &[]).await.of(&world.client);
    manager
        .get::<Value>("/v1/jobs", &Query::new())
        .await
        .expect("it may");
    assert_eq!(counters(&manager, NAME).await, [(json!({}), json!(1))]);
}

#[tokio::test]
async fn metrics_need_agent_read_where_the_configuration_says_so() {
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        config.telemetry.metrics_require_token = true;
    })
    .await;
    assert_eq!(refusal(world.get("/v1/metrics").await).0, 403);
    let manager = token(world.server.cluster(), &[]).await.of(&world.client);
    counters(&manager, NAME).await;
}

#[tokio::test]
async fn requests_are_counted_where_access_control_is_off() {
    let world = World::start().await;
    world.get("/v1/jobs").await.expect("served");
    assert_eq!(counters(&world.client, NAME).await, [(json!({}), json!(1))]);
}
