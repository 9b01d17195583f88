//! An operator stops one that is silent, and does not want to wait for its node.

use std::time::Duration;

use hack_testkit::jobs;
use protocol_model::{
    AllocId, Allocation, ClientStatus, DesiredStatus, DisconnectStrategy, Job, JobType,
};

use super::leases::{leased, pass};
use super::{come_back, running, silence_first, status, successor, tolerant};
use crate::scene::{Scene, key};

const WAITED_FOR: (ClientStatus, DesiredStatus) = (ClientStatus::Unknown, DesiredStatus::Run);
const GIVEN_UP: (ClientStatus, DesiredStatus) = (ClientStatus::Lost, DesiredStatus::Stop);
const STOPPED: (ClientStatus, DesiredStatus) = (ClientStatus::Unknown, DesiredStatus::Stop);

fn stop(scene: &mut Scene, alloc: AllocId) {
    scene.world.stop_alloc(alloc);
    scene.settle(&key("web"));
}

fn waits(window: Option<Duration>) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.task_groups[0].disconnect = Some(DisconnectStrategy {
        lost_after: window,
        replace: Some(false),
        ..DisconnectStrategy::default()
    });
    job.canonicalize();
    job
}

fn count(scene: &Scene) -> usize {
    scene.world.snapshot().allocs_by_job(&key("web")).count()
}

/// Whether exactly `alone` is wanted of the group.
fn is_alone(scene: &Scene, alone: &Allocation) -> bool {
    let live = scene.live(&key("web"));
    live.len() == 1 && live.values().all(|alloc| alloc.id == alone.id)
}

#[test]
fn who_is_waited_for_is_stopped_and_followed_at_once() {
    for window in [None, Some(Duration::from_secs(600))] {
        let mut scene = Scene::new(3);
        running(&mut scene, waits(window));
        let silent = silence_first(&mut scene);
        assert_eq!(status(&scene, silent.id), WAITED_FOR);
        stop(&mut scene, silent.id);
        assert_eq!(status(&scene, silent.id), STOPPED, "{window:?}");
        let follower = successor(&scene, &silent);
        assert!(is_alone(&scene, &follower), "{window:?}");
        come_back(&mut scene, &silent);
        pass(&mut scene, 700);
        assert!(is_alone(&scene, &follower), "{window:?}: it is not wanted");
        assert_eq!(count(&scene), 2, "{window:?}");
    }
}

#[test]
fn who_was_replaced_is_stopped_and_nobody_else_comes() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Service, "web", 1));
    let silent = silence_first(&mut scene);
    let replacement = successor(&scene, &silent);
    scene.start_all(&key("web"));
    stop(&mut scene, silent.id);
    assert_eq!(status(&scene, silent.id), STOPPED);
    assert!(is_alone(&scene, &replacement));
    pass(&mut scene, 100);
    assert!(is_alone(&scene, &replacement));
    assert_eq!(count(&scene), 2);
}

#[test]
fn where_nobody_else_has_room_it_is_waited_for_within_its_window() {
    let mut scene = Scene::new(1);
    running(&mut scene, waits(Some(Duration::from_secs(60))));
    let silent = silence_first(&mut scene);
    stop(&mut scene, silent.id);
    assert_eq!(status(&scene, silent.id), WAITED_FOR);
    pass(&mut scene, 61);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
}

#[test]
fn one_on_a_lease_that_nobody_replaces_is_followed_when_its_lease_is_over() {
    let mut scene = Scene::new(3);
    let mut job = leased();
    let block = job.task_groups[0].disconnect.as_mut().expect("set");
    block.replace = Some(false);
    running(&mut scene, job);
    let silent = silence_first(&mut scene);
    pass(&mut scene, 10);
    stop(&mut scene, silent.id);
    // A minute until its node stops it, 20 s in which it ends, and five percent.
    pass(&mut scene, 73);
    assert_eq!(count(&scene), 1, "it may still run");
    pass(&mut scene, 2);
    let follower = successor(&scene, &silent);
    assert!(is_alone(&scene, &follower));
}

#[test]
fn one_of_a_system_job_is_stopped() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::System, "web", 1));
    let silent = silence_first(&mut scene);
    assert_eq!(status(&scene, silent.id), WAITED_FOR);
    stop(&mut scene, silent.id);
    assert_eq!(status(&scene, silent.id), STOPPED);
}
