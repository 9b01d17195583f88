//! What an allocation makes of news that come too late.

use std::sync::Arc;

use protocol_model::{
    AllocId, AllocState, ClientStatus, DesiredStatus, Node, TaskEventKind, UnixNanos,
};

use super::{AllocRunner, World};
use crate::alloc_spec::AllocSpec;
use crate::effect::AllocHook;
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
    runner.update(spec(DesiredStatus::Stop), world, &mut out, at(1));
    runner.settle(world, &mut out, at(1));
    assert_eq!(runner.client_status().0, ClientStatus::Complete);
    let (hook, message) = (AllocHook::Directory, "no room".to_owned());
    runner.on_alloc_event(AllocEvent::PrepareFailed { hook, message }, &mut out, at(2));
    runner.settle(world, &mut out, at(2));
    assert_eq!(runner.client_status().0, ClientStatus::Complete);
}

#[test]
fn a_return_leaves_one_event_in_each_tasks_history() {
    let node = serde_json::from_value::<Node>(serde_json::json!({
        "ID": uuid::Uuid::nil(), "Name": "n", "Datacenter": "dc1",
    }))
    .expect("the fields of a node");
    let settings = Settings::new("/data/alloc", [0; 16]);
    let world = World {
        settings: &settings,
        node: &node,
    };
    let job = Arc::new(job_with_tasks("web", vec![task("main"), task("helper")]));
    let spec = |states: &[(ClientStatus, i64)]| {
        let mut alloc = alloc_of(&job, AllocId::from_u128(1));
        let state = |&(value, second)| AllocState {
            value,
            time: UnixNanos(second),
        };
        alloc.alloc_states = states.iter().map(state).collect();
        Arc::new(AllocSpec::new(alloc, Arc::clone(&job)).expect("the group exists"))
    };
    let (unknown, running) = (ClientStatus::Unknown, ClientStatus::Running);
    let mut out = Outbox::default();
    let mut runner = AllocRunner::new(spec(&[]), at(0));
    let mut told = |states: &[(ClientStatus, i64)]| {
        runner.update(spec(states), world, &mut out, at(1));
        let counts = runner.tasks.values().map(|task| {
            let events = task.state().events.iter();
            events
                .filter(|event| event.kind == TaskEventKind::Reconnected)
                .count()
        });
        counts.collect::<Vec<_>>()
    };
    assert_eq!(told(&[(unknown, 1)]), [0, 0], "nobody has decided yet");
    let returned = [(unknown, 1), (running, 2)];
    assert_eq!(told(&returned), [1, 1]);
    assert_eq!(
        told(&returned),
        [1, 1],
        "other news of it is not another return"
    );
    let away_again = [(unknown, 1), (running, 2), (unknown, 3)];
    assert_eq!(told(&away_again), [1, 1]);
    assert_eq!(told(&[(unknown, 3), (running, 4)]), [2, 2]);
}
