//! A node and an operator's tool with a certificate have no rights over HTTP, and the secret of a
//! node is no token.

use controlplane_server::config::HttpTls;
use protocol_client::{Client, Query, TlsFiles};
use protocol_transport::Role;
use serde_json::{Value, json};

use super::super::token;
use crate::fake_node::{FakeNode, SECRET};
use crate::regions::issued;
use crate::world::{World, refusal, service};

/// A client of the world's server with these files.
fn client(world: &World, files: &TlsFiles) -> Client {
    let address = format!("https://{}", world.server.http_address());
    Client::new(address.parse().expect("an address"), files).expect("a client")
}

/// The client's requests that need a right are refused; the same requests with a token are not.
async fn has_no_rights(client: &Client) {
    let none = Query::new();
    for path in ["/v1/jobs", "/v1/nodes", "/v1/acl/tokens", "/v1/agent/self"] {
        let (status, _) = refusal(client.get::<Value>(path, &none).await);
        assert_eq!(status, 403, "{path}");
    }
    let body = json!({ "Job": service("web") });
    let (status, _) = refusal(client.put::<_, Value>("/v1/jobs", &none, &body).await);
    assert_eq!(status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_the_region_give_no_rights_over_https() {
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        config.http.tls = HttpTls::Mutual;
    })
    .await;
    let manager = token(world.server.cluster(), &[]).await;
    for role in [Role::Node, Role::Cli, Role::Server] {
        let directory = tempfile::tempdir().expect("a directory");
        let pem = issued(&world, role, "global");
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("cert.pem"), &pem.certificate).expect("is written");
        std::fs::write(path("key.pem"), &pem.key).expect("is written");
        let files = TlsFiles {
            ca: Some(world.data_dir().join("dev-tls/ca.pem")),
            cert: Some(path("cert.pem")),
            key: Some(path("key.pem")),
            ..TlsFiles::default()
        };
        let client = client(&world, &files);
        has_no_rights(&client).await;
        // The connection is let in: the refusals above are those of the gate.
        let listed = manager.of(&client);
        let listed = listed.get::<Value>("/v1/jobs", &Query::new()).await;
        listed.expect("the token decides");
    }
}

/// The texts that a node's secret could be shown as.
fn texts(secret: &[u8]) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut texts = vec![hex, STANDARD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
    let halves = secret.chunks_exact(16).filter_map(|half| {
        let half: [u8; 16] = half.try_into().ok()?;
        Some(uuid::Uuid::from_bytes(half).to_string())
    });
    texts.extend(halves);
    texts
}

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_node_is_no_token() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let node = FakeNode::join(&world).await;
    let snapshot = world.until(|snapshot| snapshot.node(node.id).is_some());
    assert!(snapshot.await.node(node.id).is_some(), "it has joined");
    let texts = texts(&SECRET);
    assert!(texts.len() > 3, "the secret reads as a UUID, too");
    for text in texts {
        has_no_rights(&world.client.clone().with_token(Some(text))).await;
    }
    // Its public id, which callers see, is none either.
    let id = node.id.to_string();
    has_no_rights(&world.client.clone().with_token(Some(id))).await;
}
