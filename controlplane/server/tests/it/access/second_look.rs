//! The leader's second look: a write that a follower allowed and that its caller may not make any
//! more is not made. The test is the follower: it sends what a follower sends.

use bytes::Bytes;
use controlplane_state::command::AclPolicies;
use controlplane_state::{Command, NodePool, Stamped, codec};
use protocol_model::UnixNanos;
use protocol_transport::{Region, Role, StreamKind};
use protocol_wire::kind::from_frame;
use protocol_wire::v1::propose_error::Kind;
use protocol_wire::v1::{self, caller};

use super::{Holder, delete, policy, token};
use crate::fake_node::{open, write};
use crate::regions::{connect, identity};
use crate::world::{PATIENCE, World};

/// A world, and a connection to it as another server of its cluster.
pub(crate) async fn world() -> (World, quinn::Connection) {
    let world = World::start_with(|config| config.acl_enabled = true).await;
    let region = Region::global();
    let follower = connect(&world, &identity(&world, Role::Server, region.as_str())).await;
    (world, follower)
}

/// A command that needs `write` on the node pool `gpu`.
pub(crate) fn write_pool() -> Command {
    let pool = NodePool {
        name: "gpu".to_owned(),
        ..NodePool::default()
    };
    Command::NodePoolUpsert { pool }
}

/// The origin of a request of this caller that needs `write` on the node pool `gpu`.
fn asker(kind: caller::Kind, accessor_id: &str) -> v1::Asker {
    let right = v1::requirement::Right::NodePool(v1::NodePoolRight {
        node_pool: "gpu".to_owned(),
        capability: protocol_access::NodePoolCapability::Write.id().into(),
    });
    asker_of(kind, accessor_id, right)
}

fn asker_of(kind: caller::Kind, accessor_id: &str, right: v1::requirement::Right) -> v1::Asker {
    let caller = v1::Caller {
        kind: kind.into(),
        accessor_id: accessor_id.to_owned(),
        address: "127.0.0.1".to_owned(),
        requirements: vec![v1::Requirement { right: Some(right) }],
        workload: None,
    };
    v1::Asker {
        origin: Some(v1::asker::Origin::Caller(caller)),
    }
}

fn token_asker(holder: &Holder) -> v1::Asker {
    asker(caller::Kind::Token, &holder.accessor_id)
}

/// The leader's answer to a forwarded command: the kind of its refusal, if it is one.
pub(crate) async fn forwarded(
    follower: &quinn::Connection,
    command: Command,
    asker: Option<v1::Asker>,
) -> Option<Kind> {
    let stamped = Stamped {
        now: UnixNanos(1),
        seed: [7; 16],
        command,
    };
    let command = Bytes::from(codec::encode(&stamped).expect("bytes"));
    let (mut writer, mut reader) = open(follower, StreamKind::Forward).await;
    write(&mut writer, &v1::ProposeRequest { command, asker }).await;
    let frame = tokio::time::timeout(PATIENCE, reader.expect()).await;
    let frame = frame.expect("in time").expect("it is answered");
    let reply: v1::ProposeReply = from_frame(frame.kind, frame.body).expect("a reply");
    reply.error.map(|error| error.kind())
}

fn has_pool(world: &World) -> bool {
    world.server.cluster().snapshot().node_pool("gpu").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_made_only_while_its_caller_has_the_right() {
    let (world, follower) = world().await;
    let cluster = world.server.cluster();
    policy(cluster, "pools", "node_pool \"*\" { policy = \"write\" }").await;
    policy(cluster, "nodes", "node { policy = \"write\" }").await;
    let deleted = token(cluster, &["pools"]).await;
    delete(cluster, &deleted).await;
    let other = token(cluster, &["nodes"]).await;
    for asker in [
        token_asker(&deleted),
        token_asker(&other),
        asker(caller::Kind::Anonymous, ""),
        asker(caller::Kind::Open, ""),
        asker(caller::Kind::Unspecified, ""),
        v1::Asker::default(),
    ] {
        let refused = forwarded(&follower, write_pool(), Some(asker.clone())).await;
        assert_eq!(refused, Some(Kind::Denied), "{asker:?}");
    }
    assert!(!has_pool(&world));
    let holder = token(cluster, &["pools"]).await;
    assert_eq!(
        forwarded(&follower, write_pool(), Some(token_asker(&holder))).await,
        None
    );
    assert!(has_pool(&world));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_commands_of_older_releases_may_come_without_an_origin() {
    let (world, follower) = world().await;
    assert_eq!(forwarded(&follower, write_pool(), None).await, None);
    assert!(
        has_pool(&world),
        "a release without origins knows this command"
    );
    let command = AclPolicies::Upsert {
        policies: vec![controlplane_state::AclPolicy {
            name: "anonymous".to_owned(),
            rules: "operator { policy = \"write\" }".to_owned(),
            ..controlplane_state::AclPolicy::default()
        }],
    };
    let refused = forwarded(&follower, command.into(), None).await;
    assert_eq!(refused, Some(Kind::Denied));
    assert!(
        world
            .server
            .cluster()
            .snapshot()
            .acl_policy("anonymous")
            .is_none()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_with_a_host_volume_is_written_only_while_its_caller_may_mount_it() {
    let (world, follower) = world().await;
    let cluster = world.server.cluster();
    let mount = |source: &str| format!("host_volume \"{source}\" {{ policy = \"read\" }}");
    policy(cluster, "mounts", &mount("data")).await;
    let holder = token(cluster, &["mounts"]).await;
    let reads = protocol_access::HostVolumeCapability::MountReadonly.id();
    let writes = protocol_access::HostVolumeCapability::MountReadwrite.id();
    let asker = |any: &[u8]| {
        let right = v1::requirement::Right::HostVolume(v1::HostVolumeRight {
            volume: "data".to_owned(),
            any: any.iter().copied().map(u32::from).collect(),
        });
        Some(asker_of(caller::Kind::Token, &holder.accessor_id, right))
    };
    for refused in [asker(&[writes]), asker(&[]), asker(&[99])] {
        let refused = forwarded(&follower, write_pool(), refused).await;
        assert_eq!(refused, Some(Kind::Denied));
    }
    let both = asker(&[writes, reads]);
    assert_eq!(forwarded(&follower, write_pool(), both.clone()).await, None);
    policy(cluster, "mounts", &mount("other")).await;
    let refused = forwarded(&follower, write_pool(), both).await;
    assert_eq!(refused, Some(Kind::Denied));
}
