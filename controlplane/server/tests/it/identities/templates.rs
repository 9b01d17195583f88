//! Variables that nodes ask for on behalf of tasks: with the rights that the task itself has.

use std::time::Duration;

use controlplane_state::command::AclPolicies;
use controlplane_state::{AclPolicy, JobAcl};
use protocol_model::ClientStatus;
use protocol_transport::{FrameReader, FrameWriter};
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

fn query(alloc: AllocId, source: Source, known_index: u64) -> v1::TemplateQuery {
    v1::TemplateQuery {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: "server".to_owned(),
        known_index,
        source: Some(source),
    }
}

/// The paths of an answer, and its index.
async fn found(node: &FakeNode, alloc: AllocId, source: Source) -> (Vec<String>, u64) {
    match ask(node, 0, Query::Template(query(alloc, source, 0))).await {
        Reply::Template(reply) => {
            let paths = reply.variables.into_iter().map(|it| it.path);
            (paths.collect(), reply.index)
        }
        other => panic!("no variables: {other:?}"),
    }
}

async fn refused(node: &FakeNode, alloc: AllocId, source: Source) -> u32 {
    match ask(node, 0, Query::Template(query(alloc, source, 0))).await {
        Reply::Error(error) => error.status,
        other => panic!("not refused: {other:?}"),
    }
}

/// The positions of the sources that moved first.
async fn moved(node: &FakeNode, queries: Vec<v1::TemplateQuery>) -> Vec<u32> {
    let watch = Query::TemplateWatch(v1::TemplateWatch { queries });
    let moved = timeout(WOKEN_MAX, ask(node, 0, watch)).await;
    match moved.expect("it is woken") {
        Reply::Moved(moved) => moved.positions,
        other => panic!("nothing moved: {other:?}"),
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
    let (paths, own_index) = found(&node, alloc, own.clone()).await;
    assert_eq!(paths, ["nomad/jobs/web"]);
    let (paths, _) = found(&node, alloc, list("nomad/jobs")).await;
    assert_eq!(paths, ["nomad/jobs/web", "nomad/jobs/web/web"]);
    let (paths, index) = found(&node, alloc, one("shared/db")).await;
    assert!(paths.is_empty(), "{paths:?}");
    give(&world, "other").await;
    let shared = query(alloc, one("shared/db"), index);
    assert_eq!(moved(&node, vec![shared]).await, [0]);
    let (paths, index) = found(&node, alloc, one("shared/db")).await;
    assert!(paths.is_empty(), "a policy of another group: {paths:?}");
    let waiting = moved(&node, vec![query(alloc, one("shared/db"), index)]);
    let (positions, ()) = tokio::join!(waiting, give(&world, "web"));
    assert_eq!(positions, [0]);
    assert_eq!(found(&node, alloc, one("shared/db")).await.0, ["shared/db"]);
    assert_eq!(found(&node, alloc, list("shared/")).await.0, ["shared/db"]);
    assert!(own_index < index);

    // Another node may ask for nothing of it; and nobody once it is over.
    let thief = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    assert_eq!(refused(&thief, alloc, own.clone()).await, 404);
    report(&node, alloc, ClientStatus::Complete).await;
    assert_eq!(refused(&node, alloc, own).await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_question_names_the_sources_that_moved() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    for path in ["a", "b"] {
        put(&world, path).await;
    }
    let mut queries = Vec::new();
    for source in [one("a"), one("missing"), one("b"), list("b")] {
        let (_, index) = found(&node, alloc, source.clone()).await;
        queries.push(query(alloc, source, index));
    }
    // A task of another node is never told of.
    queries.push(query(AllocId::from_u128(9), one("b"), 1));
    let (positions, ()) = tokio::join!(moved(&node, queries.clone()), put(&world, "b"));
    assert_eq!(
        positions,
        [1, 2, 3],
        "a list and a missing one may be others now"
    );

    let many = vec![queries[0].clone(); 2501];
    let watch = Query::TemplateWatch(v1::TemplateWatch { queries: many });
    match ask(&node, 0, watch).await {
        Reply::Error(error) => assert_eq!(error.status, 400),
        other => panic!("too many are watched: {other:?}"),
    }
}

/// A question that waits for the variable `a` of the task, and has begun to.
async fn watching(node: &FakeNode, alloc: AllocId, known: u64) -> (FrameWriter, FrameReader) {
    let queries = vec![query(alloc, one("a"), known)];
    let watch = Query::TemplateWatch(v1::TemplateWatch { queries });
    let (mut writer, reader) = open(node.session(), StreamKind::NodeQuery).await;
    write(&mut writer, &node.stream_hello()).await;
    let request = v1::QueryRequest {
        min_index: 0,
        query: Some(watch),
    };
    write(&mut writer, &request).await;
    // Another question of the node overtakes it.
    ask(node, 0, Query::Keys(v1::KeysQuery { known_index: 0 })).await;
    (writer, reader)
}

/// The question ends with its session, and names no source.
async fn ends_unanswered((_writer, mut reader): (FrameWriter, FrameReader)) {
    let frame = timeout(PATIENCE, reader.expect()).await.expect("it ends");
    let Ok(frame) = frame else {
        return;
    };
    let reply = protocol_wire::kind::from_frame(frame.kind, frame.body);
    let reply: v1::QueryReply = reply.expect("a reply");
    match reply.reply {
        Some(Reply::Error(error)) => assert_eq!(error.status, 403, "{}", error.message),
        other => panic!("it is answered: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_of_another_nodes_task_names_no_source() {
    let world = World::start().await;
    let (_node, alloc) = placed(&world).await;
    let mut thief = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    let stolen = watching(&thief, alloc, 0).await;
    put(&world, "a").await;
    thief.begin_anew(&[]).await;
    ends_unanswered(stolen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_of_a_session_that_is_over_names_no_source() {
    let world = World::start().await;
    let (mut node, alloc) = placed(&world).await;
    let (_, known) = found(&node, alloc, one("a")).await;
    let old = watching(&node, alloc, known).await;
    let running = protocol_wire::report::AllocReport::new(alloc, 1, ClientStatus::Running);
    node.begin_anew(&[running]).await;
    put(&world, "a").await;
    ends_unanswered(old).await;
    assert_eq!(found(&node, alloc, one("a")).await.0, ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_variables_are_read_where_access_control_is_off() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    put(&world, "shared/db").await;
    let (paths, _) = found(&node, alloc, one("shared/db")).await;
    assert_eq!(paths, ["shared/db"]);
}
