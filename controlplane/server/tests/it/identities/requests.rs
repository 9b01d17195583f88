//! Requests of tasks that nodes forward (threats 4 and 9): a node is believed in nothing.

use protocol_transport::{FrameReader, FrameWriter};

use super::*;
use crate::fake_node::SECRET;
use crate::world::PATIENCE;

/// An answer: whether the credential is refused, the status, and the body.
type Answer = (bool, u32, String);

/// A stream of requests, which the node proves with `attach`.
async fn stream(node: &FakeNode, attach: &v1::AttachBulk) -> (FrameWriter, FrameReader) {
    let connection = node.connect_again().await;
    let (mut writer, reader) = open(&connection, StreamKind::TaskApi).await;
    write(&mut writer, attach).await;
    (writer, reader)
}

fn proof(node: &FakeNode) -> v1::AttachBulk {
    v1::AttachBulk {
        node_id: node.id.as_bytes().to_vec().into(),
        secret: SECRET.to_vec().into(),
        epoch: node.epoch(),
    }
}

/// Forwards a request of this allocation's task, and reads its answer; `None` where the server
/// ends the stream.
async fn forward(
    (writer, reader): &mut (FrameWriter, FrameReader),
    (alloc, task): (AllocId, &str),
    target: &str,
    token: &str,
) -> Option<Answer> {
    let header = v1::ApiHeader {
        name: "x-nomad-token".to_owned(),
        value: token.as_bytes().to_vec().into(),
    };
    let asked = v1::ApiRequest {
        alloc_id: alloc.as_bytes().to_vec().into(),
        task: task.to_owned(),
        peer_uid: 0,
        method: "GET".to_owned(),
        target: target.to_owned(),
        headers: vec![header],
        body: Vec::new().into(),
        more: false,
    };
    let (kind, body) = protocol_wire::kind::to_frame(&asked);
    writer.write(kind, body).await.ok()?;
    let frame = tokio::time::timeout(PATIENCE, reader.expect()).await;
    let frame = frame.expect("in time").ok()?;
    let head: v1::ApiResponse = protocol_wire::kind::from_frame(frame.kind, frame.body).ok()?;
    let mut text = Vec::new();
    loop {
        let part: v1::ApiBody = read(reader).await;
        text.extend_from_slice(&part.data);
        if part.last {
            break;
        }
    }
    let text = String::from_utf8(text).expect("text");
    let mut headers = head.headers.iter();
    let length = headers.find(|header| header.name == "content-length");
    let length = length.map(|header| String::from_utf8_lossy(&header.value).into_owned());
    assert_eq!(length, Some(text.len().to_string()));
    Some((head.rejected, head.status, text))
}

