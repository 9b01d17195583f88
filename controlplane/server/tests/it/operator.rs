//! Operators' routes: members, snapshots, settings, garbage, nodes' switches, metrics.

use protocol_client::Query;
use serde_json::json;

use crate::fake_node::FakeNode;
use crate::world::{World, refusal, service};

#[tokio::test]
async fn the_server_shows_itself_and_its_peers() {
    let world = World::start().await;
    let own = world.get("/v1/agent/self").await.expect("itself");
    assert_eq!(own["config"]["Region"], "global");
    assert_eq!(own["stats"]["raft"]["state"], "Leader");
    let members = world.get("/v1/agent/members").await.expect("members");
    assert_eq!(members["Members"][0]["Status"], "alive");
    let tags = &members["Members"][0]["Tags"];
    assert_eq!(
        (&tags["raft_vsn"], &tags["dc"]),
        (&json!("3"), &json!("dc1"))
    );
    let health = world.get("/v1/agent/health").await.expect("health");
    assert_eq!(health["server"]["ok"], json!(true));
    let client = world.get("/v1/agent/health?type=client").await;
    assert_eq!(client.expect("it has no node"), json!({}));
    assert_eq!(
        world.get("/v1/regions").await.expect("regions"),
        json!(["global"])
    );
    let raft = world
        .get("/v1/operator/raft/configuration")
        .await
        .expect("the members");
    assert_eq!(raft["Servers"][0]["Leader"], json!(true));
    let id = raft["Servers"][0]["ID"].as_str().expect("an id").to_owned();
    let removed = world
        .delete(&format!("/v1/operator/raft/peer?id={id}"))
        .await;
    assert_eq!(refusal(removed).0, 400, "the last voter stays");
    let transfer = world
        .put("/v1/operator/raft/transfer-leadership", json!({}))
        .await;
    assert_eq!(refusal(transfer).0, 400, "there is nobody to hand it to");
}

#[tokio::test]
async fn a_snapshot_is_whole_and_says_its_digest() {
    let world = World::start().await;
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    let mut stream = world
        .client
        .stream("/v1/operator/snapshot", &Query::new())
        .await
        .expect("a stream");
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await.expect("a part") {
        bytes.extend_from_slice(&part);
    }
    let summary = controlplane_state::checkpoint::inspect(&bytes[..]).expect("a checkpoint");
    let restored = controlplane_state::State::restore(&bytes[..]).expect("a state");
    assert_eq!(summary.index, restored.tables().index());
    assert_eq!(restored.tables().jobs().count(), 1);
}

#[tokio::test]
async fn the_scheduler_is_configured_with_check_and_set() {
    let world = World::start().await;
    let path = "/v1/operator/scheduler/configuration";
    let found = world.get(path).await.expect("settings");
    assert_eq!(found["SchedulerConfig"]["SchedulerAlgorithm"], "binpack");
    let index = found["SchedulerConfig"]["ModifyIndex"]
        .as_u64()
        .expect("an index");
    let wanted = json!({ "SchedulerAlgorithm": "spread", "RejectJobRegistration": true });
    let stale = world
        .put(&format!("{path}?cas={}", index + 1), wanted.clone())
        .await;
    assert_eq!(refusal(stale).0, 409);
    world
        .put(&format!("{path}?cas={index}"), wanted)
        .await
        .expect("is taken");
    let found = world.get(path).await.expect("settings");
    assert_eq!(found["SchedulerConfig"]["SchedulerAlgorithm"], "spread");
    let refused = world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await;
    assert_eq!(refusal(refused).0, 403, "registrations are switched off");
    let wrong = world
        .put(path, json!({ "SchedulerAlgorithm": "guess" }))
        .await;
    assert_eq!(refusal(wrong).0, 400);
    let unused = json!({ "NodeLimitForFeasibilityChecks": 50 });
    let written = world.put(path, unused).await.expect("set");
    let warning = "NodeLimitForFeasibilityChecks has no effect: every node is looked at";
    assert_eq!(written["Warnings"], warning);
    let found = world.get(path).await.expect("the settings");
    let limit = &found["SchedulerConfig"]["NodeLimitForFeasibilityChecks"];
    assert_eq!(limit, 50);
}

