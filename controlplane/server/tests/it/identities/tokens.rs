//! Workload tokens at the API (threats 5, 6 and 7).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use controlplane_state::command::AclPolicies;
use controlplane_state::{AclPolicy, JobAcl};
use protocol_client::Client;
use protocol_model::ClientStatus;

use super::*;
use crate::world::refusal;

const DENIED: (u16, &str) = (403, "Permission denied");

pub(super) async fn with_acl() -> World {
    World::start_with(|config| config.acl_enabled = true).await
}

/// Reports the client status of an allocation, once.
pub(super) async fn report(node: &FakeNode, alloc: AllocId, status: ClientStatus) {
    let report = protocol_wire::report::AllocReport::new(alloc, 1, status);
    node.report(v1::UpdateClass::Urgent, 1, &report).await;
}

pub(super) fn of(world: &World, token: &str) -> Client {
    world.client.clone().with_token(Some(token.to_owned()))
}

pub(super) async fn get(
    client: &Client,
    path: &str,
) -> Result<Value, protocol_client::ClientError> {
    let query = protocol_client::Query::new();
    Ok(client.get::<Value>(path, &query).await?.value)
}

async fn denied(world: &World, token: &str) -> bool {
    let (status, text) = refusal(get(&of(world, token), "/v1/agent/members").await);
    (status, text.as_str()) == DENIED
}

/// The kind of caller that the token is, and why it is refused.
async fn whoami(world: &World, token: &str) -> (Value, Value) {
    let shown = get(&of(world, token), "/v1/acl/whoami").await;
    let shown = shown.expect("open to all");
    (shown["Kind"].clone(), shown["Rejected"].clone())
}

async fn join_policy(world: &World, name: &str, job_acl: [&str; 4]) {
    let rules = "namespace \"default\" { policy = \"read\" }";
    join_rules(&world.server, (name, rules), job_acl).await;
}