fn json(answer: Option<Answer>) -> Value {
    let (rejected, status, text) = answer.expect("an answer");
    assert_eq!((rejected, status), (false, 200), "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn node_that_names_another_nodes_allocation_gets_no_way_through_it() {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let (node, alloc) = placed(&world).await;
    let own = token(&node, alloc, "default").await;
    let thief = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    let whoami = "/v1/acl/whoami";

    let mut honest = stream(&node, &proof(&node)).await;
    let shown = json(forward(&mut honest, (alloc, "server"), whoami, &own).await);
    assert_eq!(shown["Kind"], "workload");
    assert_eq!(shown["Via"]["Node"], node.id.to_string());
    assert_eq!(shown["Via"]["Alloc"], alloc.to_string());
    assert_eq!(shown["Via"]["Task"], "server");

    // The same request through another node: its own name stands there, and no allocation.
    let mut stolen = stream(&thief, &proof(&thief)).await;
    let shown = json(forward(&mut stolen, (alloc, "server"), whoami, &own).await);
    assert_eq!(shown["Via"]["Node"], thief.id.to_string());
    assert_eq!(shown["Via"]["Alloc"], "");
    assert_eq!(shown["Via"]["Task"], "");
    // The rights come from the token alone, whichever allocation and task the node names.
    let variable = "/v1/var/nomad/jobs/web";
    let (_, status, _) = forward(&mut stolen, (alloc, "server"), "/v1/jobs", &own)
        .await
        .expect("an answer");
    assert_eq!(status, 403);
    let made_up = "11111111-2222-3333-4444-555555555555";
    for token in ["", "made-up", made_up] {
        let refused = forward(&mut stolen, (alloc, "server"), variable, token).await;
        assert_eq!(
            refused,
            Some((true, 403, "Forbidden".to_owned())),
            "{token}"
        );
    }

    // A node with another one's name, epoch or secret has no stream at all.
    let wrong = [
        v1::AttachBulk {
            secret: vec![9; 32].into(),
            ..proof(&node)
        },
        v1::AttachBulk {
            node_id: node.id.as_bytes().to_vec().into(),
            ..proof(&thief)
        },
        v1::AttachBulk {
            epoch: node.epoch(),
            ..proof(&thief)
        },
    ];
    for attach in wrong {
        let mut forged = stream(&thief, &attach).await;
        let answer = forward(&mut forged, (alloc, "server"), whoami, &own).await;
        assert_eq!(answer, None, "{attach:?}");
    }
    let connection = thief.session().clone();
    let (mut writer, reader) = open(&connection, StreamKind::TaskApi).await;
    write(&mut writer, &node.stream_hello()).await;
    let mut forged = (writer, reader);
    let answer = forward(&mut forged, (alloc, "server"), whoami, &own).await;
    assert_eq!(answer, None, "the session of another node");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_access_control_only_workload_tokens_count_in_tasks() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let holder = crate::access::token(world.server.cluster(), &[]).await;
    let [own, vault] = [
        token(&node, alloc, "default").await,
        token(&node, alloc, "vault").await,
    ];
    let mut stream = stream(&node, &proof(&node)).await;
    for target in ["/v1/agent/health", "/v1/jobs"] {
        let place = (alloc, "server");
        json(forward(&mut stream, place, target, &own).await);
        for token in [holder.secret.as_str(), &vault, "a.b.c", ""] {
            let refused = forward(&mut stream, place, target, token).await;
            assert_eq!(
                refused,
                Some((true, 403, "Forbidden".to_owned())),
                "{token}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_credential_beyond_the_budget_of_failures_counts_as_rejected() {
    let usual = protocol_access::budget::Limits::default();
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        config.limits.budgets = usual;
    })
    .await;
    let (node, alloc) = placed(&world).await;
    let own = token(&node, alloc, "default").await;
    let mut stream = stream(&node, &proof(&node)).await;
    let mut limited = None;
    for number in 0..200_u32 {
        let token = uuid::Uuid::from_u128(number.into()).to_string();
        let answer = forward(&mut stream, (alloc, "server"), "/v1/jobs", &token).await;
        let (is_rejected, status, text) = answer.expect("an answer");
        assert!(is_rejected, "{number}: {status} {text}");
        if status == 429 {
            limited = Some(text);
        }
    }
    assert!(limited.is_some(), "no answer was 429");
    let target = "/v1/agent/health";
    json(forward(&mut stream, (alloc, "server"), target, &own).await);
}

/// Shows unknown tokens for these tasks, one after the other, until the server looks none up.
async fn spend_failures(stream: &mut (FrameWriter, FrameReader), alloc: AllocId, tasks: &[&str]) {
    for number in 0..1000_u32 {
        let token = uuid::Uuid::from_u128(number.into()).to_string();
        let task = tasks[number as usize % tasks.len()];
        let answer = forward(stream, (alloc, task), "/v1/jobs", &token).await;
        if answer.expect("an answer").1 == 429 {
            return;
        }
    }
    panic!("no answer was 429");
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_bad_tokens_takes_no_failures_from_other_tasks() {
    let usual = protocol_access::budget::Limits::default();
    let world = World::start_with(|config| {
        config.acl_enabled = true;
        config.limits.budgets = usual;
    })
    .await;
    let (node, flooding) = placed(&world).await;
    let other = placed_beside(&world).await;
    let mut stream = stream(&node, &proof(&node)).await;
    spend_failures(&mut stream, flooding, &["server"]).await;
    // A token that is unknown here is looked up for the other task, and over TCP.
    for number in 0..10_u32 {
        let token = uuid::Uuid::from_u128(number.into()).to_string();
        let judged = forward(&mut stream, (other, "server"), "/v1/jobs", &token).await;
        assert_eq!(
            judged,
            Some((true, 403, "Forbidden".to_owned())),
            "{number}"
        );
    }
    let direct = super::tokens::of(&world, &uuid::Uuid::from_u128(1).to_string());
    let refused = super::tokens::get(&direct, "/v1/jobs").await;
    assert_eq!(crate::world::refusal(refused).0, 403);
    // Tasks that no allocation has are charged to the node together.
    let made_up: Vec<String> = (0..1000).map(|number| format!("t{number}")).collect();
    let made_up: Vec<&str> = made_up.iter().map(String::as_str).collect();
    spend_failures(&mut stream, other, &made_up).await;
}
