//! Logins through the API: objects of the state, sealed secrets, the token that comes out.

use controlplane_server::Server;
use hack_testkit::{CLIENT_ID, CLIENT_SECRET, Misdeed, Provider, now_s};
use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};

use super::setup::{NONCE, REDIRECT, provider, token};
use crate::three::{client, cluster_with};
use crate::world::{PATIENCE, World, refusal};

async fn put(client: &Client, path: &str, body: Value) -> Result<Value, ClientError> {
    Ok(client.put(path, &Query::new(), &body).await?.value)
}

/// A manager of a cluster with a policy, a role, two methods of `provider` and their rules.
async fn prepared(anyone: &Client, provider: &Provider) -> Client {
    let first = put(anyone, "/v1/acl/bootstrap", json!({}))
        .await
        .expect("the first token");
    let secret = first["SecretID"].as_str().expect("a secret").to_owned();
    let manager = anyone.clone().with_token(Some(secret));
    let policy = json!({"Name": "readers", "Rules": "namespace \"*\" { policy = \"read\" }"});
    let objects = [
        ("/v1/acl/policy/readers", policy),
        (
            "/v1/acl/role",
            json!({"Name": "team-ops", "Policies": [{"Name": "readers"}]}),
        ),
        (
            "/v1/acl/auth-method",
            method("ci", "JWT", json!({"JWKSURL": provider.jwks_url()})),
        ),
        (
            "/v1/acl/auth-method",
            method(
                "sso",
                "OIDC",
                json!({
                    "OIDCDiscoveryURL": provider.issuer(), "OIDCClientID": CLIENT_ID,
                    "OIDCClientSecret": CLIENT_SECRET, "AllowedRedirectURIs": [REDIRECT],
                }),
            ),
        ),
    ];
    for (path, body) in objects {
        put(&manager, path, body).await.expect(path);
    }
    for method in ["ci", "sso"] {
        for rule in [
            json!({"BindType": "policy", "BindName": "readers", "Selector": "dev in list.groups"}),
            json!({"BindType": "role", "BindName": "team-${value.team}"}),
        ] {
            let mut rule = rule;
            rule["AuthMethod"] = json!(method);
            put(&manager, "/v1/acl/binding-rule", rule)
                .await
                .expect("a rule");
        }
    }
    manager
}

fn method(name: &str, kind: &str, mut config: Value) -> Value {
    config["SigningAlgs"] = json!(["ES256"]);
    config["BoundAudiences"] = json!([CLIENT_ID]);
    config["ClaimMappings"] = json!({"team": "team"});
    config["ListClaimMappings"] = json!({"groups": "groups"});
    json!({"Name": name, "Type": kind, "TokenLocality": "local", "MaxTokenTTL": "10m",
        "Config": config, "Default": name == "ci"})
}

async fn auth_url(client: &Client) -> Result<String, ClientError> {
    let body = json!({"AuthMethodName": "sso", "RedirectURI": REDIRECT, "ClientNonce": NONCE});
    let answer = put(client, "/v1/acl/oidc/auth-url", body).await?;
    Ok(answer["AuthURL"].as_str().expect("an address").to_owned())
}

fn completion(provider: &Provider, auth_url: &str) -> Value {
    let back = provider.log_in(auth_url);
    json!({"AuthMethodName": "sso", "ClientNonce": NONCE, "RedirectURI": REDIRECT,
        "State": back.state, "Code": back.code, "Iss": back.iss})
}

fn assert_rights(token: &Value, name: &str) {
    assert_eq!(token["Name"], name, "{token}");
    assert_eq!(token["Type"], "client");
    assert_eq!(token["Policies"], json!(["readers"]));
    assert_eq!(token["Roles"][0]["Name"], "team-ops");
    assert_eq!(token["ExpirationTTL"], "10m0s");
    assert_ne!(token["ExpirationTime"], Value::Null);
}

#[tokio::test]
async fn token_of_a_provider_becomes_an_access_token_that_works() {
    let provider = provider();
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let manager = prepared(&world.client, &provider).await;
    // An expired or unknown token is a reason to log in.
    let stale = "11111111-2222-3333-4444-555555555555".to_owned();
    let stranger = world.client.clone().with_token(Some(stale));
    for name in ["ci", ""] {
        let body = json!({"AuthMethodName": name, "LoginToken": token(&provider)});
        let made = put(&stranger, "/v1/acl/login", body)
            .await
            .expect("a token");
        assert_rights(&made, "JWT-ci");
        let secret = made["SecretID"].as_str().expect("a secret").to_owned();
        let holder = world.client.clone().with_token(Some(secret));
        let own: Value = holder
            .get("/v1/acl/token/self", &Query::new())
            .await
            .expect("its own token")
            .value;
        assert_eq!(own, made, "a read equals the answer that made it");
        holder
            .get::<Value>("/v1/jobs", &Query::new())
            .await
            .expect("may read");
        let path = format!(
            "/v1/acl/token/{}",
            made["AccessorID"].as_str().expect("an id")
        );
        let known: Value = manager
            .get(&path, &Query::new())
            .await
            .expect("known")
            .value;
        assert_eq!(known, made);
    }
}