/// Writes a policy that joins these workloads.
pub(super) async fn join_rules(server: &Server, (name, rules): (&str, &str), job_acl: [&str; 4]) {
    let [namespace, job_id, group, task] = job_acl.map(str::to_owned);
    let policy = AclPolicy {
        name: name.to_owned(),
        rules: rules.to_owned(),
        job_acl: Some(JobAcl {
            namespace,
            job_id,
            group,
            task,
        }),
        ..AclPolicy::default()
    };
    let policies = vec![policy];
    let command = AclPolicies::Upsert { policies };
    let changed = server.cluster().change(command.into()).await;
    changed.expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn workload_token_names_its_task_and_has_no_right_without_a_policy() {
    let world = with_acl().await;
    let (node, alloc) = placed(&world).await;
    let token = token(&node, alloc, "default").await;
    let client = of(&world, &token);
    let shown = get(&client, "/v1/acl/whoami").await.expect("open to all");
    assert_eq!(shown["Kind"], "workload");
    assert_eq!(shown["Claims"]["nomad_allocation_id"], alloc.to_string());
    assert_eq!(shown["Claims"]["nomad_task"], "server");
    assert_eq!(shown["Budgets"]["Read"]["Limit"], 500);
    assert!(!shown.to_string().contains(&token));
    let (status, text) = refusal(get(&client, "/v1/jobs").await);
    assert_eq!((status, text.as_str()), DENIED);
    let own = refusal(get(&client, "/v1/acl/token/self").await);
    assert_eq!(own, (404, "ACL token not found".to_owned()));
    get(&client, "/v1/agent/health").await.expect("open to all");
    let metrics = get(&client, "/v1/metrics").await.expect("open to all");
    assert!(!metrics.to_string().contains(&token));
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_joins_the_workloads_that_it_names_and_leaves_with_them() {
    let world = with_acl().await;
    let (node, alloc) = placed(&world).await;
    let token = token(&node, alloc, "default").await;
    let client = of(&world, &token);
    for other in [
        ["default", "other", "", ""],
        ["dev", "", "", ""],
        ["default", "web", "other", ""],
        ["default", "web", "web", "other"],
    ] {
        join_policy(&world, "joins", other).await;
        assert_eq!(refusal(get(&client, "/v1/jobs").await).0, 403, "{other:?}");
    }
    for own in [
        ["default", "", "", ""],
        ["default", "web", "", ""],
        ["default", "web", "web", ""],
        ["default", "web", "web", "server"],
    ] {
        join_policy(&world, "joins", own).await;
        get(&client, "/v1/jobs")
            .await
            .unwrap_or_else(|_| panic!("{own:?}"));
    }
    let own = get(&client, "/v1/acl/policy/self").await.expect("its own");
    assert_eq!(own[0]["Name"], "joins");
    let names = vec!["joins".to_owned()];
    let command = AclPolicies::Delete { names };
    let changed = world.server.cluster().change(command.into()).await;
    changed.expect("deleted");
    assert_eq!(refusal(get(&client, "/v1/jobs").await).0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn token_for_another_audience_or_of_a_dead_allocation_is_refused() {
    let world = with_acl().await;
    let (node, alloc) = placed(&world).await;
    let [default, vault, api] = [
        token(&node, alloc, "default").await,
        token(&node, alloc, "vault").await,
        token(&node, alloc, "api").await,
    ];
    for good in [&default, &api] {
        assert_eq!(whoami(&world, good).await.0, "workload");
    }
    let refused = |reason: &str| (json!("anonymous"), json!(reason));
    assert_eq!(whoami(&world, &vault).await, refused("audience"));
    assert!(denied(&world, &vault).await);
    // The signatures are known by now; liveness is not.
    report(&node, alloc, ClientStatus::Complete).await;
    for dead in [&default, &api] {
        assert_eq!(whoami(&world, dead).await, refused("ended"));
        assert!(denied(&world, dead).await);
    }
    assert_eq!(whoami(&world, &vault).await, refused("audience"));
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_tokens_are_refused_on_the_way_in() {
    let world = with_acl().await;
    let (node, alloc) = placed(&world).await;
    let good = token(&node, alloc, "default").await;
    let mut parts = good.split('.');
    let [header, claims, signature] = [(); 3].map(|()| parts.next().expect("three parts"));
    let header = URL_SAFE_NO_PAD.decode(header).expect("base64url");
    let header: Value = serde_json::from_slice(&header).expect("JSON");
    let kid = header["kid"].as_str().expect("a name").to_owned();
    let with = |header: String| {
        let header = URL_SAFE_NO_PAD.encode(header);
        format!("{header}.{claims}.{signature}")
    };
    let forged = [
        with(json!({"alg": "none", "kid": kid}).to_string()),
        with(json!({"alg": "HS256", "kid": kid}).to_string()),
        with(json!({"alg": "RS256", "kid": kid}).to_string()),
        with(json!({"alg": "EdDSA", "kid": format!("{kid}.rsa")}).to_string()),
        with(json!({"alg": "EdDSA", "kid": "../../keyring"}).to_string()),
        with(json!({"alg": "EdDSA", "kid": AllocId::from_u128(9).to_string()}).to_string()),
        with(format!(r#"{{"alg":"EdDSA","kid":"{kid}","kid":"{kid}"}}"#)),
        with(json!({"alg": "EdDSA", "kid": kid, "x": "a".repeat(7000)}).to_string()),
        format!("{good}A"),
        format!("{good}="),
        "a.b.c".to_owned(),
    ];
    for token in forged {
        assert!(denied(&world, &token).await, "{token}");
        let (kind, rejected) = whoami(&world, &token).await;
        assert_eq!(kind, "anonymous");
        assert_ne!(rejected, "", "{token}");
    }
    assert_eq!(whoami(&world, &good).await.0, "workload");
}

#[tokio::test(flavor = "multi_thread")]
async fn workload_token_is_verified_where_access_control_is_off() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let token = token(&node, alloc, "default").await;
    let shown = get(&of(&world, &token), "/v1/acl/whoami").await;
    let shown = shown.expect("open to all");
    assert_eq!(shown["Kind"], "workload");
    assert_eq!(shown["Claims"]["nomad_job_id"], "web");
    let (kind, rejected) = whoami(&world, &format!("{token}A")).await;
    assert_eq!((kind, rejected), (json!("open"), json!("signature")));
}
