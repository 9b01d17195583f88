//! A change of a node's metadata wakes the evaluations that wait for it.

use protocol_model::{EvalStatus, Node};
use protocol_wire::v1;
use serde_json::json;

use crate::fake_node::FakeNode;
use crate::world::{World, service};

/// The facts of node 1 with this metadata.
fn facts(rack: &str) -> Node {
    let mut facts = hack_testkit::nodes::node(1);
    facts.meta.insert("rack".to_owned(), rack.to_owned());
    facts
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_metadata_places_the_job_whose_constraint_it_fulfils() {
    let world = World::start().await;
    let (server, root) = (&world.server, world.data_dir());
    let mut node = FakeNode::join_with(server, &root, facts("r1")).await;
    let mut job = service("web");
    job["Constraints"] = json!([{ "LTarget": "${meta.rack}", "RTarget": "r2", "Operand": "=" }]);
    let registered = world.put("/v1/jobs", json!({ "Job": job })).await;
    registered.expect("registered");
    let blocked = |status| status == EvalStatus::Blocked;
    world
        .until(|snapshot| snapshot.evals().any(|eval| blocked(eval.status)))
        .await;
    for rack in ["r3", "r2"] {
        assert_eq!(server.cluster().snapshot().allocs().count(), 0, "{rack}");
        let json = serde_json::to_vec(&facts(rack)).expect("facts are JSON");
        let update = v1::FactsUpdate {
            epoch: node.epoch(),
            facts: Some(v1::NodeFacts { json: json.into() }),
        };
        node.say(&update).await;
        let _: v1::FactsAck = node.hear().await;
    }
    let placed = world
        .until(|snapshot| snapshot.allocs().next().is_some())
        .await;
    let alloc = placed.allocs().next().expect("one");
    assert_eq!((alloc.node_id, alloc.job_id.as_str()), (node.id, "web"));
}
