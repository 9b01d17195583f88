//! Workload identities: nodes have them signed, and tasks show them to the API.

mod signing;
mod threats;
mod tokens;

use protocol_model::AllocId;
use protocol_transport::StreamKind;
use protocol_wire::v1;
use protocol_wire::v1::query_reply::Reply;
use protocol_wire::v1::query_request::Query;
use protocol_wire::v1::signed_identity::Result as Signed;
use serde_json::{Value, json};

use crate::fake_node::{FakeNode, open, read, write};
use crate::world::{World, service};

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
async fn placed(world: &World) -> (FakeNode, AllocId) {
    let node = FakeNode::join(world).await;
    let body = json!({ "Job": job() });
    let cluster = world.server.cluster();
    let known = cluster.snapshot().index();
    put_job(world, body).await;
    let placed = world
        .until(|snapshot| snapshot.index() > known && snapshot.allocs().next().is_some())
        .await;
    let alloc = placed.allocs().next().expect("one").id;
    (node, alloc)
}

/// The token of a task, which is valid while its node stays.
pub(crate) async fn token_of_a_task(world: &World) -> (FakeNode, String) {
    let (node, alloc) = placed(world).await;
    let token = token(&node, alloc, "default").await;
    (node, token)
}

/// Registers a job, where access control is on with a token for it.
async fn put_job(world: &World, body: Value) {
    let manager = crate::access::token(world.server.cluster(), &[]).await;
    let client = manager.of(&world.client);
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
async fn ask(node: &FakeNode, min_index: u64, query: Query) -> Reply {
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
async fn token(node: &FakeNode, alloc: AllocId, identity: &str) -> String {
    let signed = sign(node, vec![name(alloc, "server", identity)]).await;
    match signed.into_iter().next() {
        Some(Signed::Token(token)) => token.jwt,
        other => panic!("not signed: {other:?}"),
    }
}
