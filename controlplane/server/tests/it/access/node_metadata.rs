//! Metadata of nodes: who reads it, who changes it, and which node is meant.

use protocol_client::{Client, Query};
use serde_json::{Value, json};

use super::{policy, token, world};
use crate::fake_node::FakeNode;
use crate::world::refusal;

const PATH: &str = "/v1/client/metadata";

async fn apply(client: &Client, query: &Query, body: Value) -> Result<Value, (u16, String)> {
    let applied = client.put::<_, Value>(PATH, query, &body).await;
    match applied {
        Ok(answer) => Ok(answer.value),
        Err(error) => Err(refusal::<Value>(Err(error))),
    }
}

#[tokio::test]
async fn node_read_reads_metadata_and_node_write_changes_it() {
    let (world, manager) = world().await;
    let cluster = world.server.cluster();
    let node = FakeNode::join(&world).await;
    let query = Query::new().with("node_id", node.id);
    let body = json!({ "Meta": { "rack": "r2", "gone": null } });
    let denied = (403, "Permission denied".to_owned());
    for (name, rules, reads, writes) in [
        (
            "n",
            "namespace \"default\" { policy = \"write\" }",
            false,
            false,
        ),
        ("r", "node { policy = \"read\" }", true, false),
        ("w", "node { policy = \"write\" }", true, true),
    ] {
        policy(cluster, name, rules).await;
        let caller = token(cluster, &[name]).await.of(&world.client);
        match caller.get::<Value>(PATH, &query).await {
            Ok(answer) => {
                assert!(reads, "{rules}");
                assert_eq!(answer.value["Meta"], json!({ "rack": "r1" }));
            }
            Err(error) => {
                assert!(!reads, "{rules}");
                assert_eq!(refusal::<Value>(Err(error)), denied, "{rules}");
            }
        }
        match apply(&caller, &query, body.clone()).await {
            Ok(answer) => {
                assert!(writes, "{rules}");
                assert_eq!(answer["Dynamic"], body["Meta"]);
            }
            Err(refused) => {
                assert!(!writes, "{rules}");
                assert_eq!(refused, denied, "{rules}");
            }
        }
    }
    let nothing = apply(&manager, &query, json!({ "Meta": {} })).await;
    let missing = "missing required Meta object".to_owned();
    assert_eq!(nothing, Err((400, missing)), "the node's own refusal");
}

#[tokio::test]
async fn the_body_names_the_node_before_the_url_and_one_is_needed() {
    let (world, manager) = world().await;
    let node = FakeNode::join(&world).await;
    let meta = json!({ "rack": "r2" });
    let none = Query::new();
    let refused = apply(&manager, &none, json!({ "Meta": meta })).await;
    let (status, words) = refused.expect_err("no node is named");
    assert_eq!(status, 400);
    assert!(words.contains("must provide ?node_id"), "{words}");
    let body = json!({ "NodeID": node.id, "Meta": meta });
    let other = Query::new().with("node_id", "0e000000-0000-4000-8000-0000000000ff");
    for query in [none, other] {
        let applied = apply(&manager, &query, body.clone())
            .await
            .expect("applied");
        assert_eq!(applied["Dynamic"], meta);
    }
}
