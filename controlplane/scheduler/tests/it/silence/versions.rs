//! Versions that say something else of silent nodes: a node goes by what it was told.

use std::time::Duration;

use protocol_model::{ClientStatus, DesiredStatus, DisconnectStrategy, Job, JobType, TaskGroup};

use super::leases::{self, GIVEN_UP, WAITED_FOR, count, follower, leased, pass};
use super::{come_back, running, silence_first, status, successor, tolerant};
use crate::scene::{Scene, key};

type Change = fn(&mut TaskGroup);

fn block(group: &mut TaskGroup) -> &mut DisconnectStrategy {
    group.disconnect.get_or_insert_default()
}

fn no_block(group: &mut TaskGroup) {
    group.disconnect = None;
}

fn shorter_lease(group: &mut TaskGroup) {
    block(group).stop_on_client_after = Some(Duration::from_secs(5));
}

fn shorter_kill_timeout(group: &mut TaskGroup) {
    group.tasks[0].kill_timeout = Some(Duration::from_secs(1));
}

fn window_instead(group: &mut TaskGroup) {
    *block(group) = DisconnectStrategy {
        lost_after: Some(Duration::from_secs(5)),
        ..DisconnectStrategy::default()
    };
}

/// All that make a lease end sooner, or not at all.
const LESS: [Change; 4] = [
    shorter_lease,
    shorter_kill_timeout,
    no_block,
    window_instead,
];

fn changed(mut job: Job, change: Change) -> Job {
    change(&mut job.task_groups[0]);
    job.canonicalize();
    job
}

#[test]
fn a_newer_version_ends_no_lease_of_an_older_one_that_is_silent() {
    for (number, change) in LESS.into_iter().enumerate() {
        let (mut scene, alloc) = leases::scene(ClientStatus::Running);
        scene.world.silence(alloc.node_id);
        scene.settle(&key("web"));
        scene.world.register(changed(leased(), change));
        scene.settle(&key("web"));
        pass(&mut scene, 83);
        assert_eq!(status(&scene, alloc.id), WAITED_FOR, "{number}");
        assert_eq!(count(&scene), 1, "{number}");
        pass(&mut scene, 4);
        assert_eq!(status(&scene, alloc.id), GIVEN_UP, "{number}");
        assert_eq!(scene.live_count(&key("web")), 1, "{number}");
    }
}

#[test]
fn a_newer_version_of_which_its_node_did_not_hear_any_more_ends_no_lease() {
    for (number, change) in LESS.into_iter().enumerate() {
        let (mut scene, alloc) = leases::scene(ClientStatus::Running);
        scene.world.register(changed(leased(), change));
        scene.settle(&key("web"));
        scene.world.silence(alloc.node_id);
        scene.settle(&key("web"));
        pass(&mut scene, 83);
        assert_eq!(count(&scene), 1, "{number}");
        pass(&mut scene, 4);
        assert!(follower(&scene, &alloc).is_some(), "{number}");
        assert_eq!(scene.live_count(&key("web")), 1, "{number}");
    }
}

#[test]
fn a_lease_grows_in_place_and_whatever_else_becomes_of_it_starts_its_tasks_anew() {
    let longer: Change = |group| {
        block(group).stop_on_client_after = Some(Duration::from_secs(90));
    };
    let not_replaced: Change = |group| block(group).replace = Some(false);
    for (number, change) in [longer, not_replaced].into_iter().enumerate() {
        let (mut scene, _) = leases::scene(ClientStatus::Running);
        let eval = scene.world.register(changed(leased(), change));
        let report = scene.decide(&eval).groups["group"];
        assert_eq!((report.in_place, report.destructive), (1, 0), "{number}");
    }
    for (number, change) in LESS.into_iter().enumerate() {
        let (mut scene, _) = leases::scene(ClientStatus::Running);
        let eval = scene.world.register(changed(leased(), change));
        // What `job plan` shows.
        let report = scene.decide(&eval).groups["group"];
        assert_eq!((report.in_place, report.destructive), (0, 1), "{number}");
    }
    let mut scene = Scene::new(3);
    running(&mut scene, changed(leased(), no_block));
    let eval = scene.world.register(leased());
    let report = scene.decide(&eval).groups["group"];
    assert_eq!((report.in_place, report.destructive), (0, 1), "a first one");
}

#[test]
fn one_that_loses_its_lease_ends_before_another_one_is_placed() {
    let (mut scene, alloc) = leases::scene(ClientStatus::Running);
    scene.world.register(changed(leased(), no_block));
    scene.settle(&key("web"));
    let told = (ClientStatus::Running, DesiredStatus::Stop);
    assert_eq!(status(&scene, alloc.id), told);
    pass(&mut scene, 200);
    assert_eq!(count(&scene), 1, "nobody runs beside it");
    scene.world.report(alloc.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert!(follower(&scene, &alloc).is_some());
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn one_that_gets_a_lease_for_the_first_time_is_waited_for_while_its_node_is_there() {
    for falls_silent in [false, true] {
        let mut scene = Scene::new(3);
        running(&mut scene, changed(leased(), no_block));
        let alloc = scene.live(&key("web")).into_values().next().expect("one");
        scene.world.register(leased());
        scene.settle(&key("web"));
        pass(&mut scene, 200);
        assert_eq!(count(&scene), 1, "nobody runs beside it");
        if falls_silent {
            scene.world.silence(alloc.node_id);
        } else {
            scene.world.report(alloc.id, ClientStatus::Complete);
        }
        scene.settle(&key("web"));
        assert!(follower(&scene, &alloc).is_some(), "{falls_silent}");
    }
}

#[test]
fn a_newer_version_ends_no_window_of_an_older_one_that_is_silent() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Service, "web", 1));
    let silent = silence_first(&mut scene);
    let newer = changed(tolerant(JobType::Service, "web", 1), no_block);
    scene.world.register(newer);
    scene.settle(&key("web"));
    pass(&mut scene, 58);
    assert_eq!(status(&scene, silent.id), WAITED_FOR);
    pass(&mut scene, 4);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
}

#[test]
fn a_newer_version_replaces_nobody_whose_own_says_that_nobody_takes_its_place() {
    let mut scene = Scene::new(3);
    let waits: Change = |group| block(group).replace = Some(false);
    let job = tolerant(JobType::Service, "web", 1);
    running(&mut scene, changed(job.clone(), waits));
    let silent = silence_first(&mut scene);
    scene.world.register(job);
    scene.settle(&key("web"));
    pass(&mut scene, 58);
    assert_eq!(status(&scene, silent.id), WAITED_FOR);
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 4);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn of_a_pair_the_one_stays_that_their_own_version_wants() {
    let mut scene = Scene::new(3);
    let keep = |word: &str| {
        let mut job = tolerant(JobType::Service, "web", 1);
        block(&mut job.task_groups[0]).reconcile = Some(word.to_owned());
        job
    };
    running(&mut scene, keep("keep_replacement"));
    let original = silence_first(&mut scene);
    let replacement = successor(&scene, &original);
    scene.world.report(replacement.id, ClientStatus::Running);
    scene.world.register(keep("keep_original"));
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    let (_, desired) = status(&scene, original.id);
    assert_eq!(desired, DesiredStatus::Stop);
    let stays = (ClientStatus::Running, DesiredStatus::Run);
    assert_eq!(status(&scene, replacement.id), stays);
}
