//! Identities that a node asks for (threat 3: for its own allocations alone).

use controlplane_state::Table;
use protocol_access::jwks;
use protocol_access::jwt::{SigningAlgorithm, UnverifiedJwt};
use protocol_model::{ClientStatus, UnixNanos};
use protocol_wire::v1::IdentityRejection as Rejection;

use super::*;

fn rejection(signed: &Signed) -> Rejection {
    match signed {
        Signed::Rejection(number) => Rejection::try_from(*number).expect("known"),
        Signed::Token(_) => panic!("it is signed"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_are_signed_for_the_node_of_their_allocation_alone() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let all = ["default", "vault", "api"].map(|identity| name(alloc, "server", identity));
    let signed = sign(&node, all.to_vec()).await;
    assert!(signed.iter().all(|one| matches!(one, Signed::Token(_))));
    let others = vec![
        name(AllocId::from_u128(1), "server", "default"),
        name(alloc, "other", "default"),
        name(alloc, "server", "other"),
    ];
    let rejected = sign(&node, others).await;
    let wanted = [
        Rejection::AllocNotFound,
        Rejection::TaskNotFound,
        Rejection::IdentityNotFound,
    ];
    assert!(rejected.iter().map(rejection).eq(wanted));
    // Another node knows the ids and has a session of its own.
    let thief = FakeNode::join_as(&world.server, &world.data_dir(), 2).await;
    let stolen = sign(&thief, all.to_vec()).await;
    assert!(
        stolen
            .iter()
            .all(|it| rejection(it) == Rejection::AllocNotFound)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn question_on_a_connection_without_a_session_is_not_answered() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let stranger = node.connect_again().await;
    let own = node.stream_hello();
    let another = v1::StreamHello {
        epoch: own.epoch + 1,
        ..own.clone()
    };
    for (connection, hello) in [(&stranger, &own), (node.session(), &another)] {
        let (mut writer, mut reader) = open(connection, StreamKind::NodeQuery).await;
        write(&mut writer, hello).await;
        let identities = vec![name(alloc, "server", "default")];
        let query = Some(Query::SignIdentities(v1::SignIdentities { identities }));
        let request = v1::QueryRequest {
            min_index: 0,
            query,
        };
        write(&mut writer, &request).await;
        let answer = tokio::time::timeout(PATIENCE, reader.expect()).await;
        answer.expect("in time").expect_err("nothing is answered");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_verified_by_the_keys_that_the_node_is_given() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let Reply::Keys(keys) = ask(&node, 0, Query::Keys(v1::KeysQuery { known_index: 0 })).await
    else {
        panic!("no keys");
    };
    let snapshot = world.server.cluster().snapshot();
    assert_eq!(keys.index, snapshot.table_index(&[Table::RootKeys]));
    let verifying = jwks::parse(&keys.jwks).expect("a key set");
    for (identity, algorithm) in [
        ("default", SigningAlgorithm::EdDsa),
        ("vault", SigningAlgorithm::Rs256),
        ("api", SigningAlgorithm::Rs256),
    ] {
        let token = token(&node, alloc, identity).await;
        let jwt = UnverifiedJwt::parse(&token).expect("a token");
        let claims = jwt.signed_by(&verifying, &[algorithm]).expect(identity);
        assert_eq!(claims["nomad_allocation_id"], alloc.to_string());
        let subject = format!("global:default:web:web:server:{identity}");
        assert_eq!(claims["sub"], subject);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_without_a_ttl_is_signed_the_same_twice() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let first = token(&node, alloc, "default").await;
    assert_eq!(first, token(&node, alloc, "default").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_identities_and_an_index_of_the_future_are_refused() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    let refused = |reply| match reply {
        Reply::Error(error) => (error.status, error.message),
        other => panic!("answered: {other:?}"),
    };
    let identities = vec![name(alloc, "server", "default"); 257];
    let many = Query::SignIdentities(v1::SignIdentities { identities });
    let (status, message) = refused(ask(&node, 0, many).await);
    assert_eq!(status, 400);
    assert!(message.contains("at most 256"), "{message}");
    let identities = vec![name(alloc, "server", "default")];
    let early = Query::SignIdentities(v1::SignIdentities { identities });
    let (status, message) = refused(ask(&node, 1 << 40, early).await);
    assert_eq!(status, 503);
    assert!(message.contains("has applied index"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_of_an_allocation_that_is_over_is_not_signed() {
    let world = World::start().await;
    let (node, alloc) = placed(&world).await;
    super::tokens::report(&node, alloc, ClientStatus::Complete).await;
    let signed = sign(&node, vec![name(alloc, "server", "default")]).await;
    assert_eq!(rejection(&signed[0]), Rejection::AllocNotFound);
    assert!(world.server.cluster().snapshot().now() > UnixNanos::ZERO);
}
