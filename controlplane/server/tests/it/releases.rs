//! Servers of different releases: what one of them cannot read does not enter the log.

use protocol_transport::{Region, Role, StreamKind};
use protocol_wire::kind::from_frame;
use protocol_wire::v1;

use crate::fake_node::{open, write};
use crate::regions::{connect, identity};
use crate::world::{PATIENCE, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_the_leader_does_not_know_is_refused_with_its_name_and_release() {
    let world = World::start().await;
    let region = Region::global();
    let newer = connect(&world, &identity(&world, Role::Server, region.as_str())).await;
    let before = world.server.cluster().status().last_index;
    let (mut writer, mut reader) = open(&newer, StreamKind::Forward).await;
    let command = bytes::Bytes::from_static(&[0xff; 32]);
    write(
        &mut writer,
        &v1::ProposeRequest {
            command,
            asker: None,
        },
    )
    .await;
    let frame = tokio::time::timeout(PATIENCE, reader.expect()).await;
    let frame = frame.expect("in time").expect("it is answered");
    let reply: v1::ProposeReply = from_frame(frame.kind, frame.body).expect("a reply");
    let error = reply.error.expect("it is refused");
    assert_eq!(error.kind(), v1::propose_error::Kind::OldServer);
    let status = world.server.cluster().status();
    let release = env!("CARGO_PKG_VERSION");
    for part in [
        status.id.to_string(),
        format!("runs release {release}, which cannot read"),
    ] {
        assert!(error.message.contains(&part), "{}", error.message);
    }
    assert_eq!(status.last_index, before);
}
