//! Groups that their nodes stop by themselves (`stop_on_client_after`): nobody takes their place
//! while one of them may still run.

use std::time::Duration;

use controlplane_state::Command;
use controlplane_state::command::{DeploymentChange, DeploymentStatusUpdate, Unaccepted};
use hack_testkit::{jobs, nodes};
use protocol_model::{
    AllocId, Allocation, ClientStatus, DeploymentStatus, DesiredStatus, DisconnectStrategy, Job,
    JobType, NodeStatus, UpdateStrategy,
};

use super::{begin_drain, tolerant};
use crate::scene::{Scene, key};

/// Stops itself after a minute of silence, and takes up to 20 s to end.
pub(super) fn leased() -> Job {
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
pub(super) fn scene(status: ClientStatus) -> (Scene, Allocation) {
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

pub(super) fn count(scene: &Scene) -> usize {
    scene.world.snapshot().allocs_by_job(&key("web")).count()
}

pub(super) fn pass(scene: &mut Scene, seconds: u64) {
    for _ in 0..seconds {
        scene.world.wait(Duration::from_secs(1));
        scene.settle(&key("web"));
    }
}

pub(super) const WAITED_FOR: (ClientStatus, DesiredStatus) =
    (ClientStatus::Unknown, DesiredStatus::Run);
pub(super) const GIVEN_UP: (ClientStatus, DesiredStatus) =
    (ClientStatus::Lost, DesiredStatus::Stop);

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
fn a_look_that_is_due_and_dropped_for_a_newer_evaluation_is_not_relied_upon() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 50);
    // Its lease is longer now than the look that is to come knows.
    let number = (1..=3).find(|number| nodes::node(*number).id == alloc.node_id);
    scene.world.greet(nodes::node(number.expect("ours")));
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    scene.world.wait(Duration::from_secs(40));
    scene.world.register(leased());
    scene.run_newest(&key("web"));
    assert_eq!(status(&scene, alloc.id), WAITED_FOR);
    pass(&mut scene, 60);
    assert_eq!(status(&scene, alloc.id), GIVEN_UP);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn who_looks_at_the_end_of_a_lease_does_not_come_before_it() {
    let mut scene = Scene::new(3);
    let mut job = leased();
    // A minute and a half with the five percent, and a part of a second.
    job.task_groups[0].tasks[0].kill_timeout = Some(Duration::from_secs(25));
    scene.world.register(job);
    scene.settle(&key("web"));
    let alloc = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    let look = scene.world.pending(&key("web")).expect("the lease's end");
    let due = look.wait_until.expect("it waits");
    scene.world.wait(due.saturating_since(scene.world.now()));
    scene.settle(&key("web"));
    assert_eq!(status(&scene, alloc.id), GIVEN_UP);
}

#[test]
fn one_that_nobody_may_replace_is_waited_for_whatever_it_said_before() {
    for said in [ClientStatus::Running, ClientStatus::Pending] {
        let mut scene = Scene::new(3);
        let mut job = leased();
        let block = job.task_groups[0].disconnect.as_mut().expect("set");
        block.replace = Some(false);
        scene.world.register(job);
        scene.settle(&key("web"));
        let alloc = scene.live(&key("web")).into_values().next().expect("one");
        if said == ClientStatus::Running {
            scene.world.report(alloc.id, said);
        }
        scene.world.silence(alloc.node_id);
        scene.settle(&key("web"));
        pass(&mut scene, 200);
        assert_eq!(status(&scene, alloc.id), WAITED_FOR, "{said:?}");
        assert_eq!(count(&scene), 1, "{said:?}");
        let number = (1..=3).find(|number| nodes::node(*number).id == alloc.node_id);
        scene.world.add_node(nodes::node(number.expect("ours")));
        scene.world.report(alloc.id, ClientStatus::Complete);
        scene.settle(&key("web"));
        assert_eq!(
            scene.live_count(&key("web")),
            1,
            "{said:?}: its node says that it ended"
        );
        assert_eq!(count(&scene), 2, "{said:?}");
    }
}

#[test]
fn that_the_windows_of_others_on_its_node_end_makes_no_lease_longer() {
    let mut scene = Scene::new(1);
    let other = tolerant(JobType::Service, "other", 1);
    for job in [leased(), other] {
        let key = job.key();
        scene.world.register(job);
        scene.settle(&key);
        scene.start_all(&key);
        scene.settle(&key);
    }
    let alloc = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    scene.settle(&key("other"));
    pass(&mut scene, 61);
    scene.settle(&key("other"));
    let node = (alloc.node_id, scene.world.epoch(alloc.node_id));
    let nodes = vec![node];
    scene.world.expect(Command::WindowExpired { nodes });
    let snapshot = scene.world.snapshot();
    let record = snapshot.node(alloc.node_id).expect("its node");
    assert_eq!(record.node.status, NodeStatus::Down);
    pass(&mut scene, 22);
    assert_eq!(status(&scene, alloc.id), WAITED_FOR);
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

const ENDED: (ClientStatus, DesiredStatus) = (ClientStatus::Complete, DesiredStatus::Stop);

/// Another version, which is started anew.
fn updated() -> Job {
    let mut job = leased();
    let env = &mut job.task_groups[0].tasks[0].env;
    env.insert("NEW".to_owned(), "1".to_owned());
    job
}

/// What took the place of `alloc`, where somebody did.
pub(super) fn follower(scene: &Scene, alloc: &Allocation) -> Option<Allocation> {
    let snapshot = scene.world.snapshot();
    let next = snapshot.alloc(alloc.id)?.next_allocation?;
    snapshot.alloc(next).map(|next| Allocation::clone(next))
}

fn drain(scene: &mut Scene, alloc: &Allocation) {
    begin_drain(scene, alloc.node_id);
    scene.settle(&key("web"));
}

/// The node does not accept it in time.
fn is_not_accepted(scene: &mut Scene, alloc: &Allocation) {
    let expired = Unaccepted {
        node: alloc.node_id,
        epoch: scene.world.epoch(alloc.node_id),
        allocs: vec![alloc.id],
    };
    let nodes = vec![expired];
    scene.world.expect(Command::PendingExpired { nodes });
    scene.settle(&key("web"));
}

fn is_updated(scene: &mut Scene, _: &Allocation) {
    scene.world.register(updated());
    scene.settle(&key("web"));
}

/// How one of it comes to leave its node.
type Leaves = fn(&mut Scene, &Allocation);

const WAYS: [(ClientStatus, Leaves); 3] = [
    (ClientStatus::Running, is_updated),
    (ClientStatus::Running, drain),
    (ClientStatus::Pending, is_not_accepted),
];

#[test]
fn one_that_leaves_is_followed_when_its_node_says_that_it_ended_and_not_before() {
    for (said, leaves) in WAYS {
        let (mut scene, alloc) = scene(said);
        leaves(&mut scene, &alloc);
        assert_eq!(status(&scene, alloc.id), (said, DesiredStatus::Stop));
        assert_eq!(count(&scene), 1, "nobody runs beside it");
        pass(&mut scene, 200);
        assert_eq!(count(&scene), 1, "time alone changes nothing");
        scene.world.report(alloc.id, ClientStatus::Complete);
        scene.settle(&key("web"));
        assert_eq!(status(&scene, alloc.id), ENDED);
        let follower = follower(&scene, &alloc).expect("its place is taken");
        assert_eq!(follower.name, alloc.name);
        if leaves as usize != is_updated as Leaves as usize {
            assert_ne!(follower.node_id, alloc.node_id);
        }
    }
}

#[test]
fn one_that_leaves_a_node_that_falls_silent_is_followed_when_its_lease_is_over() {
    for (said, leaves) in WAYS {
        let (mut scene, alloc) = scene(said);
        leaves(&mut scene, &alloc);
        pass(&mut scene, 5);
        scene.world.silence(alloc.node_id);
        scene.settle(&key("web"));
        pass(&mut scene, 83);
        assert_eq!(count(&scene), 1, "{said:?}");
        pass(&mut scene, 4);
        assert!(follower(&scene, &alloc).is_some(), "{said:?}");
        assert_eq!(scene.live_count(&key("web")), 1, "{said:?}");
    }
}

#[test]
fn the_record_of_one_that_may_still_run_is_kept() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    is_updated(&mut scene, &alloc);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    scene.collect();
    pass(&mut scene, 83);
    scene.collect();
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 4);
    assert_eq!(scene.live_count(&key("web")), 1);
    scene.collect();
    assert!(scene.world.snapshot().alloc(alloc.id).is_none());
}

