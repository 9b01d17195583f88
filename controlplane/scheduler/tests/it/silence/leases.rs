//! Groups that their nodes stop by themselves (`stop_on_client_after`): nobody takes their place
//! while one of them may still run.

use std::time::Duration;

use hack_testkit::{jobs, nodes};
use protocol_model::{
    AllocId, Allocation, ClientStatus, DesiredStatus, DisconnectStrategy, Job, JobType,
};

use crate::scene::{Scene, key};

/// Stops itself after a minute of silence, and takes up to 20 s to end.
fn leased() -> Job {
    let mut job = jobs::draft(JobType::Service, "web", 1);
    let group = &mut job.task_groups[0];
    group.tasks[0].kill_timeout = Some(Duration::from_secs(20));
    group.disconnect = Some(DisconnectStrategy {
        stop_on_client_after: Some(Duration::from_secs(60)),
        ..DisconnectStrategy::default()
    });
    job.canonicalize();
    job
}

/// Three nodes, and one of it on one of them.
fn scene(status: ClientStatus) -> (Scene, Allocation) {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(leased());
    scene.run(&eval);
    let alloc = scene.live(&key("web")).into_values().next().expect("one");
    if status != ClientStatus::Pending {
        scene.world.report(alloc.id, status);
    }
    (scene, alloc)
}

fn status(scene: &Scene, id: AllocId) -> (ClientStatus, DesiredStatus) {
    let snapshot = scene.world.snapshot();
    let alloc = snapshot.alloc(id).expect("it is known");
    (alloc.client_status, alloc.desired_status)
}

fn count(scene: &Scene) -> usize {
    scene.world.snapshot().allocs_by_job(&key("web")).count()
}

fn pass(scene: &mut Scene, seconds: u64) {
    for _ in 0..seconds {
        scene.world.wait(Duration::from_secs(1));
        scene.settle(&key("web"));
    }
}

const WAITED_FOR: (ClientStatus, DesiredStatus) = (ClientStatus::Unknown, DesiredStatus::Run);
const GIVEN_UP: (ClientStatus, DesiredStatus) = (ClientStatus::Lost, DesiredStatus::Stop);

#[test]
fn a_silent_one_is_replaced_when_nothing_of_it_can_run_any_more_and_not_before() {
    for said in [ClientStatus::Running, ClientStatus::Pending] {
        let (mut scene, alloc) = scene(said);
        scene.world.silence(alloc.node_id);
        scene.settle(&key("web"));
        // A minute, the kill timeout, and five percent of both.
        pass(&mut scene, 83);
        assert_eq!(status(&scene, alloc.id), WAITED_FOR, "{said:?}");
        assert_eq!(count(&scene), 1, "{said:?}");
        pass(&mut scene, 4);
        assert_eq!(status(&scene, alloc.id), GIVEN_UP, "{said:?}");
        assert_eq!(scene.live_count(&key("web")), 1, "{said:?}");
    }
}

#[test]
fn one_that_is_back_in_time_stays() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 50);
    let number = (1..=3).find(|number| nodes::node(*number).id == alloc.node_id);
    scene.world.add_node(nodes::node(number.expect("ours")));
    scene.world.report(alloc.id, ClientStatus::Running);
    scene.settle(&key("web"));
    pass(&mut scene, 100);
    let stays = (ClientStatus::Running, DesiredStatus::Run);
    assert_eq!(status(&scene, alloc.id), stays);
    assert_eq!(count(&scene), 1);
}

#[test]
fn one_whose_node_knocked_and_fell_silent_again_may_run_from_then_on_as_long() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 50);
    let number = (1..=3).find(|number| nodes::node(*number).id == alloc.node_id);
    scene.world.greet(nodes::node(number.expect("ours")));
    pass(&mut scene, 100);
    assert_eq!(status(&scene, alloc.id), WAITED_FOR, "it owes its report");
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 83);
    assert_eq!(status(&scene, alloc.id), WAITED_FOR);
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 4);
    assert_eq!(status(&scene, alloc.id), GIVEN_UP);
}

#[test]
fn one_that_its_node_stopped_before_anybody_noticed_is_wanted_still() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    scene.world.report(alloc.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
    assert_eq!(count(&scene), 2);
}

#[test]
fn an_update_does_not_place_beside_one_that_may_still_run() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    let mut job = leased();
    let env = &mut job.task_groups[0].tasks[0].env;
    env.insert("NEW".to_owned(), "1".to_owned());
    let eval = scene.world.register(job);
    scene.run(&eval);
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 90);
    assert_eq!(status(&scene, alloc.id), GIVEN_UP);
    assert_eq!(scene.live_count(&key("web")), 1);
}
