//! What an allocation makes of news that come too late.

use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus, DesiredStatus, Node};

use super::{AllocRunner, World};
use crate::alloc_spec::AllocSpec;
use crate::event::AllocEvent;
use crate::outbox::Outbox;
use crate::settings::Settings;
use crate::test_support::{alloc_of, at, job_with_tasks, task};

#[test]
fn a_directory_that_fails_after_the_stop_does_not_take_back_the_last_word() {
    let node = serde_json::from_value::<Node>(serde_json::json!({
        "ID": uuid::Uuid::nil(), "Name": "n", "Datacenter": "dc1",
    }))
    .expect("the fields of a node");
    let settings = Settings::new("/data/alloc", [0; 16]);
    let world = World {
        settings: &settings,
        node: &node,
    };
    let job = Arc::new(job_with_tasks("web", vec![task("main")]));
    let spec = |desired_status| {
        let mut alloc = alloc_of(&job, AllocId::from_u128(1));
        alloc.desired_status = desired_status;
        Arc::new(AllocSpec::new(alloc, Arc::clone(&job)).expect("the group exists"))
    };
    let mut out = Outbox::default();
    let mut runner = AllocRunner::new(spec(DesiredStatus::Run), at(0));
    runner.settle(world, &mut out, at(0));
    runner.update(spec(DesiredStatus::Stop), at(1));
    runner.settle(world, &mut out, at(1));
    assert_eq!(runner.client_status().0, ClientStatus::Complete);
    let message = "no room".to_owned();
    runner.on_alloc_event(AllocEvent::DirectoryFailed { message }, at(2));
    runner.settle(world, &mut out, at(2));
    assert_eq!(runner.client_status().0, ClientStatus::Complete);
}
