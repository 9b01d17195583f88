//! Workload identities: nodes have them signed, and tasks show them to the API.

mod ends;
mod forwarded;
mod requests;
mod signing;
mod templates;
mod threats;
mod tokens;

pub(crate) use threats::{forwarded_with, variable};

use std::path::Path;

use controlplane_server::Server;
use controlplane_state::Snapshot;
use protocol_client::Client;
use protocol_model::AllocId;
use protocol_transport::StreamKind;
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use protocol_wire::v1::signed_identity::Result as Signed;
use serde_json::{Value, json};

use crate::fake_node::{FakeNode, open, read, write};
use crate::world::{PATIENCE, World, service};

/// The identities of the task `server`.
fn job() -> Value {
    let mut job = service("web");
    let task = &mut job["TaskGroups"][0]["Tasks"][0];
    task["Identities"] = json!([
        { "Name": "vault", "Audience": ["vault.example"], "TTL": 60_000_000_000_u64 },
        { "Name": "api", "Audience": ["nomadproject.io", "other"], "TTL": 3_600_000_000_000_u64 },
    ]);
    job
}

/// A world with a node and an allocation of [`job`] on it.
pub(crate) async fn placed(world: &World) -> (FakeNode, AllocId) {
    placed_at(&world.server, &world.data_dir(), &world.client).await
}

/// A node at a server, and an allocation of [`job`] on it. `root` has the certificates.
pub(crate) async fn placed_at(
    server: &Server,
    root: &Path,
    client: &Client,
) -> (FakeNode, AllocId) {
    let node = FakeNode::join_server(server, root).await;
    let mut newest = server.cluster().hub().watch();
    put_job(server, client, json!({ "Job": job() })).await;
    let placed = newest.wait_for(|snapshot| snapshot.allocs().next().is_some());
    let placed = tokio::time::timeout(PATIENCE, placed).await;
    let placed = placed.expect("placed in time").expect("the state is there");
    let alloc = placed.allocs().next().expect("one").id;
    drop(placed);
    (node, alloc)
}

/// An allocation of another job, on the same node.
async fn placed_beside(world: &World) -> AllocId {
    let mut newest = world.server.cluster().hub().watch();
    let body = json!({ "Job": service("beside") });
    put_job(&world.server, &world.client, body).await;
    let find = |snapshot: &Snapshot| {
        let mut allocs = snapshot.allocs();
        allocs.find(|it| it.job_id == "beside").map(|it| it.id)
    };
    let placed = newest.wait_for(|snapshot| find(snapshot).is_some());
    let placed = tokio::time::timeout(PATIENCE, placed).await;
    let placed = placed.expect("placed in time").expect("the state is there");
    find(&placed).expect("it is there")
}

/// Registers a job, where access control is on with a token for it.
async fn put_job(server: &Server, client: &Client, body: Value) {
    let manager = crate::access::token(server.cluster(), &[]).await;
    let client = manager.of(client);
    let query = protocol_client::Query::new();
    let put = client.put::<_, Value>("/v1/jobs", &query, &body);
    put.await.expect("registered");
}

fn name(alloc: AllocId, task: &str, identity: &str) -> v1::IdentityName {
    v1::IdentityName {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: task.to_owned(),
        identity: identity.to_owned(),
    }
}

/// Asks as `node`, on the connection of its session.
pub(crate) async fn ask(node: &FakeNode, min_index: u64, query: Query) -> Reply {
    let (mut writer, mut reader) = open(node.session(), StreamKind::NodeQuery).await;
    write(&mut writer, &node.stream_hello()).await;
    let query = Some(query);
    write(&mut writer, &v1::QueryRequest { min_index, query }).await;
    let reply: v1::QueryReply = read(&mut reader).await;
    reply.reply.expect("a reply")
}

async fn sign(node: &FakeNode, identities: Vec<v1::IdentityName>) -> Vec<Signed> {
    let query = Query::SignIdentities(v1::SignIdentities { identities });
    match ask(node, 0, query).await {
        Reply::Signed(signed) => {
            let each = signed.identities.into_iter();
            each.map(|it| it.result.expect("a result")).collect()
        }
        other => panic!("not signed: {other:?}"),
    }
}

/// A signed token of this identity.
pub(crate) async fn token(node: &FakeNode, alloc: AllocId, identity: &str) -> String {
    let signed = sign(node, vec![name(alloc, "server", identity)]).await;
    match signed.into_iter().next() {
        Some(Signed::Token(token)) => token.jwt,
        other => panic!("not signed: {other:?}"),
    }
}

/// Replaces a root key that leaked: everything moves to another one, and the old one is removed.
async fn replace_root_key(manager: &Client) {
    let none = protocol_client::Query::new();
    let keys = manager.get::<Value>("/v1/operator/keyring/keys", &none);
    let leaked = keys.await.expect("keys").value[0]["KeyID"].clone();
    let leaked = leaked.as_str().expect("an id").to_owned();
    let rotate = "/v1/operator/keyring/rotate?full=true";
    let rotated = manager.put::<_, Value>(rotate, &none, &json!({})).await;
    rotated.expect("rotated");
    let remove = format!("/v1/operator/keyring/key/{leaked}?force=true");
    let removed = tokio::time::timeout(PATIENCE, async {
        // A key that still seals variables is not removed, even by force.
        while manager.delete::<Value>(&remove, &none).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    removed.await.expect("it is removed");
}
