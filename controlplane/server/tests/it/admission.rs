//! More nodes want a session than the server serves at a time: operators see it, heartbeats become
//! rarer, and those that wait come in.

use std::time::Duration;

use controlplane_server::dev;
use protocol_transport::door::{Wish, WishKind};
use protocol_transport::{Endpoint, EndpointConfig, Identity, Region};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::fake_node::FakeNode;
use crate::world::{PATIENCE, World};

/// Sessions that are made at a time, at first.
const PLACES: usize = 32;

fn endpoint(world: &World) -> Endpoint {
    let made = dev::certificates(&world.data_dir(), &Region::global()).expect("certificates");
    let identity = Identity::load(&made.ca, &made.node.certificate, &made.node.key);
    let identity = identity.expect("an identity");
    Endpoint::bind(&EndpointConfig::loopback(identity)).expect("an endpoint")
}

async fn admission(world: &World) -> Value {
    let agent = world.get("/v1/agent/self").await.expect("an answer");
    agent["stats"]["admission"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_wait_are_seen_and_come_in() {
    let world = World::start().await;
    let mut live = FakeNode::join(&world).await;
    assert_eq!(live.heartbeat(1).await.pace_ms, 0);
    let address = world.server.quic_address().expect("an address");
    let nodes = endpoint(&world);
    let wish = Wish {
        patience: Duration::from_secs(20),
        ..Wish::new(WishKind::Session)
    };
    // They never say Hello.
    let mut connections = Vec::new();
    for _ in 0..PLACES {
        let connection = nodes.connect_wishing(address, wish).await;
        connections.push(connection.expect("connects"));
    }
    let waiting = tokio::spawn(async move { nodes.connect_wishing(address, wish).await });
    let mut tick = 1;
    let seen = timeout(PATIENCE, async {
        loop {
            let admission = admission(&world).await;
            tick += 1;
            let paced = live.heartbeat(tick).await.pace_ms > 0;
            if admission["slow"] == "1" && admission["waiting"] == "1" && paced {
                return admission;
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    let seen = seen.await.expect("in time");
    assert_eq!(seen["begun"], PLACES.to_string(), "{seen}");
    let metrics = world
        .raw("GET /v1/metrics?format=prometheus HTTP/1.1", "")
        .await
        .2;
    assert!(metrics.contains("drover_admission_slow 1"), "{metrics}");
    // After five seconds their places are free.
    let let_in = timeout(PATIENCE, waiting).await.expect("in time");
    let_in.expect("no panic").expect("connects");
    assert_eq!(admission(&world).await["refused"], "0");
}
