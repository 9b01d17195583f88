//! What ends without being asked to, and is wanted still: it is placed anew, once at once, and from
//! then on after the delay of its group's `reschedule`.

use std::time::Duration;

use hack_testkit::jobs;
use protocol_model::{Allocation, ClientStatus, Job, JobType, ReschedulePolicy, UpdateStrategy};

use crate::scene::{Scene, key};

const SECOND: Duration = Duration::from_secs(1);

/// A service of one with this policy of which nothing failed yet.
fn service(policy: ReschedulePolicy) -> Scene {
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.task_groups[0].reschedule_policy = Some(policy);
    job.canonicalize();
    placed(job)
}

fn placed(job: Job) -> Scene {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene
}

fn every(delay: Duration) -> ReschedulePolicy {
    ReschedulePolicy {
        delay: Some(delay),
        delay_function: Some("constant".to_owned()),
        unlimited: Some(true),
        ..ReschedulePolicy::default()
    }
}

fn only(scene: &Scene, job: &str) -> Allocation {
    let mut live = scene.live(&key(job)).into_values();
    live.next().expect("one stands")
}

/// The one allocation of a job ends like this; answers how long its successor takes, in seconds.
fn seconds_until_next(scene: &mut Scene, job: &str, status: ClientStatus) -> u64 {
    let ended = only(scene, job);
    scene.world.report(ended.id, status);
    for seconds in 0..10_000 {
        scene.settle(&key(job));
        if scene.live_count(&key(job)) == 1 {
            let next = only(scene, job);
            assert_eq!(next.previous_allocation, Some(ended.id));
            assert_eq!(next.name, ended.name);
            return seconds;
        }
        scene.world.wait(SECOND);
    }
    panic!("{job} was never placed anew");
}

#[test]
fn a_service_that_completes_is_replaced_at_once_and_then_after_its_delay() {
    let mut scene = service(every(7 * SECOND));
    let mut next = || seconds_until_next(&mut scene, "web", ClientStatus::Complete);
    assert_eq!(next(), 0);
    for _ in 0..6 {
        let waited = next();
        assert!((7..=8).contains(&waited), "{waited}");
    }
}

#[test]
fn the_wait_of_a_service_that_completes_again_and_again_grows() {
    let mut scene = placed(jobs::job(JobType::Service, "web", 1));
    let mut next = || seconds_until_next(&mut scene, "web", ClientStatus::Complete);
    assert_eq!(next(), 0);
    for expected in [30, 60, 120, 240] {
        let waited = next();
        assert!((expected..=expected + 1).contains(&waited), "{waited}");
    }
}

#[test]
fn one_that_ran_longer_than_the_longest_wait_is_replaced_at_once() {
    let mut scene = placed(jobs::job(JobType::Service, "web", 1));
    let complete = ClientStatus::Complete;
    assert_eq!(seconds_until_next(&mut scene, "web", complete), 0);
    assert!(seconds_until_next(&mut scene, "web", complete) >= 30);
    scene.world.wait(3601 * SECOND);
    assert_eq!(seconds_until_next(&mut scene, "web", complete), 0);
}

#[test]
fn what_completes_is_replaced_although_failures_are_not() {
    let mut scene = service(ReschedulePolicy {
        attempts: Some(0),
        unlimited: Some(false),
        ..ReschedulePolicy::default()
    });
    let mut next = || seconds_until_next(&mut scene, "web", ClientStatus::Complete);
    assert_eq!(next(), 0);
    assert!(next() >= 30);
}

#[test]
fn an_end_that_was_followed_at_once_takes_no_attempt_from_a_failure() {
    let mut scene = service(ReschedulePolicy {
        attempts: Some(1),
        interval: Some(3600 * SECOND),
        unlimited: Some(false),
        ..every(5 * SECOND)
    });
    let complete = ClientStatus::Complete;
    assert_eq!(seconds_until_next(&mut scene, "web", complete), 0);
    let waited = seconds_until_next(&mut scene, "web", ClientStatus::Failed);
    assert!((5..=6).contains(&waited), "{waited}");
}

#[test]
fn an_operator_does_not_wait_for_what_completed() {
    let mut scene = placed(jobs::job(JobType::Service, "web", 1));
    assert_eq!(
        seconds_until_next(&mut scene, "web", ClientStatus::Complete),
        0
    );
    let second = only(&scene, "web");
    scene.world.report(second.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0);
    scene.world.stop_alloc(second.id);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn what_waits_for_its_successor_is_not_collected() {
    let mut scene = placed(jobs::job(JobType::Service, "web", 1));
    for _ in 0..2 {
        let ended = only(&scene, "web");
        scene.world.report(ended.id, ClientStatus::Complete);
        scene.settle(&key("web"));
    }
    assert_eq!(scene.live_count(&key("web")), 0);
    scene.collect();
    let again = scene.world.register(jobs::job(JobType::Service, "web", 1));
    assert!(!scene.run(&again).changes_something());
    scene.world.wait(31 * SECOND);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn what_completed_is_not_replaced_where_fewer_are_wanted() {
    let mut scene = placed(jobs::job(JobType::Service, "web", 2));
    let mut live = scene.live(&key("web")).into_values();
    let first = live.next().expect("two");
    scene.world.report(first.id, ClientStatus::Complete);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 1));
    scene.run(&eval);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn a_rollout_goes_no_further_while_what_it_placed_completes() {
    let version = |argument: &str| {
        let mut job = jobs::draft(JobType::Service, "web", 3);
        let config = &mut job.task_groups[0].tasks[0].config;
        config.insert("args".to_owned(), vec![argument].into());
        job.task_groups[0].update = Some(UpdateStrategy {
            max_parallel: Some(1),
            ..UpdateStrategy::default()
        });
        job.canonicalize();
        job
    };
    let mut scene = placed(version("one"));
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    let eval = scene.world.register(version("two"));
    scene.run(&eval);
    let newer = |scene: &Scene| {
        let mut live = scene.live(&key("web")).into_values();
        live.find(|alloc| alloc.job_version == 1)
    };
    for _ in 0..2 {
        let ended = newer(&scene).expect("one of the new version");
        scene.world.report(ended.id, ClientStatus::Complete);
        scene.settle(&key("web"));
    }
    assert!(newer(&scene).is_none(), "it waits");
    assert_eq!(scene.live_count(&key("web")), 2, "the others stay");
}

#[test]
fn a_system_job_that_ends_is_replaced_at_once_and_then_after_a_delay() {
    for status in [ClientStatus::Complete, ClientStatus::Failed] {
        let mut scene = Scene::new(1);
        let eval = scene.world.register(jobs::job(JobType::System, "agent", 1));
        scene.run(&eval);
        let mut next = || seconds_until_next(&mut scene, "agent", status);
        assert_eq!(next(), 0, "{status:?}");
        for expected in [30, 60] {
            let waited = next();
            assert!((expected..=expected + 1).contains(&waited), "{waited}");
        }
    }
}

#[test]
fn a_result_of_a_batch_job_is_no_end_to_replace() {
    for job_type in [JobType::Batch, JobType::Sysbatch] {
        let mut scene = placed(jobs::job(job_type, "once", 1));
        for alloc in scene.live(&key("once")).into_values() {
            scene.world.report(alloc.id, ClientStatus::Complete);
        }
        assert!(scene.world.pending(&key("once")).is_none(), "{job_type:?}");
    }
}