#[test]
fn one_whose_node_is_back_may_run_until_it_says_that_it_does_not() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    is_updated(&mut scene, &alloc);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    pass(&mut scene, 50);
    let number = (1..=3).find(|number| nodes::node(*number).id == alloc.node_id);
    scene.world.add_node(nodes::node(number.expect("ours")));
    scene.settle(&key("web"));
    pass(&mut scene, 200);
    assert_eq!(count(&scene), 1);
    scene.world.report(alloc.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert!(follower(&scene, &alloc).is_some());
}

#[test]
fn one_leaves_only_where_somebody_else_could_be_placed() {
    let mut scene = Scene::new(1);
    let eval = scene.world.register(leased());
    scene.run(&eval);
    let alloc = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.report(alloc.id, ClientStatus::Running);
    drain(&mut scene, &alloc);
    let stays = (ClientStatus::Running, DesiredStatus::Run);
    assert_eq!(status(&scene, alloc.id), stays);
}

#[test]
fn a_job_that_is_stopped_and_started_again_waits_for_what_it_left() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    let eval = scene.world.deregister(&key("web"));
    scene.run(&eval);
    scene.world.register(leased());
    scene.settle(&key("web"));
    assert_eq!(count(&scene), 1);
    let queued = |scene: &Scene| {
        let snapshot = scene.world.snapshot();
        let summary = snapshot.job_summary(&key("web"));
        summary.groups["group"].queued
    };
    assert_eq!(queued(&scene), 1, "it is said that one is missing");
    scene.world.report(alloc.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
    assert_eq!(queued(&scene), 0);
}

