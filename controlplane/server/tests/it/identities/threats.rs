//! Threats 3, 4, 6, 7, 28: another node's allocations, lies of a node, tokens that are over or used
//! elsewhere, a root key that leaked.

use protocol_model::{ClientStatus, TaskRunState, TaskState};
use protocol_wire::v1::template_query::Source;

use super::tokens::{get, of, with_acl};
use super::*;
use crate::world::refusal;

/// A request as a node forwards it for a task of an allocation: status, body, and whether the
/// credential was rejected.
async fn forwarded(
    node: &FakeNode,
    alloc: AllocId,
    token: &str,
    target: &str,
) -> (u32, Value, bool) {
    forwarded_with(node, alloc, token, ("GET", target, "")).await
}

/// The same with a method and a body.
pub(crate) async fn forwarded_with(
    node: &FakeNode,
    alloc: AllocId,
    token: &str,
    (method, target, body): (&str, &str, &str),
) -> (u32, Value, bool) {
    let (mut writer, mut reader) = open(node.session(), StreamKind::TaskApi).await;
    write(&mut writer, &node.stream_hello()).await;
    let request = v1::ApiRequest {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: "server".to_owned(),
        method: method.to_owned(),
        target: target.to_owned(),
        body: body.to_owned().into(),
        headers: vec![v1::ApiHeader {
            name: "x-nomad-token".to_owned(),
            value: token.to_owned().into(),
        }],
        ..v1::ApiRequest::default()
    };
    write(&mut writer, &request).await;
    let answer: v1::ApiResponse = read(&mut reader).await;
    let mut body = Vec::new();
    loop {
        let part: v1::ApiBody = read(&mut reader).await;
        body.extend_from_slice(&part.data);
        if part.last {
            break;
        }
    }
    let text = || json!(String::from_utf8_lossy(&body));
    let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
    (answer.status, body, answer.rejected)
}

pub(crate) fn variable(alloc: AllocId, task: &str) -> Query {
    Query::Template(v1::TemplateQuery {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: task.to_owned(),
        known_index: 0,
        source: Some(Source::Variable(v1::VariableSource {
            namespace: String::new(),
            path: "nomad/jobs/web".to_owned(),
        })),
    })
}

