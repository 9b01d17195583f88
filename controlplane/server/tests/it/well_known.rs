//! `/.well-known`: open to all, whatever credential they show.

use controlplane_server::Server;
use controlplane_server::config::Config;
use serde_json::{Value, json};

use crate::world::{World, raw, refusal};

const JWKS: &str = "/.well-known/jwks.json";
const DISCOVERY: &str = "/.well-known/openid-configuration";

#[tokio::test]
async fn a_new_server_publishes_both_halves_of_its_key() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let snapshot = world.server.cluster().snapshot();
    let id = snapshot.active_root_key().expect("a key").id.to_string();
    let line = format!("GET {JWKS} HTTP/1.1");
    let (status, head, body) = world.raw(&line, "").await;
    assert_eq!(status, 200, "{body}");
    let set: Value = serde_json::from_str(&body).expect("JSON");
    let keys = set["keys"].as_array().expect("keys");
    let kids: Vec<&Value> = keys.iter().map(|key| &key["kid"]).collect();
    assert_eq!(kids, [&json!(id), &json!(format!("{id}.rsa"))]);
    // The key was made a moment ago: half of 720 hours, less that moment.
    let age = head.split("cache-control: max-age=").nth(1);
    let age = age.and_then(|rest| rest.lines().next());
    let age: u64 = age.expect("a header").trim().parse().expect("seconds");
    assert!((1_295_000..=1_296_000).contains(&age), "{age}");
    for credential in ["X-Nomad-Token: wrong", "Authorization: Bearer a.b.c"] {
        let line = format!("{line}\r\n{credential}");
        assert_eq!(world.raw(&line, "").await.0, 200, "{credential}");
    }
}

/// The server is asked before it leads: the answer comes with the first key.
#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_server_answers_with_a_key_as_soon_as_it_leads() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut config = Config::dev(directory.path().to_owned()).expect("a configuration");
    config.http.listen.set_port(0);
    config.quic_listen.set_port(0);
    let server = Server::start(config).await.expect("a server");
    let (status, _, body) = raw(&server, &format!("GET {JWKS} HTTP/1.1"), "").await;
    assert_eq!(status, 200, "{body}");
    let set: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(set["keys"].as_array().map(Vec::len), Some(2), "{body}");
}

#[tokio::test]
async fn the_issuer_is_described_where_one_is_configured() {
    let world = World::start().await;
    let refused = refusal(world.get(DISCOVERY).await);
    assert_eq!(
        refused,
        (404, "OIDC Discovery endpoint disabled".to_owned())
    );
    let issuer = "https://id.example/cluster";
    let world = World::start_with(|config| config.oidc_issuer = Some(issuer.to_owned())).await;
    let expected = json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/.well-known/jwks.json"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "EdDSA"],
    });
    assert_eq!(world.get(DISCOVERY).await.expect("answered"), expected);
}