#[test]
fn a_job_that_is_stopped_while_a_node_is_silent_and_started_again_waits_for_the_lease() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    scene.world.silence(alloc.node_id);
    scene.settle(&key("web"));
    let eval = scene.world.deregister(&key("web"));
    scene.run(&eval);
    scene.world.register(leased());
    scene.settle(&key("web"));
    pass(&mut scene, 83);
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 4);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn others_of_the_group_do_not_wait_and_a_rollout_replaces_one_at_a_time() {
    let mut scene = Scene::new(5);
    let three = |mut job: Job| {
        let group = &mut job.task_groups[0];
        group.count = Some(3);
        group.update = Some(UpdateStrategy {
            max_parallel: Some(1),
            min_healthy_time: Some(Duration::from_secs(10)),
            ..UpdateStrategy::default()
        });
        job
    };
    scene.world.register(three(leased()));
    scene.settle(&key("web"));
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    scene.world.register(three(updated()));
    for step in 1..=3 {
        scene.settle(&key("web"));
        pass(&mut scene, 100);
        let snapshot = scene.world.snapshot();
        let ending = snapshot.allocs_by_job(&key("web"));
        let ending = ending.filter(|it| it.server_terminal() && !it.client_terminal());
        let ending: Vec<AllocId> = ending.map(|alloc| alloc.id).collect();
        assert_eq!(ending.len(), 1, "step {step}: one at a time");
        assert_eq!(scene.live_count(&key("web")), 2, "step {step}");
        scene.world.report(ending[0], ClientStatus::Complete);
        scene.settle(&key("web"));
        assert_eq!(scene.live_count(&key("web")), 3, "step {step}");
        scene.make_healthy(&key("web"));
    }
    scene.settle(&key("web"));
    let deployment = scene.deployment(&key("web")).expect("a deployment");
    assert_eq!(deployment.status, DeploymentStatus::Successful);
}

#[test]
fn a_rollout_that_is_paused_takes_the_place_of_what_it_stopped() {
    let (mut scene, alloc) = scene(ClientStatus::Running);
    let paused = |mut job: Job| {
        job.task_groups[0].update = Some(UpdateStrategy {
            max_parallel: Some(1),
            min_healthy_time: Some(Duration::from_secs(10)),
            ..UpdateStrategy::default()
        });
        job
    };
    scene.world.register(paused(updated()));
    scene.settle(&key("web"));
    let id = scene.deployment(&key("web")).expect("a deployment").id;
    let change = DeploymentChange {
        id,
        status: DeploymentStatus::Paused,
        description: String::new(),
        from: None,
    };
    scene
        .world
        .expect(Command::DeploymentStatus(DeploymentStatusUpdate {
            change,
            revert: None,
            eval: None,
        }));
    scene.world.report(alloc.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
}
