//! Access control.

use controlplane_server::config::{Config, HttpTls};
use controlplane_server::{Server, dev};
use protocol_client::{Address, Client, TlsFiles};
use protocol_transport::Region;
use serde_json::json;

use crate::world::{World, refusal};

#[tokio::test]
async fn with_access_control_only_a_management_token_gets_in() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let denied = (403, "Permission denied".to_owned());
    for path in [
        "/v1/jobs",
        "/v1/nodes",
        "/v1/agent/self",
        "/v1/operator/scheduler/configuration",
    ] {
        assert_eq!(refusal(world.get(path).await), denied, "{path}");
    }
    assert_eq!(refusal(world.put("/v1/system/gc", json!({})).await), denied);
    world.get("/v1/status/leader").await.expect("open to all");
    world.get("/v1/agent/health").await.expect("open to all");
    world.get("/v1/metrics").await.expect("open to all");

    let token = world
        .put("/v1/acl/bootstrap", json!({}))
        .await
        .expect("the first token");
    assert_eq!(token["Type"], "management");
    let secret = token["SecretID"].as_str().expect("a secret").to_owned();
    let known = world.client.clone().with_token(Some(secret.clone()));
    let query = protocol_client::Query::new();
    known
        .get::<serde_json::Value>("/v1/jobs", &query)
        .await
        .expect("let in");
    let own: protocol_client::Answer<serde_json::Value> = known
        .get("/v1/acl/token/self", &query)
        .await
        .expect("its own token");
    assert_eq!(own.value, token);
    let wrong = world.client.clone().with_token(Some("wrong".to_owned()));
    assert_eq!(
        refusal(wrong.get::<serde_json::Value>("/v1/jobs", &query).await),
        denied
    );

    let head = format!("GET /v1/jobs HTTP/1.1\r\nAuthorization: Bearer {secret}");
    assert_eq!(world.raw(&head, "").await.0, 200);
    let (status, words) = refusal(world.put("/v1/acl/bootstrap", json!({})).await);
    assert_eq!(status, 400);
    assert!(words.contains("already done (reset index: "), "{words}");
}

#[tokio::test]
async fn bootstrap_takes_the_secret_that_it_is_given() {
    let secret = "2B778dd9-f5f1-6f29-b4b4-9a5fa948757a";
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let path = "/v1/acl/bootstrap";
    for malformed in [
        "x",
        "2b778dd9f5f16f29b4b49a5fa948757a",
        "{2b778dd9-f5f1-6f29-b4b4-9a5fa948757a}",
        "urn:uuid:2b778dd9-f5f1-6f29-b4b4-9a5fa948757a",
        " 2b778dd9-f5f1-6f29-b4b4-9a5fa948757a",
        "2b778dd9-f5f1-6f29-b4b4-9a5fa948757g",
        "2b778dd9-f5f1-6f29-b4b49-a5fa948757a",
    ] {
        let body = json!({ "BootstrapSecret": malformed });
        let refused = refusal(world.put(path, body).await);
        let wanted = (400, "invalid acl token".to_owned());
        assert_eq!(refused, wanted, "{malformed}");
    }
    let body = json!({ "BootstrapSecret": secret });
    let token = world.put(path, body).await.expect("the first token");
    assert_eq!(token["SecretID"], secret);
    let known = world.client.clone().with_token(Some(secret.to_owned()));
    let query = protocol_client::Query::new();
    known
        .get::<serde_json::Value>("/v1/jobs", &query)
        .await
        .expect("let in");
}

#[tokio::test]
async fn bootstrap_without_a_secret_makes_one() {
    let bodies = [json!({}), json!({ "BootstrapSecret": "" }), json!(null)];
    for body in bodies {
        let world = World::start_with(|config| config.acl_enabled = true).await;
        let answer = world.put("/v1/acl/bootstrap", body).await;
        let secret = answer.expect("a token")["SecretID"].clone();
        assert_eq!(secret.as_str().map(str::len), Some(36), "{secret}");
    }
}

#[tokio::test]
async fn a_bootstrap_can_be_repeated_by_whoever_can_write_into_the_data_directory() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    world
        .put("/v1/acl/bootstrap", json!({}))
        .await
        .expect("the first token");
    let (_, words) = refusal(world.put("/v1/acl/bootstrap", json!({})).await);
    let index: String = words.chars().filter(char::is_ascii_digit).collect();
    std::fs::write(world.data_dir().join("acl-bootstrap-reset"), index).expect("is written");
    world
        .put("/v1/acl/bootstrap", json!({}))
        .await
        .expect("another token");
}

#[tokio::test]
async fn without_access_control_there_are_no_tokens() {
    let world = World::start().await;
    let (status, words) = refusal(world.put("/v1/acl/bootstrap", json!({})).await);
    assert_eq!((status, words.as_str()), (400, "ACL support disabled"));
}

#[tokio::test]
async fn over_tls_the_server_is_known_and_clients_too_where_that_is_asked_for() {
    for tls in [HttpTls::On, HttpTls::Mutual] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut config = Config::dev(directory.path().to_owned()).expect("a configuration");
        config.http.listen.set_port(0);
        config.quic_listen.set_port(0);
        config.http.tls = tls;
        let server = Server::start(config).await.expect("a server");
        let address: Address = format!("https://localhost:{}", server.http_address().port())
            .parse()
            .expect("an address");
        let made = dev::certificates(directory.path(), &Region::global()).expect("certificates");
        let files = TlsFiles {
            ca: Some(made.ca),
            ..TlsFiles::default()
        };
        let query = protocol_client::Query::new();
        let client = Client::new(address.clone(), &files).expect("a client");
        let answer = client.get::<String>("/v1/status/leader", &query).await;
        assert_eq!(answer.is_ok(), tls == HttpTls::On, "{answer:?}");
        let files = TlsFiles {
            cert: Some(made.node.certificate),
            key: Some(made.node.key),
            ..files
        };
        let client = Client::new(address, &files).expect("a client");
        client
            .get::<String>("/v1/status/leader", &query)
            .await
            .expect("is known");
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_second_bootstrap_leaves_no_trace_in_the_log() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    world
        .put("/v1/acl/bootstrap", json!({}))
        .await
        .expect("the first token");
    let before = world.barrier().await;
    for _ in 0..10 {
        let (status, _) = refusal(world.put("/v1/acl/bootstrap", json!({})).await);
        assert_eq!(status, 400);
    }
    // The barrier itself is one.
    assert_eq!(world.barrier().await - before, 1);
}