/// A server with access control, a node with an allocation, a variable of its job, and a node that
/// knows all ids and has a session of its own.
async fn scene() -> (World, FakeNode, AllocId, FakeNode) {
    let world = with_acl().await;
    let (node, alloc) = placed(&world).await;
    let manager = crate::access::token(world.server.cluster(), &[]).await;
    let body = json!({
        "Namespace": "default", "Path": "nomad/jobs/web", "Items": { "word": "planted" },
    });
    let path = "/v1/var/nomad/jobs/web";
    let client = manager.of(&world.client);
    let query = protocol_client::Query::new();
    let put = client.put::<_, Value>(path, &query, &body).await;
    put.expect("written");
    let thief = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    (world, node, alloc, thief)
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_and_reports_are_of_the_node_of_their_allocation_alone() {
    let (world, node, alloc, thief) = scene().await;
    let Reply::Template(own) = ask(&node, 0, variable(alloc, "server")).await else {
        panic!("the node's own task is answered");
    };
    let shown = String::from_utf8_lossy(&own.variables[0].json).into_owned();
    assert!(shown.contains("planted"), "{shown}");
    for (asker, alloc, task) in [
        (&thief, alloc, "server"),
        (&node, alloc, "other"),
        (&node, AllocId::from_u128(9), "server"),
    ] {
        let Reply::Error(error) = ask(asker, 0, variable(alloc, task)).await else {
            panic!("it is answered: {task}");
        };
        assert_eq!(error.status, 404, "{}", error.message);
    }
    let lie = protocol_wire::report::AllocReport::new(alloc, 1, ClientStatus::Failed);
    let result = thief.report(v1::UpdateClass::Urgent, 1, &lie).await;
    assert_ne!(result, v1::ItemResult::Applied);
    let snapshot = world.server.cluster().snapshot();
    let status = snapshot.alloc(alloc).expect("it is there").client_status;
    assert_ne!(status, ClientStatus::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_request_has_its_tokens_rights_and_shows_its_way() {
    let (world, node, alloc, thief) = scene().await;
    let token = token(&node, alloc, "default").await;
    let whoami = "/v1/acl/whoami";
    // On its own way, on that of another node that names the allocation, and over TCP.
    let own = forwarded(&node, alloc, &token, whoami).await.1;
    assert_eq!(own["Kind"], "workload");
    assert_eq!(own["Via"]["Node"], node.id.to_string());
    assert_eq!(own["Via"]["Alloc"], alloc.to_string());
    assert_eq!(own["Via"]["Task"], "server");
    let stolen = forwarded(&thief, alloc, &token, whoami).await.1;
    assert_eq!(stolen["Kind"], "workload");
    assert_eq!(stolen["Via"]["Node"], thief.id.to_string());
    assert_eq!(stolen["Via"]["Alloc"], "");
    assert_eq!(stolen["Via"]["Task"], "");
    let direct = get(&of(&world, &token), whoami).await.expect("open to all");
    assert_eq!(direct["Kind"], "workload");
    assert_eq!(direct["Via"]["Node"], "");
    // The node and the allocation that are named give no right.
    let made_up = uuid::Uuid::from_u128(5).to_string();
    for node in [&node, &thief] {
        let (status, body, _) = forwarded(node, alloc, &token, "/v1/jobs").await;
        assert_eq!(status, 403, "{body}");
        let own = forwarded(node, alloc, &token, "/v1/var/nomad/jobs/web").await;
        assert_eq!(own.0, 200, "{}", own.1);
        let (status, body, rejected) = forwarded(node, alloc, &made_up, whoami).await;
        assert_eq!((status, body, rejected), (403, json!("Forbidden"), true));
    }
}

/// The token is refused at the API, and on every way that a node forwards.
async fn is_refused(world: &World, nodes: [&FakeNode; 2], alloc: AllocId, token: &str) {
    let path = "/v1/var/nomad/jobs/web";
    let (status, _) = refusal(get(&of(world, token), path).await);
    assert_eq!(status, 403);
    for node in nodes {
        let (status, body, rejected) = forwarded(node, alloc, token, path).await;
        assert_eq!((status, body, rejected), (403, json!("Forbidden"), true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ends_with_its_task_while_its_allocation_runs() {
    let (world, node, alloc, thief) = scene().await;
    let [default, api] = [
        token(&node, alloc, "default").await,
        token(&node, alloc, "api").await,
    ];
    let path = "/v1/var/nomad/jobs/web";
    for token in [&default, &api] {
        get(&of(&world, token), path).await.expect("it is alive");
        let (status, ..) = forwarded(&node, alloc, token, path).await;
        assert_eq!(status, 200);
    }
    let mut report = protocol_wire::report::AllocReport::new(alloc, 1, ClientStatus::Running);
    let state = TaskState {
        state: TaskRunState::Dead,
        ..TaskState::default()
    };
    report.task_states.insert("server".to_owned(), state);
    let result = node.report(v1::UpdateClass::Urgent, 1, &report).await;
    assert_eq!(result, v1::ItemResult::Applied);
    for token in [&default, &api] {
        is_refused(&world, [&node, &thief], alloc, token).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_a_leaked_root_key_end_with_the_entry_that_removes_it() {
    let (world, node, alloc, thief) = scene().await;
    let old = token(&node, alloc, "default").await;
    let path = "/v1/var/nomad/jobs/web";
    get(&of(&world, &old), path).await.expect("it is alive");
    let manager = crate::access::token(world.server.cluster(), &[]).await;
    let manager = manager.of(&world.client);
    replace_root_key(&manager).await;
    is_refused(&world, [&node, &thief], alloc, &old).await;
    let new = token(&node, alloc, "default").await;
    assert_ne!(new, old);
    get(&of(&world, &new), path)
        .await
        .expect("it is signed again");
    let (status, ..) = forwarded(&node, alloc, &new, path).await;
    assert_eq!(status, 200);
}
