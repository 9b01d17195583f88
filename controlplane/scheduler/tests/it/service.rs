//! A service's life: updates, stops, failures, nodes that go.

use std::time::Duration;

use controlplane_state::Command;
use controlplane_state::command::{JobDeregister, Purge};
use hack_testkit::{jobs, nodes};
use protocol_model::{ClientStatus, DesiredStatus, DisconnectStrategy, JobType, ReschedulePolicy};

use crate::scene::{Scene, key};

#[test]
fn a_smaller_count_stops_the_highest_numbers() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 4));
    scene.run(&eval);
    scene.start_all(&key("web"));
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 2));
    let decision = scene.run(&eval);
    assert_eq!(decision.groups["group"].stop, 2);
    let names: Vec<String> = scene.live(&key("web")).into_keys().collect();
    assert_eq!(names, ["web.group[0]", "web.group[1]"]);
}

#[test]
fn a_stopped_job_stops_everything() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 3));
    scene.run(&eval);
    let eval = scene.world.deregister(&key("web"));
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("web")), 0);
}

#[test]
fn the_same_job_again_changes_nothing() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 3));
    scene.run(&eval);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 3));
    assert!(!scene.run(&eval).changes_something());
}

#[test]
fn a_change_that_tasks_do_not_feel_is_made_in_place() {
    let mut scene = Scene::new(1);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 1));
    scene.run(&eval);
    scene.start_all(&key("web"));
    let before = scene.live(&key("web")).into_values().next().expect("one");
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.priority = 70;
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.groups["group"].in_place, 1);
    let after = scene.live(&key("web")).into_values().next().expect("one");
    assert_eq!((after.id, after.job_version), (before.id, 1));
}

#[test]
fn a_failed_service_is_tried_elsewhere_after_its_delay() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 1));
    scene.run(&eval);
    let first = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.report(first.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    assert_eq!(
        scene.live_count(&key("web")),
        0,
        "not before the delay of 30 s"
    );
    scene.world.wait(Duration::from_secs(31));
    scene.settle(&key("web"));
    let second = scene
        .live(&key("web"))
        .into_values()
        .next()
        .expect("a replacement");
    assert_eq!(second.previous_allocation, Some(first.id));
    assert_ne!(
        second.node_id, first.node_id,
        "the failed node is penalized"
    );
    assert_eq!(
        second
            .reschedule_tracker
            .map(|tracker| tracker.events.len()),
        Some(1)
    );
}

#[test]
fn a_follow_up_that_comes_before_its_time_makes_another() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 1));
    scene.run(&eval);
    let first = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.report(first.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    let early = scene.world.pending(&key("web")).expect("in 30 s");
    // As if the leader's wall clock had been ahead when it was enqueued.
    scene.run(&early);
    let owed = scene.world.pending(&key("web")).expect("another one");
    assert_ne!(owed.id, early.id);
    assert_eq!(owed.wait_until, early.wait_until);
    scene.world.wait(Duration::from_secs(31));
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1, "tried elsewhere");
}

#[test]
fn a_window_that_is_looked_at_before_it_is_over_is_looked_at_again() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.task_groups[0].disconnect = Some(DisconnectStrategy {
        lost_after: Some(Duration::from_secs(60)),
        ..DisconnectStrategy::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene.start_all(&key("web"));
    let first = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.silence(scene.node_of(first.id));
    scene.settle(&key("web"));
    let early = scene.world.pending(&key("web")).expect("in 60 s");
    scene.run(&early);
    let owed = scene.world.pending(&key("web")).expect("another one");
    assert_ne!(owed.id, early.id);
    scene.world.wait(Duration::from_secs(61));
    scene.settle(&key("web"));
    let snapshot = scene.world.snapshot();
    let given_up = snapshot.alloc(first.id).expect("still known");
    assert_eq!(given_up.client_status, ClientStatus::Lost);
}

#[test]
fn a_group_that_must_not_be_rescheduled_keeps_its_failures() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::Service, "web", 3);
    job.task_groups[0].reschedule_policy = Some(ReschedulePolicy {
        attempts: Some(0),
        unlimited: Some(false),
        ..ReschedulePolicy::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    scene.run(&eval);
    for alloc in scene.live(&key("web")).into_values() {
        scene.world.report(alloc.id, ClientStatus::Failed);
    }
    scene.settle(&key("web"));
    scene.world.wait(Duration::from_secs(86_400));
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0);
    let total = scene.world.snapshot().allocs_by_job(&key("web")).count();
    assert_eq!(total, 3);
}

