//! Nodes that are ready and say nothing of what was placed on them.

use controlplane_state::Command;
use controlplane_state::command::Unaccepted;
use hack_testkit::{jobs, nodes};
use protocol_model::{Allocation, ClientStatus, DesiredStatus, EvalStatus, JobType};

use crate::scene::{Scene, key};

/// What was placed, and waited for in vain.
fn waited(nodes: u8) -> (Scene, Allocation) {
    let mut scene = Scene::new(nodes);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 1));
    scene.run(&eval);
    let alloc = scene.live(&key("web")).into_values().next().expect("one");
    let expired = Unaccepted {
        node: alloc.node_id,
        epoch: scene.world.epoch(alloc.node_id),
        allocs: vec![alloc.id],
    };
    let nodes = vec![expired];
    scene.world.expect(Command::PendingExpired { nodes });
    scene.settle(&key("web"));
    (scene, alloc)
}

#[test]
fn hole_9_what_its_node_does_not_accept_is_placed_on_another_one() {
    let (scene, alloc) = waited(3);
    let snapshot = scene.world.snapshot();
    let original = snapshot.alloc(alloc.id).expect("it is known");
    assert_eq!(original.desired_status, DesiredStatus::Stop);
    let live = scene.live(&key("web"));
    assert_eq!(live.len(), 1);
    for replacement in live.values().filter(|it| it.id != alloc.id) {
        assert_ne!(replacement.node_id, alloc.node_id);
        assert_eq!(replacement.previous_allocation, Some(alloc.id));
    }
}

#[test]
fn where_no_other_node_has_room_it_waits_on_and_somebody_waits_for_room() {
    let (mut scene, alloc) = waited(1);
    let live = scene.live(&key("web"));
    assert_eq!(
        live.values().map(|it| it.id).collect::<Vec<_>>(),
        [alloc.id]
    );
    let snapshot = scene.world.snapshot();
    let blocked = snapshot
        .evals_by_job(&key("web"))
        .find(|eval| eval.status == EvalStatus::Blocked)
        .map(|eval| protocol_model::Evaluation::clone(eval))
        .expect("it waits for room");
    // Its node is slow, and not broken.
    scene.world.report(alloc.id, ClientStatus::Running);
    scene.world.add_node(nodes::node(2));
    scene.run(&blocked);
    let live = scene.live(&key("web"));
    assert_eq!(
        live.values().map(|it| it.id).collect::<Vec<_>>(),
        [alloc.id]
    );
}
