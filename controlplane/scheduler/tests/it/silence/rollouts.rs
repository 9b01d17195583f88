//! Rollouts while a node is silent: nobody waits for the health of what is silent.

use std::time::Duration;

use protocol_model::{
    AllocId, Allocation, ClientStatus, DeploymentStatus, DesiredStatus, Job, JobType,
    UpdateStrategy,
};

use super::{come_back, status, tolerant};
use crate::scene::{Scene, key};

/// Three, of which one at a time is updated to what this argument says.
fn version(argument: &str, replace: bool) -> Job {
    let mut job = tolerant(JobType::Service, "web", 3);
    let group = &mut job.task_groups[0];
    let config = &mut group.tasks[0].config;
    config.insert("args".to_owned(), vec![argument].into());
    group.disconnect.as_mut().expect("set").replace = Some(replace);
    group.update = Some(UpdateStrategy {
        max_parallel: Some(1),
        min_healthy_time: Some(Duration::from_secs(10)),
        ..UpdateStrategy::default()
    });
    job.canonicalize();
    job
}

/// Everything that can be heard runs and is healthy, and the scheduler sees it.
fn get_healthy(scene: &mut Scene) {
    let snapshot = scene.world.snapshot();
    let live = snapshot.allocs_by_job(&key("web"));
    for alloc in live.filter(|alloc| !alloc.terminal()) {
        let node = snapshot.node(alloc.node_id).expect("known");
        let judged = alloc.deployment_status.as_ref().and_then(|it| it.healthy);
        if node.node.ready() && judged.is_none() && alloc.deployment_id.is_some() {
            scene.world.report_health(alloc.id, true);
        }
    }
    scene.settle(&key("web"));
}

/// The first version is everywhere, and the second begins, on one of three.
fn second_version_begins(replace: bool) -> (Scene, Allocation) {
    let mut scene = Scene::new(5);
    scene.world.register(version("one", replace));
    scene.settle(&key("web"));
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    scene.world.register(version("two", replace));
    scene.settle(&key("web"));
    let first = of_version(&scene, 1).pop().expect("one at a time");
    scene.world.report(first.id, ClientStatus::Running);
    scene.settle(&key("web"));
    assert_eq!(of_version(&scene, 1).len(), 1, "one at a time");
    (scene, first)
}

/// What is wanted of a version and not over.
fn of_version(scene: &Scene, version: u64) -> Vec<Allocation> {
    let snapshot = scene.world.snapshot();
    let live = snapshot.allocs_by_job(&key("web"));
    let ours = live.filter(|alloc| !alloc.terminal() && alloc.job_version == version);
    ours.map(|alloc| Allocation::clone(alloc)).collect()
}

fn deployment(scene: &Scene) -> DeploymentStatus {
    scene.deployment(&key("web")).expect("a deployment").status
}

fn silence(scene: &mut Scene, alloc: AllocId) {
    let node = scene.node_of(alloc);
    scene.world.silence(node);
    scene.settle(&key("web"));
}

#[test]
fn a_member_that_falls_silent_before_it_is_healthy_does_not_hold_the_others_up() {
    let (mut scene, first) = second_version_begins(false);
    silence(&mut scene, first.id);
    let waited_for = (ClientStatus::Unknown, DesiredStatus::Run);
    assert_eq!(status(&scene, first.id), waited_for);
    assert_eq!(of_version(&scene, 1).len(), 2, "the next one is replaced");
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    come_back(&mut scene, &first);
    scene.settle(&key("web"));
    let stands = (ClientStatus::Running, DesiredStatus::Run);
    assert_eq!(status(&scene, first.id), stands);
    assert_eq!(of_version(&scene, 1).len(), 3);
}

#[test]
fn what_replaces_a_silent_member_is_waited_for() {
    let (mut scene, first) = second_version_begins(true);
    silence(&mut scene, first.id);
    // The silent one, and its replacement.
    assert_eq!(of_version(&scene, 1).len(), 2);
    assert_eq!(of_version(&scene, 0).len(), 2);
    scene.world.wait(Duration::from_secs(30));
    scene.settle(&key("web"));
    assert_eq!(of_version(&scene, 0).len(), 2, "nobody is healthy yet");
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 0).len(), 1);
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
    get_healthy(&mut scene);
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    assert_eq!(of_version(&scene, 0).len(), 0);
}

#[test]
fn an_older_one_that_is_silent_and_waited_for_fails_no_rollout_and_follows_when_it_is_back() {
    let (mut scene, first) = second_version_begins(false);
    let older = of_version(&scene, 0).pop().expect("two");
    assert_ne!(older.node_id, first.node_id);
    silence(&mut scene, older.id);
    assert_eq!(of_version(&scene, 1).len(), 1, "one at a time");
    get_healthy(&mut scene);
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 1).len(), 2);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    come_back(&mut scene, &older);
    scene.settle(&key("web"));
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(status(&scene, older.id).1, DesiredStatus::Stop);
}

#[test]
fn a_rollout_of_which_nothing_can_be_heard_is_not_done() {
    let (mut scene, _) = second_version_begins(false);
    for version in [1, 0, 0] {
        let heard = of_version(&scene, version).into_iter();
        let mut heard = heard.filter(|alloc| alloc.client_status != ClientStatus::Unknown);
        let next = heard.next().map(|alloc| alloc.id);
        next.into_iter().for_each(|id| silence(&mut scene, id));
    }
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
}

#[test]
fn one_that_was_healthy_and_fell_silent_counts_once() {
    let (mut scene, first) = second_version_begins(false);
    get_healthy(&mut scene);
    silence(&mut scene, first.id);
    let others = of_version(&scene, 1).len();
    assert_eq!(others, 2, "the next one is being replaced");
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(
        deployment(&scene),
        DeploymentStatus::Running,
        "two of three"
    );
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
}
