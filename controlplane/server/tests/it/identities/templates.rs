//! Variables that nodes ask for on behalf of tasks: with the rights that the task itself has.

use std::time::Duration;

use controlplane_state::command::AclPolicies;
use controlplane_state::{AclPolicy, JobAcl};
use protocol_model::ClientStatus;
use protocol_wire::v1::template_query::Source;
use tokio::time::timeout;

use super::tokens::report;
use super::*;

/// Longer than any server needs to wake a question; a question by itself waits far longer.
const WOKEN_MAX: Duration = Duration::from_secs(30);

async fn put(world: &World, path: &str) {
    let manager = crate::access::token(world.server.cluster(), &[]).await;
    let body = json!({ "Items": { "word": path } });
    let query = protocol_client::Query::new();
    let path = format!("/v1/var/{path}");
    let client = manager.of(&world.client);
    client.put::<_, Value>(&path, &query, &body).await.unwrap();
}

fn one(path: &str) -> Source {
    Source::Variable(v1::VariableSource {
        namespace: String::new(),
        path: path.to_owned(),
    })
}

fn list(prefix: &str) -> Source {
    Source::Variables(v1::VariableSource {
        namespace: "default".to_owned(),
        path: prefix.to_owned(),
    })
}

async fn asked(node: &FakeNode, alloc: AllocId, source: Source, known_index: u64) -> Reply {
    let query = v1::TemplateQuery {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: "server".to_owned(),
        known_index,
        source: Some(source),
    };
    timeout(WOKEN_MAX, ask(node, 0, Query::Template(query)))
        .await
        .expect("it is woken")
}

/// The paths of an answer, and its index.
async fn found(
    node: &FakeNode,
    alloc: AllocId,
    source: Source,
    known_index: u64,
) -> (Vec<String>, u64) {
    match asked(node, alloc, source, known_index).await {
        Reply::Template(reply) => {
            let paths = reply.variables.into_iter().map(|it| it.path);
            (paths.collect(), reply.index)
        }
        other => panic!("no variables: {other:?}"),
    }
}

async fn refused(node: &FakeNode, alloc: AllocId, source: Source, known_index: u64) -> u32 {
    match asked(node, alloc, source, known_index).await {
        Reply::Error(error) => error.status,
        other => panic!("not refused: {other:?}"),
    }
}

async fn give(world: &World, group: &str) {
    let policy = AclPolicy {
        name: format!("for-{group}"),
        rules: "namespace \"default\" { variables { path \"shared/*\" {
            capabilities = [\"read\", \"list\"] } } }"
            .to_owned(),
        job_acl: Some(JobAcl {
            namespace: "default".to_owned(),
            job_id: "web".to_owned(),
            group: group.to_owned(),
            task: String::new(),
        }),
        ..AclPolicy::default()
    };
    let policies = vec![policy];
    let command = AclPolicies::Upsert { policies };
    let changed = world.server.cluster().change(command.into()).await;
    changed.expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_read_with_the_rights_of_their_task() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let (node, alloc) = placed(&world).await;
    for path in [
        "nomad/jobs/web",
        "nomad/jobs/web/web",
        "nomad/jobs/other",
        "shared/db",
    ] {
        put(&world, path).await;
    }
    let own = one("nomad/jobs/web");
    let (paths, _) = found(&node, alloc, own.clone(), 0).await;
    assert_eq!(paths, ["nomad/jobs/web"]);
    let (paths, _) = found(&node, alloc, list("nomad/jobs"), 0).await;
    assert_eq!(paths, ["nomad/jobs/web", "nomad/jobs/web/web"]);
    let (paths, index) = found(&node, alloc, one("shared/db"), 0).await;
    assert!(paths.is_empty(), "{paths:?}");
    give(&world, "other").await;
    let (paths, index) = found(&node, alloc, one("shared/db"), index).await;
    assert!(paths.is_empty(), "a policy of another group: {paths:?}");
    let waiting = found(&node, alloc, one("shared/db"), index);
    let (given, ()) = tokio::join!(waiting, give(&world, "web"));
    assert_eq!(given.0, ["shared/db"]);
    assert_eq!(
        found(&node, alloc, list("shared/"), 0).await.0,
        ["shared/db"]
    );

    // Another node may ask for nothing of it; and nobody once it is over.
    let thief = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    assert_eq!(refused(&thief, alloc, own.clone(), 0).await, 404);
    let (_, index) = found(&node, alloc, own.clone(), 0).await;
    let waiting = refused(&node, alloc, own, index);
    let (status, ()) = tokio::join!(waiting, report(&node, alloc, ClientStatus::Complete));
    assert_eq!(status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_variables_are_read_where_access_control_is_off() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    put(&world, "shared/db").await;
    let (paths, _) = found(&node, alloc, one("shared/db"), 0).await;
    assert_eq!(paths, ["shared/db"]);
}
