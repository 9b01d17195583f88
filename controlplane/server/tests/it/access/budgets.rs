//! Budgets: a caller over its own is refused with 429, and costs the others nothing.

use std::time::Duration;

use controlplane_server::config::Config;
use futures::future::join_all;
use protocol_access::budget::Limits;
use protocol_client::{Client, ClientError, Query};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{delete, policy, token};
use crate::three;
use crate::world::{World, refusal, service};

const WRITE: &str = "namespace \"default\" { policy = \"write\" }";

/// A server where access control is on, with the budgets of the documentation, bent.
async fn limited(bend: impl FnOnce(&mut Limits)) -> World {
    let bend = |config: &mut Config| {
        config.acl_enabled = true;
        config.limits.budgets = Limits::default();
        bend(&mut config.limits.budgets);
    };
    let world = World::start_with(bend).await;
    policy(world.server.cluster(), "write", WRITE).await;
    world
}

async fn jobs(client: &Client) -> Result<Value, ClientError> {
    Ok(client.get("/v1/jobs", &Query::new()).await?.value)
}

/// Asks until it is refused, at most 200 times; the status.
async fn until_refused(client: &Client, mut wanted: impl FnMut(u16) -> bool) -> (u16, String) {
    for _ in 0..200 {
        match jobs(client).await {
            Ok(_) => {}
            Err(ClientError::Status { code, message }) if wanted(code) => return (code, message),
            Err(ClientError::Status { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("200 requests were served");
}

#[tokio::test]
async fn token_over_its_budget_gets_429_while_another_is_served() {
    let world = limited(|limits| limits.token.list = Some(1)).await;
    let cluster = world.server.cluster();
    let (greedy, modest) = (
        token(cluster, &["write"]).await,
        token(cluster, &["write"]).await,
    );
    let (code, message) = until_refused(&greedy.of(&world.client), |_| true).await;
    assert_eq!(code, 429);
    let expected =
        "Too many requests: the budget of token for list is 1 a second; try again in 1 s";
    assert_eq!(message, expected);
    for _ in 0..100 {
        let head = format!("GET /v1/jobs HTTP/1.1\r\nX-Nomad-Token: {}", greedy.secret);
        let (status, head, _) = world.raw(&head, "").await;
        if status == 429 {
            assert!(head.contains("\r\nretry-after: 1"), "{head}");
            jobs(&modest.of(&world.client))
                .await
                .expect("it has its own budget");
            return;
        }
    }
    panic!("a spent budget refuses nothing");
}

#[tokio::test]
async fn bogus_tokens_end_in_429_and_a_real_one_goes_on() {
    let world = limited(|_| {}).await;
    let real = token(world.server.cluster(), &["write"])
        .await
        .of(&world.client);
    let mut statuses = Vec::new();
    for _ in 0..60 {
        let bogus = world
            .client
            .clone()
            .with_token(Some(Uuid::new_v4().to_string()));
        statuses.push(refusal(jobs(&bogus).await).0);
    }
    assert_eq!(statuses[..20], [403; 20]);
    assert!(statuses.contains(&429), "{statuses:?}");
    for _ in 0..50 {
        jobs(&real).await.expect("it is known");
    }
}

#[tokio::test]
async fn token_that_is_gone_blocks_no_route_to_a_new_one() {
    let world = limited(|limits| limits.failure.burst = 1).await;
    let cluster = world.server.cluster();
    let holder = token(cluster, &["write"]).await;
    delete(cluster, &holder).await;
    let client = holder.of(&world.client);
    // No failure is left of the address.
    until_refused(&client, |code| code == 429).await;
    let none = Query::new();
    for path in [
        "/v1/status/leader",
        "/v1/agent/health",
        "/v1/acl/auth-methods",
        "/v1/regions",
    ] {
        let answer = client.get::<Value>(path, &none).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let login = json!({ "AuthMethodName": "none", "LoginToken": "a.b.c" });
    let answer = client.put::<_, Value>("/v1/acl/login", &none, &login).await;
    let (code, message) = refusal(answer);
    assert!(![403, 429].contains(&code), "{code} {message}");
}

#[tokio::test]
async fn whoami_charges_bad_credentials_to_the_failure_budget() {
    let world = limited(|_| {}).await;
    for _ in 0..60 {
        let bogus = world
            .client
            .clone()
            .with_token(Some(Uuid::new_v4().to_string()));
        match bogus.get::<Value>("/v1/acl/whoami", &Query::new()).await {
            Ok(answer) => assert_eq!(answer.value["Rejected"], "unknown"),
            Err(ClientError::Status { code, .. }) => {
                assert_eq!(code, 429);
                return;
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("60 guesses were answered");
}

#[tokio::test]
async fn logins_of_an_address_are_limited() {
    let world = limited(|_| {}).await;
    let login = json!({ "AuthMethodName": "none", "LoginToken": "a.b.c" });
    let mut last = (0, String::new());
    for _ in 0..11 {
        last = refusal(world.put("/v1/acl/login", login.clone()).await);
    }
    assert_eq!(last.0, 429);
    let expected = "Too many requests: the budget of an address for logins is 10 a minute; try";
    assert!(last.1.starts_with(expected), "{}", last.1);
}

#[tokio::test]
async fn health_is_told_to_callers_without_any_budget() {
    let world = limited(|limits| {
        limits.anonymous.read = Some(0);
        limits.anonymous.list = Some(0);
    })
    .await;
    assert_eq!(refusal(world.get("/v1/jobs").await).0, 429);
    assert_eq!(refusal(world.get("/v1/acl/whoami").await).0, 429);
    world.get("/v1/agent/health").await.expect("never refused");
    world.get("/v1/status/leader").await.expect("never refused");
}

#[tokio::test]
async fn without_access_control_nothing_is_limited() {
    let world = World::start_with(|config| {
        config.limits.budgets.anonymous.read = Some(0);
        config.limits.budgets.anonymous.list = Some(0);
    })
    .await;
    world.get("/v1/jobs").await.expect("not limited");
    let answer = world.get("/v1/acl/whoami").await.expect("not limited");
    assert_eq!(answer["Budgets"], Value::Null);
}

#[tokio::test]
async fn changed_budgets_count_without_a_restart() {
    let world = limited(|_| {}).await;
    let holder = token(world.server.cluster(), &["write"]).await;
    let client = holder.of(&world.client);
    jobs(&client).await.expect("100 a second");
    let mut changed = Config::dev(world.data_dir()).expect("a configuration");
    changed.limits.budgets.token.list = Some(0);
    world.server.cluster().reconfigure(&changed);
    assert_eq!(refusal(jobs(&client).await).0, 429);
}

#[tokio::test]
async fn writes_are_charged_for_the_whole_cluster() {
    let root = tempfile::tempdir().expect("a directory");
    let bend = |config: &mut Config| {
        config.acl_enabled = true;
        config.limits.budgets.token.write = Some(1);
        config.limits.budgets.token.burst = Duration::from_secs(4);
    };
    let servers = three::cluster_with(root.path(), bend).await;
    let cluster = servers[0].cluster();
    policy(cluster, "write", WRITE).await;
    let holder = token(cluster, &["write"]).await;
    // Four through each server: no server has more than its own four.
    let writes = servers.iter().flat_map(|server| {
        let client = holder.of(&three::client(server));
        (0..4).map(move |_| {
            let client = client.clone();
            async move {
                let body = json!({ "Job": service("web") });
                client
                    .put::<_, Value>("/v1/jobs", &Query::new(), &body)
                    .await
            }
        })
    });
    let answers = join_all(writes).await;
    let refused = answers.into_iter().filter(Result::is_err).map(refusal);
    let refused: Vec<(u16, String)> = refused.collect();
    assert!(!refused.is_empty(), "12 writes were made at once");
    for (code, message) in refused {
        assert_eq!(code, 429, "{message}");
        let expected = "Too many requests: the budget of token for write is 1 a second; try";
        assert!(message.starts_with(expected), "{message}");
    }
}

#[tokio::test]
async fn waiting_query_occupies_a_place_until_it_ends() {
    let world = limited(|limits| limits.token.waiting = 1).await;
    let client = token(world.server.cluster(), &["write"])
        .await
        .of(&world.client);
    let wait = Query::new().with("index", "1000000").with("wait", "60s");
    let waiting = {
        let (client, wait) = (client.clone(), wait.clone());
        tokio::spawn(async move { client.get::<Value>("/v1/jobs", &wait).await })
    };
    let left = async || {
        let answer = client.get::<Value>("/v1/acl/whoami", &Query::new()).await;
        answer.expect("it may").value["Budgets"]["Waiting"]["Left"].clone()
    };
    while left().await != 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (code, message) = refusal(client.get::<Value>("/v1/jobs", &wait).await);
    let expected = "Too many requests: the budget of token for waiting queries is 1 at a time; try \
                    again in 1 s";
    assert_eq!((code, message.as_str()), (429, expected));
    waiting.abort();
    while left().await != 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn whoami_shows_the_rest_of_the_budgets() {
    let world = limited(|_| {}).await;
    let client = token(world.server.cluster(), &["write"])
        .await
        .of(&world.client);
    let answer = client.get::<Value>("/v1/acl/whoami", &Query::new()).await;
    let budgets = answer.expect("it may").value["Budgets"].clone();
    assert_eq!(budgets["Read"]["Limit"], 1000);
    assert_eq!(budgets["Read"]["Left"], 4999);
    assert_eq!(budgets["Write"], json!({ "Limit": 200, "Left": 1000 }));
    assert_eq!(budgets["Streams"], json!({ "Limit": 64, "Left": 64 }));
    let manager = token(world.server.cluster(), &[]).await.of(&world.client);
    let answer = manager.get::<Value>("/v1/acl/whoami", &Query::new()).await;
    let budgets = answer.expect("it may").value["Budgets"].clone();
    assert_eq!(budgets["Read"], Value::Null);
}
