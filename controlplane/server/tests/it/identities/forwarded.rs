//! Writes of tasks: the server that is asked judges them, and the leader judges them again.

use controlplane_state::command::AclPolicies;
use protocol_access::VariableCapability;
use protocol_client::{ClientError, Query};
use protocol_model::ClientStatus;
use protocol_wire::v1::propose_error::Kind;

use super::tokens::{join_rules, report};
use super::*;
use crate::access::second_look::{forwarded, world, write_pool};
use crate::three;
use crate::world::refusal;

const OWN: [&str; 4] = ["default", "web", "web", "server"];
const WRITES: (&str, &str) = (
    "writes",
    "namespace \"default\" { variables { path \"app/*\" { capabilities = [\"write\"] } } }",
);

async fn forget(server: &Server) {
    let names = vec![WRITES.0.to_owned()];
    let command = AclPolicies::Delete { names };
    let changed = server.cluster().change(command.into()).await;
    changed.expect("deleted");
}

/// The origin of a write of `app/a` by the task `server` of an allocation.
fn asker(alloc: AllocId, root_key: [u8; 16]) -> v1::Asker {
    let right = v1::requirement::Right::Variable(v1::VariableRight {
        namespace: "default".to_owned(),
        path: "app/a".to_owned(),
        capability: VariableCapability::Write.id().into(),
    });
    let caller = v1::Caller {
        kind: v1::caller::Kind::Workload.into(),
        requirements: vec![v1::Requirement { right: Some(right) }],
        workload: Some(v1::WorkloadCaller {
            alloc_id: alloc.as_bytes().to_vec().into(),
            task: "server".to_owned(),
            root_key: root_key.to_vec().into(),
            expires_at: 0,
        }),
        ..v1::Caller::default()
    };
    v1::Asker {
        origin: Some(v1::asker::Origin::Caller(caller)),
    }
}

/// `asker` with its workload changed.
fn bent(asker: &v1::Asker, bend: impl FnOnce(&mut v1::WorkloadCaller)) -> v1::Asker {
    let mut asker = asker.clone();
    if let Some(v1::asker::Origin::Caller(caller)) = &mut asker.origin {
        bend(caller.workload.as_mut().expect("a workload"));
    }
    asker
}

/// The test is the follower: it sends the write that it let in.
#[tokio::test(flavor = "multi_thread")]
async fn forwarded_write_needs_a_live_task_its_key_and_its_policy() {
    let (world, follower) = world().await;
    let (node, alloc) = placed(&world).await;
    let snapshot = world.server.cluster().snapshot();
    let key = snapshot.active_root_key().expect("a key").id;
    let own = asker(alloc, *key.as_bytes());
    let ask = async |asker: &v1::Asker| {
        let asker = Some(asker.clone());
        forwarded(&follower, write_pool(), asker).await
    };
    assert_eq!(ask(&own).await, Some(Kind::Denied), "without a policy");
    join_rules(&world.server, WRITES, OWN).await;
    assert_eq!(ask(&own).await, None);
    for (what, asker) in [
        (
            "another task",
            bent(&own, |it| it.task = "other".to_owned()),
        ),
        (
            "an unknown allocation",
            asker(AllocId::from_u128(9), *key.as_bytes()),
        ),
        ("an unknown key", asker(alloc, [9; 16])),
        ("an expired token", bent(&own, |it| it.expires_at = 1)),
        (
            "an id that is none",
            bent(&own, |it| it.alloc_id = vec![1].into()),
        ),
    ] {
        assert_eq!(ask(&asker).await, Some(Kind::Denied), "{what}");
    }
    forget(&world.server).await;
    assert_eq!(ask(&own).await, Some(Kind::Denied), "its policy is gone");
    join_rules(&world.server, WRITES, OWN).await;
    assert_eq!(ask(&own).await, None);
    report(&node, alloc, ClientStatus::Complete).await;
    assert_eq!(ask(&own).await, Some(Kind::Denied), "it is over");
}

/// A task that asks a server for a write of `app/a`.
async fn write_at(server: &Server, token: &str) -> Result<(), ClientError> {
    let client = three::client(server).with_token(Some(token.to_owned()));
    let body = json!({ "Items": { "word": "written" } });
    let query = Query::new();
    client
        .put::<_, Value>("/v1/var/app/a", &query, &body)
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn task_writes_at_every_server_while_its_policy_and_it_last() {
    let root = tempfile::tempdir().expect("a directory");
    let servers = three::cluster_with(root.path(), |config| {
        config.acl_enabled = true;
        config.liveness.silence = std::time::Duration::from_secs(3600);
    })
    .await;
    let client = three::client(&servers[1]);
    let (node, alloc) = placed_at(&servers[1], root.path(), &client).await;
    let token = token(&node, alloc, "default").await;
    let all_refuse = async |why: &str| {
        for server in &servers {
            let (status, text) = refusal(write_at(server, &token).await);
            assert_eq!((status, text.as_str()), (403, "Permission denied"), "{why}");
        }
    };
    all_refuse("without a policy").await;
    for round in 0..3 {
        // Another server than the one that is asked takes the change of the policy.
        join_rules(&servers[round], WRITES, OWN).await;
        for server in &servers {
            write_at(server, &token).await.expect("it may write");
        }
        forget(&servers[(round + 1) % 3]).await;
        all_refuse("its policy is gone").await;
    }
    join_rules(&servers[0], WRITES, OWN).await;
    report(&node, alloc, ClientStatus::Complete).await;
    all_refuse("it is over").await;
}
