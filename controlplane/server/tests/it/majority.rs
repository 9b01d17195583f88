//! What a server says of itself and of the others when it is alone, and who leads by choice.

use std::time::Duration;

use controlplane_raft::ServerId;
use controlplane_server::Server;
use protocol_client::{Answer, Client, ClientError, Query};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::three::{client, cluster};
use crate::world::{PATIENCE, refusal, service};

/// Asks until the answer is as wanted.
async fn until(what: &str, ask: impl AsyncFn() -> bool) {
    let asking = async {
        while !ask().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, asking)
        .await
        .unwrap_or_else(|_| panic!("{what}"));
}

async fn health(client: &Client) -> Result<Answer<Value>, ClientError> {
    client.get("/v1/agent/health", &Query::new()).await
}

/// Which of them leads; none in particular, during an election.
fn leader_of(servers: &[Server]) -> usize {
    let leads = servers
        .iter()
        .position(|server| server.cluster().is_leader());
    leads.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_no_majority_answers_is_not_well_and_shows_no_members_as_the_clusters() {
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster(root.path()).await;
    for server in &servers {
        let client = client(server);
        until("is well", async || health(&client).await.is_ok()).await;
    }
    let hears = |server: &Server| server.cluster().raft().hears_majority();
    until("one hears a majority", async || servers.iter().any(hears)).await;
    let left = servers.swap_remove(servers.iter().position(hears).unwrap_or(0));
    for server in servers {
        server.shutdown().await;
    }
    let client = client(&left);
    // A leader does not cease to be one by itself.
    until("does not hear a majority", async || {
        !left.cluster().raft().hears_majority()
    })
    .await;
    until("is not well", async || health(&client).await.is_err()).await;
    let (code, words) = refusal(health(&client).await);
    assert_eq!(code, 500);
    let told: Value = serde_json::from_str(&words).expect("JSON");
    assert_eq!(told["server"]["ok"], json!(false), "{told}");
    let node = Query::new().with("type", "client");
    let of_node = client.get::<Value>("/v1/agent/health", &node).await;
    assert_eq!(of_node.expect("it is no node").value, json!({}));

    let path = "/v1/operator/raft/configuration";
    let stale = Query::new().with("stale", "");
    let own: Answer<Value> = client.get(path, &stale).await.expect("its own view");
    let servers = own.value["Servers"].as_array().expect("members");
    assert_eq!(servers.len(), 3);
    // What cannot do anything as the leader is not shown as one.
    assert!(servers.iter().all(|it| it["Leader"] == false), "{own:?}");
    assert!(!own.known_leader, "{own:?}");
    let leader = client
        .get::<String>("/v1/status/leader", &Query::new())
        .await;
    assert_eq!(leader.expect("an answer").value, "");
    let members = client
        .get::<Value>("/v1/agent/members", &Query::new())
        .await;
    let members = members.expect("an answer").value;
    let members = members["Members"].as_array().expect("members").clone();
    assert!(members.iter().all(|it| it["Tags"]["leader"] == "false"));
    let refused = client.get::<Value>(path, &Query::new()).await;
    assert_eq!(refusal(refused).0, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_that_is_handed_to_whoever_is_best_goes_to_no_server_that_is_gone() {
    let root = tempfile::tempdir().expect("a directory");
    let mut servers = cluster(root.path()).await;
    servers.sort_by_key(|server| -> ServerId { server.cluster().server_id() });
    // The first in order shall be gone, and therefore not lead.
    let second = servers[1].cluster().server_id();
    until("another one leads", async || {
        if leader_of(&servers) != 0 {
            return true;
        }
        let first = servers[0].cluster().raft();
        first.transfer_leadership(second).await.is_ok()
    })
    .await;
    let gone = servers.remove(0);
    gone.shutdown().await;
    // What is written now the one that is gone lacks.
    let clients: Vec<Client> = servers.iter().map(client).collect();
    let (body, none) = (json!({ "Job": service("web") }), Query::new());
    until("registered", async || {
        let put = clients[0].put::<_, Value>("/v1/jobs", &none, &body);
        put.await.is_ok()
    })
    .await;
    // On a host that is busy it may not be known what became of it.
    let path = "/v1/operator/raft/transfer-leadership";
    let empty = json!({});
    until("somebody leads by choice", async || {
        let put = clients[0].put::<_, Value>(path, &none, &empty);
        put.await.is_ok()
    })
    .await;
}