#[test]
fn allocations_of_a_dead_node_are_lost_and_replaced() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 4));
    scene.run(&eval);
    scene.start_all(&key("web"));
    let victim = scene.live(&key("web")).into_values().next().expect("one");
    let node = scene.node_of(victim.id);
    scene.world.silence(node);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 4);
    assert!(
        scene
            .live(&key("web"))
            .values()
            .all(|alloc| alloc.node_id != node)
    );
    let snapshot = scene.world.snapshot();
    let lost = snapshot.alloc(victim.id).expect("still known");
    assert_eq!(
        (lost.client_status, lost.desired_status),
        (ClientStatus::Lost, DesiredStatus::Stop)
    );
}

#[test]
fn a_finished_batch_allocation_is_never_replaced() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Batch, "run", 2));
    scene.run(&eval);
    for alloc in scene.live(&key("run")).into_values() {
        scene.world.report(alloc.id, ClientStatus::Complete);
    }
    scene.settle(&key("run"));
    let eval = scene.world.register(jobs::job(JobType::Batch, "run", 2));
    assert!(!scene.run(&eval).changes_something());
}

/// Nodes of 4000 MHz, and a service of three of 2000 each: the third has to wait for room.
fn two_of_three() -> Scene {
    let mut scene = Scene::new(1);
    let mut job = jobs::draft(JobType::Service, "web", 3);
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("the fixture has resources").cpu = Some(2000);
    job.canonicalize();
    let eval = scene.world.register(job);
    assert_eq!(scene.run(&eval).plan.placed.len(), 2);
    scene
}

#[test]
fn the_number_of_one_that_is_tried_again_is_not_given_to_another() {
    for waits in [true, false] {
        let mut scene = two_of_three();
        let first = scene.live(&key("web")).into_values().next().expect("one");
        scene.world.report(first.id, ClientStatus::Failed);
        if !waits {
            scene.world.wait(Duration::from_secs(31));
        }
        // One decision sees the failure, and places the third.
        scene.world.add_node(nodes::node(2));
        scene.settle(&key("web"));
        scene.world.wait(Duration::from_secs(31));
        scene.settle(&key("web"));
        assert_eq!(scene.live_count(&key("web")), 3);
        let names: Vec<String> = scene.live(&key("web")).into_keys().collect();
        assert_eq!(names.len(), 3, "each once: {names:?}");
    }
}

/// A job of this type with one allocation that failed and is not tried again.
fn given_up(job_type: JobType) -> (Scene, protocol_model::Job) {
    let mut scene = Scene::new(1);
    let mut job = jobs::draft(job_type, "web", 1);
    job.task_groups[0].reschedule_policy = Some(ReschedulePolicy {
        attempts: Some(0),
        unlimited: Some(false),
        ..ReschedulePolicy::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job.clone());
    scene.run(&eval);
    let first = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.report(first.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0);
    (scene, job)
}

#[test]
fn a_failure_says_nothing_about_another_version_of_the_job() {
    for job_type in [JobType::Service, JobType::Batch] {
        let (mut scene, mut job) = given_up(job_type);
        let mended = vec!["mended"].into();
        job.task_groups[0].tasks[0]
            .config
            .insert("args".to_owned(), mended);
        let eval = scene.world.register(job);
        scene.run(&eval);
        assert_eq!(scene.live_count(&key("web")), 1, "{job_type:?}");
    }
}

#[test]
fn a_failure_says_nothing_about_another_job_of_that_name() {
    for job_type in [JobType::Service, JobType::Batch] {
        let (mut scene, job) = given_up(job_type);
        scene.world.expect(Command::JobDeregister(JobDeregister {
            key: key("web"),
            purge: Purge::Forget,
            eval: None,
            no_shutdown_delay: false,
        }));
        let eval = scene.world.register(job);
        scene.run(&eval);
        assert_eq!(scene.live_count(&key("web")), 1, "{job_type:?}");
    }
}
