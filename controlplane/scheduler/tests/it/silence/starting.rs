//! Hosts that booted while they were silent: what comes back is started anew, and its node may say
//! so before it runs.

use std::time::Duration;

use controlplane_state::Command;
use hack_testkit::nodes;
use protocol_model::{AllocId, Allocation, ClientStatus, DesiredStatus, Eligibility, JobType};

use super::{begin_drain, come_back_as, running, silence_first, status, successor, tolerant};
use crate::scene::{Scene, key};

/// A pair by this word: the replacement runs, and the original is back and starts.
fn starting(reconcile: &str) -> (Scene, Allocation, Allocation) {
    starting_beside(ClientStatus::Running, reconcile)
}

/// The same, and the replacement, which ran, is as `status` says.
fn starting_beside(status: ClientStatus, reconcile: &str) -> (Scene, Allocation, Allocation) {
    let mut scene = Scene::new(3);
    let mut job = tolerant(JobType::Service, "web", 1);
    let block = job.task_groups[0].disconnect.as_mut().expect("set");
    block.reconcile = Some(reconcile.to_owned());
    running(&mut scene, job);
    let original = silence_first(&mut scene);
    let replacement = successor(&scene, &original);
    scene.world.report(replacement.id, ClientStatus::Running);
    scene.world.report(replacement.id, status);
    come_back_as(&mut scene, &original, ClientStatus::Pending);
    scene.settle(&key("web"));
    (scene, original, replacement)
}

fn wanted(scene: &Scene, ids: [AllocId; 2]) -> [bool; 2] {
    ids.map(|id| status(scene, id).1 == DesiredStatus::Run)
}

#[test]
fn the_original_is_waited_for_where_it_would_stay_if_it_ran() {
    for reconcile in ["keep_original", "best_score"] {
        let (mut scene, original, replacement) = starting(reconcile);
        let pair = [original.id, replacement.id];
        assert_eq!(wanted(&scene, pair), [true, true], "{reconcile}");
        scene.world.report(original.id, ClientStatus::Running);
        scene.settle(&key("web"));
        assert_eq!(wanted(&scene, pair), [true, false], "{reconcile}");
    }
}

/// A task that is restarted makes its allocation pending for as long as the delay lasts.
#[test]
fn what_took_its_place_and_is_being_restarted_does_not_go_before_the_original_runs() {
    let (mut scene, original, replacement) =
        starting_beside(ClientStatus::Pending, "keep_original");
    let pair = [original.id, replacement.id];
    assert_eq!(wanted(&scene, pair), [true, true]);
    scene.world.report(original.id, ClientStatus::Running);
    scene.settle(&key("web"));
    assert_eq!(wanted(&scene, pair), [true, false]);
}

#[test]
fn what_took_its_place_and_is_drained_has_a_successor_as_long_as_the_original_does_not_run() {
    let (mut scene, original, replacement) = starting("keep_original");
    begin_drain(&mut scene, replacement.node_id);
    scene.settle(&key("web"));
    let moved = successor(&scene, &replacement);
    let all = [original.id, replacement.id, moved.id];
    assert_eq!(
        all.map(|id| status(&scene, id).1),
        [DesiredStatus::Run, DesiredStatus::Stop, DesiredStatus::Run]
    );
    scene.world.report(moved.id, ClientStatus::Running);
    scene.world.report(original.id, ClientStatus::Running);
    scene.settle(&key("web"));
    assert_eq!(wanted(&scene, [original.id, moved.id]), [true, false]);
}

#[test]
fn it_is_not_where_it_goes_anyway() {
    let (scene, original, replacement) = starting("keep_replacement");
    let pair = [original.id, replacement.id];
    assert_eq!(wanted(&scene, pair), [false, true]);
}

#[test]
fn one_that_does_not_start_within_its_window_goes() {
    let (mut scene, original, replacement) = starting("keep_original");
    let pair = [original.id, replacement.id];
    scene.world.wait(Duration::from_secs(61));
    scene.settle(&key("web"));
    assert_eq!(wanted(&scene, pair), [false, true]);
}

#[test]
fn nor_does_it_stay_then_at_the_cost_of_one_that_is_being_restarted() {
    let (mut scene, original, replacement) =
        starting_beside(ClientStatus::Pending, "keep_original");
    scene.world.wait(Duration::from_secs(61));
    scene.settle(&key("web"));
    let pair = [original.id, replacement.id];
    assert_eq!(wanted(&scene, pair), [false, true]);
}

/// There is no room for a successor anywhere.
#[test]
fn nor_at_the_cost_of_one_that_is_drained_and_has_nowhere_to_go() {
    let (mut scene, original, replacement) = starting("keep_original");
    scene.world.expect(Command::NodeEligibility {
        node: original.node_id,
        eligibility: Eligibility::Ineligible,
    });
    for node in (1..=3).map(|number| nodes::node(number).id) {
        if node != original.node_id {
            begin_drain(&mut scene, node);
        }
    }
    scene.settle(&key("web"));
    let pair = [original.id, replacement.id];
    assert!(wanted(&scene, pair)[1]);
    scene.world.wait(Duration::from_secs(61));
    scene.settle(&key("web"));
    assert!(wanted(&scene, pair)[1]);
}

#[test]
fn one_that_is_drained_while_it_is_being_restarted_has_a_successor_too() {
    let (mut scene, original, replacement) =
        starting_beside(ClientStatus::Pending, "keep_original");
    begin_drain(&mut scene, replacement.node_id);
    scene.settle(&key("web"));
    let moved = successor(&scene, &replacement);
    assert_eq!(wanted(&scene, [original.id, moved.id]), [true, true]);
    scene.world.report(original.id, ClientStatus::Running);
    scene.settle(&key("web"));
    assert_eq!(wanted(&scene, [original.id, moved.id]), [true, false]);
}

#[test]
fn where_the_replacement_ends_meanwhile_the_original_stays_and_nobody_comes() {
    let (mut scene, original, replacement) = starting("keep_original");
    scene.world.report(replacement.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    assert!(wanted(&scene, [original.id, replacement.id])[0]);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn where_the_number_goes_both_go() {
    let (mut scene, original, replacement) = starting("keep_original");
    scene.world.register(tolerant(JobType::Service, "web", 0));
    scene.settle(&key("web"));
    let pair = [original.id, replacement.id];
    assert_eq!(wanted(&scene, pair), [false, false]);
}

/// Its number is done: what runs elsewhere with another one does not end for it.
#[test]
fn what_is_back_after_its_batch_work_was_done_elsewhere_goes() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Batch, "web", 2));
    let original = silence_first(&mut scene);
    let replacement = successor(&scene, &original);
    let live = scene.live(&key("web")).into_values();
    let mut others = live.filter(|it| ![original.id, replacement.id].contains(&it.id));
    let other = others.next().expect("the other number");
    scene.start_all(&key("web"));
    scene.world.report(replacement.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    come_back_as(&mut scene, &original, ClientStatus::Running);
    scene.settle(&key("web"));
    assert_eq!(wanted(&scene, [original.id, other.id]), [false, true]);
}

#[test]
fn batch_work_is_not_begun_again_beside_who_does_it() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Batch, "web", 1));
    let original = silence_first(&mut scene);
    let replacement = successor(&scene, &original);
    scene.world.report(replacement.id, ClientStatus::Running);
    come_back_as(&mut scene, &original, ClientStatus::Pending);
    scene.settle(&key("web"));
    let pair = [original.id, replacement.id];
    assert_eq!(wanted(&scene, pair), [false, true]);
}
