//! Silent allocations whose replacements are replaced in their turn: a number is one allocation's,
//! however many had it before.

use std::time::Duration;

use protocol_model::{Allocation, ClientStatus, DesiredStatus, JobType};

use super::{come_back, running, silence_first, status, successor, tolerant};
use crate::scene::{Scene, key};

const WINDOW: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(31);

/// Names of all that are wanted and not over, silent ones left out.
fn present(scene: &Scene) -> Vec<String> {
    let snapshot = scene.world.snapshot();
    let here = snapshot
        .allocs_by_job(&key("web"))
        .filter(|alloc| !alloc.terminal() && alloc.client_status != ClientStatus::Unknown);
    let mut names: Vec<_> = here.map(|alloc| alloc.name.clone()).collect();
    names.sort_unstable();
    names
}

fn register(scene: &mut Scene, count: u32) {
    scene
        .world
        .register(tolerant(JobType::Service, "web", count));
    scene.settle(&key("web"));
}

/// What its node is silent about, what took its place, and what took the place of that.
struct Chain {
    original: Allocation,
    middle: Allocation,
    last: Allocation,
}

/// The middle one failed, and was tried elsewhere.
fn chain(scene: &mut Scene) -> Chain {
    running(scene, tolerant(JobType::Service, "web", 1));
    let original = silence_first(scene);
    let middle = successor(scene, &original);
    scene.world.report(middle.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    scene.world.wait(RETRY);
    scene.settle(&key("web"));
    let last = successor(scene, &middle);
    scene.world.report(last.id, ClientStatus::Running);
    scene.settle(&key("web"));
    Chain {
        original,
        middle,
        last,
    }
}

#[test]
fn who_scales_up_gets_the_next_number_however_long_the_chain_is() {
    let mut scene = Scene::new(4);
    let chain = chain(&mut scene);
    register(&mut scene, 2);
    assert_eq!(present(&scene), ["web.group[0]", "web.group[1]"]);
    let original = successor(&scene, &chain.original);
    assert_eq!(original.id, chain.middle.id, "the chain is as it was");
}

#[test]
fn a_chain_whose_middle_is_collected_holds() {
    let mut scene = Scene::new(4);
    let chain = chain(&mut scene);
    scene.collect();
    assert!(scene.world.snapshot().alloc(chain.middle.id).is_none());
    register(&mut scene, 2);
    assert_eq!(present(&scene), ["web.group[0]", "web.group[1]"]);
    register(&mut scene, 1);
    assert_eq!(present(&scene), ["web.group[0]"]);
    assert_eq!(
        status(&scene, chain.last.id),
        (ClientStatus::Running, DesiredStatus::Run)
    );
}

#[test]
fn a_replacement_that_waits_for_its_next_attempt_is_tried_again_and_nobody_else_is_placed() {
    let mut scene = Scene::new(4);
    running(&mut scene, tolerant(JobType::Service, "web", 1));
    let original = silence_first(&mut scene);
    let middle = successor(&scene, &original);
    scene.world.report(middle.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    assert!(present(&scene).is_empty(), "it waits");
    scene.world.wait(RETRY);
    scene.settle(&key("web"));
    assert_eq!(present(&scene), ["web.group[0]"]);
    let last = successor(&scene, &middle);
    let attempts = last.reschedule_tracker.expect("it remembers").events.len();
    assert_eq!(attempts, 1);
    assert_eq!(successor(&scene, &original).id, middle.id);
}

#[test]
fn a_replacement_that_falls_silent_too_is_replaced_once() {
    let mut scene = Scene::new(5);
    running(&mut scene, tolerant(JobType::Service, "web", 1));
    let original = silence_first(&mut scene);
    scene.start_all(&key("web"));
    let middle = successor(&scene, &original);
    scene.world.report(middle.id, ClientStatus::Running);
    scene.world.silence(middle.node_id);
    scene.settle(&key("web"));
    assert_eq!(present(&scene), ["web.group[0]"]);
    register(&mut scene, 3);
    let three = ["web.group[0]", "web.group[1]", "web.group[2]"];
    assert_eq!(present(&scene), three);
    let last = successor(&scene, &middle);
    assert_eq!(successor(&scene, &original).id, middle.id);
    scene.start_all(&key("web"));
    scene.world.report(last.id, ClientStatus::Running);
    // Whoever of them is back first: one of each number stays.
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    assert_eq!(present(&scene), three);
    come_back(&mut scene, &middle);
    scene.settle(&key("web"));
    assert_eq!(present(&scene), three);
}

#[test]
fn a_chain_is_not_begun_anew_when_its_first_is_given_up() {
    let mut scene = Scene::new(4);
    let chain = chain(&mut scene);
    scene.world.wait(WINDOW);
    scene.settle(&key("web"));
    let given_up = (ClientStatus::Lost, DesiredStatus::Stop);
    assert_eq!(status(&scene, chain.original.id), given_up);
    register(&mut scene, 2);
    assert_eq!(present(&scene), ["web.group[0]", "web.group[1]"]);
    assert_eq!(
        status(&scene, chain.last.id),
        (ClientStatus::Running, DesiredStatus::Run)
    );
}

/// How far the chain is when the original is back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Point {
    MiddlePending,
    MiddleRunning,
    MiddleFailed,
    LastPending,
    LastRunning,
    MiddleCollected,
}

const POINTS: [Point; 6] = [
    Point::MiddlePending,
    Point::MiddleRunning,
    Point::MiddleFailed,
    Point::LastPending,
    Point::LastRunning,
    Point::MiddleCollected,
];

/// The chain up to `point`.
fn chain_until(scene: &mut Scene, point: Point) -> Allocation {
    running(scene, tolerant(JobType::Service, "web", 1));
    let original = silence_first(scene);
    let middle = successor(scene, &original);
    if point >= Point::MiddleRunning {
        scene.world.report(middle.id, ClientStatus::Running);
    }
    if point >= Point::MiddleFailed {
        scene.world.report(middle.id, ClientStatus::Failed);
    }
    scene.settle(&key("web"));
    if point >= Point::LastPending {
        scene.world.wait(RETRY);
        scene.settle(&key("web"));
        let last = successor(scene, &middle);
        if point >= Point::LastRunning {
            scene.world.report(last.id, ClientStatus::Running);
            scene.settle(&key("web"));
        }
    }
    if point == Point::MiddleCollected {
        scene.collect();
    }
    original
}

#[test]
fn the_original_is_back_at_each_point_of_the_chain_and_one_of_them_stays() {
    for point in POINTS {
        let mut scene = Scene::new(4);
        let original = chain_until(&mut scene, point);
        come_back(&mut scene, &original);
        scene.settle(&key("web"));
        assert_eq!(present(&scene), ["web.group[0]"], "{point:?}");
        scene.world.wait(Duration::from_secs(600));
        scene.settle(&key("web"));
        assert_eq!(present(&scene), ["web.group[0]"], "{point:?}, later");
    }
}

#[test]
fn whoever_scales_up_while_the_original_is_back_gets_each_number_once() {
    for point in POINTS {
        let mut scene = Scene::new(4);
        let original = chain_until(&mut scene, point);
        scene.world.register(tolerant(JobType::Service, "web", 2));
        come_back(&mut scene, &original);
        scene.settle(&key("web"));
        scene.world.wait(RETRY);
        scene.settle(&key("web"));
        let both = ["web.group[0]", "web.group[1]"];
        assert_eq!(present(&scene), both, "{point:?}");
    }
}

#[test]
fn a_silent_allocation_that_counts_leaves_its_number_to_nobody_else() {
    let mut scene = Scene::new(4);
    let patient = |count| {
        let mut job = tolerant(JobType::Service, "web", count);
        let block = job.task_groups[0].disconnect.as_mut().expect("set");
        block.replace = Some(false);
        job
    };
    running(&mut scene, patient(1));
    let original = silence_first(&mut scene);
    scene.world.register(patient(2));
    scene.settle(&key("web"));
    assert_eq!(present(&scene), ["web.group[1]"]);
    let silent = (ClientStatus::Unknown, DesiredStatus::Run);
    assert_eq!(status(&scene, original.id), silent);
}

#[test]
fn who_scales_down_keeps_what_runs_and_not_what_is_silent() {
    let mut scene = Scene::new(4);
    let patient = |count| {
        let mut job = tolerant(JobType::Service, "web", count);
        let block = job.task_groups[0].disconnect.as_mut().expect("set");
        block.replace = Some(false);
        job
    };
    running(&mut scene, patient(4));
    let silent = silence_first(&mut scene);
    assert_eq!(scene.live_count(&key("web")), 4);
    scene.world.register(patient(3));
    scene.settle(&key("web"));
    let there = ["web.group[1]", "web.group[2]", "web.group[3]"];
    assert_eq!(present(&scene), there);
    let not_needed = (ClientStatus::Unknown, DesiredStatus::Stop);
    assert_eq!(status(&scene, silent.id), not_needed);
    come_back(&mut scene, &silent);
    scene.settle(&key("web"));
    let stops = (ClientStatus::Running, DesiredStatus::Stop);
    assert_eq!(status(&scene, silent.id), stops);
    assert_eq!(present(&scene), there);
}
