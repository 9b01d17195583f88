//! What a group may say about silent nodes, by the types of jobs that may say it.

use std::time::Duration;

use hack_testkit::jobs;
use protocol_model::{
    Allocation, ClientStatus, DesiredStatus, DisconnectStrategy, EvalTrigger, Job, JobType,
    ReschedulePolicy,
};

use super::{come_back, running, silence_first, status, successor, tolerant};
use crate::scene::{Scene, key};

const WAITED_FOR: (ClientStatus, DesiredStatus) = (ClientStatus::Unknown, DesiredStatus::Run);
const GIVEN_UP: (ClientStatus, DesiredStatus) = (ClientStatus::Lost, DesiredStatus::Stop);
const STANDS: (ClientStatus, DesiredStatus) = (ClientStatus::Running, DesiredStatus::Run);

/// Says that nobody takes a silent one's place, in either spelling, and sets no window.
fn never_replaced(job_type: JobType, older: bool) -> Job {
    let mut job = jobs::draft(job_type, "web", 1);
    let group = &mut job.task_groups[0];
    if older {
        group.prevent_reschedule_on_lost = Some(true);
    } else {
        group.disconnect = Some(DisconnectStrategy {
            replace: Some(false),
            ..DisconnectStrategy::default()
        });
    }
    job.canonicalize();
    job
}

fn count(scene: &Scene) -> usize {
    scene.world.snapshot().allocs_by_job(&key("web")).count()
}

/// Time passes, and everything is looked at that is due.
fn pass(scene: &mut Scene, seconds: u64) {
    scene.world.wait(Duration::from_secs(seconds));
    scene.settle(&key("web"));
}

#[test]
fn who_says_that_nobody_takes_its_place_is_waited_for_as_long_as_it_takes() {
    for job_type in [JobType::Service, JobType::Batch] {
        for older in [false, true] {
            let mut scene = Scene::new(3);
            running(&mut scene, never_replaced(job_type, older));
            let silent = silence_first(&mut scene);
            pass(&mut scene, 100_000);
            assert_eq!(status(&scene, silent.id), WAITED_FOR, "{job_type} {older}");
            assert_eq!(count(&scene), 1, "{job_type} {older}");
            come_back(&mut scene, &silent);
            scene.settle(&key("web"));
            assert_eq!(status(&scene, silent.id), STANDS, "{job_type} {older}");
            assert_eq!(count(&scene), 1, "{job_type} {older}");
        }
    }
}

#[test]
fn that_others_tolerate_the_silence_of_its_node_makes_no_difference() {
    for older in [false, true] {
        let mut scene = Scene::new(3);
        // On every node, so that the silent one is disconnected, and down only later.
        running(&mut scene, tolerant(JobType::System, "other", 1));
        running(&mut scene, never_replaced(JobType::Service, older));
        let silent = silence_first(&mut scene);
        scene.settle(&key("other"));
        pass(&mut scene, 100_000);
        scene.settle(&key("other"));
        assert_eq!(status(&scene, silent.id), WAITED_FOR, "{older}");
        assert_eq!(count(&scene), 1, "{older}");
    }
}

#[test]
fn a_silent_batch_allocation_is_replaced_within_its_window_and_one_of_the_two_stays() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Batch, "web", 1));
    let silent = silence_first(&mut scene);
    let replacement = successor(&scene, &silent);
    assert_eq!(status(&scene, silent.id), WAITED_FOR);
    scene.world.report(replacement.id, ClientStatus::Running);
    come_back(&mut scene, &silent);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
    assert_eq!(count(&scene), 2);
}

#[test]
fn a_batch_allocation_that_ended_well_while_it_was_silent_is_not_run_again() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Batch, "web", 1));
    let silent = silence_first(&mut scene);
    let replacement = successor(&scene, &silent);
    scene.world.report(replacement.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    pass(&mut scene, 61);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
    assert_eq!(count(&scene), 2, "its replacement has the result");
}