#[tokio::test]
async fn garbage_is_collected_on_demand() {
    let world = World::start().await;
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    world
        .delete("/v1/job/web?purge=true")
        .await
        .expect("purged");
    world
        .until(|snapshot| {
            snapshot.evals().all(|eval| eval.status.is_terminal()) && snapshot.evals().count() > 0
        })
        .await;
    world
        .put("/v1/system/gc", json!({}))
        .await
        .expect("collected");
    assert_eq!(
        world.get("/v1/evaluations").await.expect("a list"),
        json!([])
    );
}

#[tokio::test]
async fn a_node_is_switched_off_and_on_and_forgotten() {
    let world = World::start().await;
    let node = FakeNode::join(&world).await;
    let path = format!("/v1/node/{}", node.id);
    let list = world
        .get("/v1/nodes?resources=true&os=true")
        .await
        .expect("a list");
    assert_eq!(list[0]["Status"], "ready");
    assert_eq!(list[0]["NodeResources"]["Memory"]["MemoryMB"], 8192);
    let off = json!({ "Eligibility": "ineligible" });
    world
        .put(&format!("{path}/eligibility"), off)
        .await
        .expect("is switched");
    let shown = world.get(&path).await.expect("the node");
    assert_eq!(shown["SchedulingEligibility"], "ineligible");
    assert_eq!(shown["Resources"]["MemoryMB"], 8192);
    assert_eq!(shown["Reserved"]["MemoryMB"], 0);
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    world
        .until(|snapshot| snapshot.evals().any(|eval| eval.blocked_eval.is_some()))
        .await;
    let on = json!({ "Eligibility": "eligible" });
    world
        .put(&format!("{path}/eligibility"), on)
        .await
        .expect("is switched");
    world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let evaluated = world
        .put(&format!("{path}/evaluate"), json!({}))
        .await
        .expect("evaluated");
    assert_eq!(evaluated["EvalIDs"].as_array().map(Vec::len), Some(1));
    let wrong = world
        .put(
            &format!("{path}/eligibility"),
            json!({ "Eligibility": "maybe" }),
        )
        .await;
    assert_eq!(refusal(wrong).0, 400);
    world
        .put(&format!("{path}/purge"), json!({}))
        .await
        .expect("forgotten");
    assert_eq!(
        refusal(world.get(&path).await),
        (404, "node not found".to_owned())
    );
}

#[tokio::test]
async fn metrics_come_as_json_and_for_prometheus() {
    let world = World::start().await;
    world
        .put("/v1/jobs", json!({ "Job": service("web") }))
        .await
        .expect("registered");
    let metrics = world.get("/v1/metrics").await.expect("metrics");
    let gauge = |name: &str| {
        let all = metrics["Gauges"].as_array().expect("a list");
        let found = all.iter().find(|gauge| gauge["Name"] == name);
        found.map(|gauge| gauge["Value"].as_f64().expect("a number"))
    };
    assert!(gauge("nomad.raft.appliedIndex") > Some(0.0));
    assert!(gauge("nomad.nomad.broker.total_ready").is_some());
    for status in ["initializing", "ready", "down", "disconnected"] {
        assert_eq!(gauge(&format!("drover.nodes.{status}")), Some(0.0));
    }
    let (status, head, text) = world
        .raw("GET /v1/metrics?format=prometheus HTTP/1.1", "")
        .await;
    assert_eq!(status, 200);
    assert!(head.contains("version=0.0.4"), "{head}");
    assert!(
        text.contains("# TYPE nomad_raft_appliedIndex gauge\n"),
        "{text}"
    );
}