#[tokio::test]
async fn logins_that_are_refused_say_why_and_make_nothing() {
    let provider = provider();
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let manager = prepared(&world.client, &provider).await;
    let bare = json!({"Name": "bare", "Type": "JWT", "TokenLocality": "local",
        "MaxTokenTTL": "10m"});
    put(&manager, "/v1/acl/auth-method", bare)
        .await
        .expect("a method without Config");
    let before = world.server.cluster().snapshot().acl_tokens().count();
    let good = token(&provider);
    let expired = provider.token(json!({"aud": CLIENT_ID, "exp": now_s() - 999}));
    let nothing = provider.token(json!({"aud": CLIENT_ID, "exp": now_s() + 60, "team": "x"}));
    let no_team = provider.token(json!({"aud": CLIENT_ID, "exp": now_s() + 60}));
    for (method, token, status, words) in [
        (
            "other",
            good.as_str(),
            400,
            "auth-method \"other\" not found",
        ),
        ("sso", &good, 400, "unsupported auth-method type: OIDC"),
        (
            "bare",
            &good,
            400,
            "auth-method \"bare\" has no configuration",
        ),
        ("ci", "", 400, "invalid login request: missing login token"),
        ("ci", "a.b.c", 401, "unable to validate provided token: "),
        (
            "ci",
            &"x".repeat(1 << 20),
            401,
            "unable to validate provided token: the token has",
        ),
        (
            "ci",
            &expired,
            401,
            "unable to validate provided token: the token expired",
        ),
        ("ci", &nothing, 400, "no role or policy bindings matched"),
        ("ci", &no_team, 400, "${value.team} has no value"),
    ] {
        let body = json!({"AuthMethodName": method, "LoginToken": token});
        let found = refusal(put(&world.client, "/v1/acl/login", body).await);
        assert_eq!(found.0, status, "{words}: {found:?}");
        assert!(found.1.contains(words), "{words}: {found:?}");
    }
    provider.misbehave("/keys", Misdeed::Fails);
    let path = "/v1/acl/auth-method/ci";
    put(&manager, path, json!({"MaxTokenTTL": "11m"}))
        .await
        .expect("keys are not kept");
    let body = json!({"AuthMethodName": "ci", "LoginToken": good});
    let (status, words) = refusal(put(&world.client, "/v1/acl/login", body).await);
    assert_eq!(status, 502);
    assert!(words.contains(&provider.issuer()), "{words}");
    assert_eq!(
        world.server.cluster().snapshot().acl_tokens().count(),
        before
    );
}

#[tokio::test]
async fn method_that_is_deleted_and_made_anew_binds_nothing() {
    let provider = provider();
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let manager = prepared(&world.client, &provider).await;
    let path = "/v1/acl/auth-method/ci";
    manager
        .delete::<Value>(path, &Query::new())
        .await
        .expect("deleted");
    let again = method("ci", "JWT", json!({"JWKSURL": provider.jwks_url()}));
    put(&manager, "/v1/acl/auth-method", again)
        .await
        .expect("made anew");
    let body = json!({"AuthMethodName": "ci", "LoginToken": token(&provider)});
    let found = refusal(put(&world.client, "/v1/acl/login", body).await);
    assert_eq!(
        found,
        (400, "no role or policy bindings matched".to_owned())
    );
}

#[tokio::test]
async fn login_by_oidc_yields_a_token_and_leaves_no_secret_behind() {
    let provider = provider();
    let world = World::start_with(|config| config.acl_enabled = true).await;
    prepared(&world.client, &provider).await;
    let body = completion(
        &provider,
        &auth_url(&world.client).await.expect("an address"),
    );
    let mut other = body.clone();
    other["ClientNonce"] = json!("another client");
    let found = refusal(put(&world.client, "/v1/acl/oidc/complete-auth", other).await);
    assert_eq!(found.0, 400, "{found:?}");
    for state in ["", "AAAA", "not base64 !", &"A".repeat(20_000)] {
        let mut other = body.clone();
        other["State"] = json!(state);
        let found = refusal(put(&world.client, "/v1/acl/oidc/complete-auth", other).await);
        assert_eq!(found.0, 400, "{found:?}");
        assert!(found.1.starts_with("invalid state: "), "{found:?}");
    }
    let made = put(&world.client, "/v1/acl/oidc/complete-auth", body)
        .await
        .expect("a token");
    assert_rights(&made, "OIDC-sso");
    world.barrier().await;
    let secret = made["SecretID"].as_str().expect("a secret");
    for planted in [CLIENT_SECRET, secret] {
        let found = crate::login::over_http::files_with(&world.data_dir(), planted.as_bytes());
        assert!(found.is_empty(), "{planted:?} is in {found:?}");
    }
}

/// The files below a directory that hold these bytes.
pub(super) fn files_with(directory: &std::path::Path, wanted: &[u8]) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).expect("a directory");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            found.extend(files_with(&path, wanted));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(wanted.len()).any(|part| part == wanted)
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn login_is_completed_elsewhere_after_its_leader_is_gone() {
    let provider = provider();
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster_with(root.path(), |config| config.acl_enabled = true).await;
    prepared(&client(&servers[0]), &provider).await;
    let place = leader_of(&servers).await;
    let leader = servers.remove(place);
    let url = auth_url(&client(&leader)).await.expect("an address");
    let body = completion(&provider, &url);
    leader.shutdown().await;
    let made = tokio::time::timeout(PATIENCE, async {
        loop {
            let other = client(&servers[0]);
            match put(&other, "/v1/acl/oidc/complete-auth", body.clone()).await {
                Ok(made) => break made,
                // There is no leader yet.
                Err(error) if error.status() == Some(500) => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_rights(&made.await.expect("in time"), "OIDC-sso");
}

async fn leader_of(servers: &[Server]) -> usize {
    let own = |server: &Server| {
        let cluster = server.cluster();
        cluster
            .leader()
            .is_some_and(|leader| leader.id == cluster.server_id())
    };
    let found = async {
        loop {
            if let Some(place) = servers.iter().position(own) {
                break place;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found)
        .await
        .expect("a leader")
}