#[test]
fn a_silent_batch_allocation_that_is_waited_for_is_replaced_when_its_window_is_over() {
    let mut scene = Scene::new(3);
    let mut job = tolerant(JobType::Batch, "web", 1);
    job.task_groups[0].disconnect.as_mut().expect("set").replace = Some(false);
    running(&mut scene, job);
    let silent = silence_first(&mut scene);
    assert_eq!(count(&scene), 1);
    pass(&mut scene, 61);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn nomad_16515_who_is_never_rescheduled_is_waited_for_within_its_window() {
    for job_type in [JobType::Service, JobType::Batch] {
        let mut scene = Scene::new(3);
        let mut job = tolerant(job_type, "web", 1);
        job.task_groups[0].reschedule_policy = Some(ReschedulePolicy {
            attempts: Some(0),
            unlimited: Some(false),
            ..ReschedulePolicy::default()
        });
        running(&mut scene, job);
        let silent = silence_first(&mut scene);
        pass(&mut scene, 30);
        assert_eq!(status(&scene, silent.id), WAITED_FOR, "{job_type}");
        assert_eq!(count(&scene), 1, "{job_type}");
        // A lost one is replaced whatever its policy says (as in Nomad).
        pass(&mut scene, 31);
        assert_eq!(status(&scene, silent.id), GIVEN_UP, "{job_type}");
        assert_eq!(scene.live_count(&key("web")), 1, "{job_type}");
    }
}

#[test]
fn who_is_never_rescheduled_and_has_no_window_is_lost_and_replaced_at_once() {
    let mut scene = Scene::new(3);
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.task_groups[0].reschedule_policy = Some(ReschedulePolicy {
        attempts: Some(0),
        unlimited: Some(false),
        ..ReschedulePolicy::default()
    });
    job.canonicalize();
    running(&mut scene, job);
    let silent = silence_first(&mut scene);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
    assert_eq!(scene.live_count(&key("web")), 1);
}

/// A job that runs once on every node, and one of its allocations silent.
fn silent_sysbatch(scene: &mut Scene) -> Allocation {
    running(scene, tolerant(JobType::Sysbatch, "web", 1));
    silence_first(scene)
}

#[test]
fn a_silent_sysbatch_allocation_is_tolerated_for_its_window_and_nobody_takes_its_place() {
    let mut scene = Scene::new(2);
    let silent = silent_sysbatch(&mut scene);
    assert_eq!(status(&scene, silent.id), WAITED_FOR);
    assert_eq!(count(&scene), 2);
    let due = scene.world.pending(&key("web")).expect("the window's end");
    assert_eq!(due.triggered_by, EvalTrigger::MaxDisconnectTimeout);
    pass(&mut scene, 61);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
    assert_eq!(count(&scene), 2);
}

#[test]
fn a_sysbatch_allocation_that_comes_back_within_its_window_goes_on_or_has_its_result() {
    for said in [ClientStatus::Running, ClientStatus::Complete] {
        let mut scene = Scene::new(2);
        let silent = silent_sysbatch(&mut scene);
        come_back(&mut scene, &silent);
        scene.world.report(silent.id, said);
        scene.settle(&key("web"));
        let expected = (said, DesiredStatus::Run);
        assert_eq!(status(&scene, silent.id), expected);
        pass(&mut scene, 61);
        assert_eq!(status(&scene, silent.id), expected);
        assert_eq!(count(&scene), 2, "{said:?}");
    }
}

#[test]
fn a_node_that_lost_a_sysbatch_allocation_and_is_back_runs_it_again() {
    let mut scene = Scene::new(2);
    let silent = silent_sysbatch(&mut scene);
    pass(&mut scene, 61);
    assert_eq!(status(&scene, silent.id), GIVEN_UP);
    let number = (1..=2).find(|number| hack_testkit::nodes::node(*number).id == silent.node_id);
    let node = hack_testkit::nodes::node(number.expect("ours"));
    scene.world.add_node(node);
    scene.settle(&key("web"));
    let snapshot = scene.world.snapshot();
    let on_node = snapshot.allocs_on_node(silent.node_id);
    let live = on_node.filter(|alloc| !alloc.terminal()).count();
    assert_eq!(live, 1);
}
