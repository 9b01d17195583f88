//! Dynamic metadata: changed by calls, told to the server, kept over a restart of noded.

use protocol_model::{Node, NodeMetadata};
use protocol_wire::v1;
use protocol_wire::v1::node_reply::Reply;
use protocol_wire::v1::node_request::Request;

use crate::scene::{Scene, can_run};

async fn metadata(scene: &Scene, request: Request) -> NodeMetadata {
    let replies = scene.server.call(None, request).await.unwrap();
    match replies.as_slice() {
        [Reply::Json(bytes)] => serde_json::from_slice(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn apply(changes: &[(&str, Option<&str>)]) -> Request {
    let change = |(key, value): &(&str, Option<&str>)| v1::MetaChange {
        key: (*key).to_owned(),
        value: value.map(str::to_owned),
    };
    Request::ApplyMeta(v1::ApplyMetaRequest {
        changes: changes.iter().map(change).collect(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_metadata_reaches_the_server_and_outlives_noded() {
    if !can_run() {
        return;
    }
    let mut scene = Scene::new();
    scene
        .server
        .until("a sync", |known| known.synced.len() == 1)
        .await;
    let read = || Request::ReadMeta(v1::ReadMetaRequest {});
    let before = metadata(&scene, read()).await;
    assert_eq!(
        (before.dynamic.len(), &before.meta),
        (0, &before.configured)
    );

    let applied = metadata(&scene, apply(&[("rack", Some("r7")), ("no.such", None)])).await;
    assert_eq!(applied.meta["rack"], "r7");
    assert_eq!(applied.dynamic["no.such"], None);
    let told = |known: &crate::fake_server::Known| {
        let last = known.facts.last();
        last.is_some_and(|facts| facts.meta.get("rack").is_some_and(|rack| rack == "r7"))
    };
    scene.server.until("the new metadata", told).await;

    let refused = scene.server.call(None, apply(&[("7up", Some("x"))])).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.status, 400, "{}", refused.message);
    assert!(refused.message.contains("7up"), "{}", refused.message);

    scene.kill();
    scene.start();
    let known = scene
        .server
        .until("another sync", |known| known.synced.len() > 1)
        .await;
    let hello = known.hellos.last().expect("a Hello");
    let facts: Node = serde_json::from_slice(&hello.facts.as_ref().unwrap().json).unwrap();
    assert_eq!(facts.meta["rack"], "r7", "without another call");
    let after = metadata(&scene, read()).await;
    assert_eq!(after.meta, applied.meta);
    assert!(
        !after.dynamic.contains_key("no.such"),
        "nothing is hidden by it"
    );
}
