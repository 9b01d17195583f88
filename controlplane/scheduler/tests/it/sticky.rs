//! A sticky disk: the successor is where its predecessor's data is.

use hack_testkit::{jobs, nodes};
use protocol_model::{
    Affinity, Allocation, ClientStatus, EphemeralDisk, Job, JobType, NodeId, ReschedulePolicy,
};

use crate::scene::{Scene, key};

fn sticky(name: &str, count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, name, count);
    job.task_groups[0].ephemeral_disk = Some(EphemeralDisk {
        sticky: Some(true),
        ..EphemeralDisk::default()
    });
    job
}

/// As it runs another command.
fn changed(job: &Job) -> Job {
    let mut job = job.clone();
    let config = &mut job.task_groups[0].tasks[0].config;
    config.insert("command".to_owned(), "/bin/true".into());
    job
}

fn run(scene: &mut Scene, mut job: Job) -> Vec<std::sync::Arc<Allocation>> {
    job.canonicalize();
    let key = job.key();
    let eval = scene.world.register(job);
    let placed = scene.run(&eval).plan.placed;
    scene.start_all(&key);
    placed
}

/// `job` as it prefers node `number`.
fn preferring(job: &Job, number: u8) -> Job {
    let mut job = job.clone();
    job.affinities = vec![Affinity {
        l_target: "${node.unique.name}".to_owned(),
        r_target: format!("node-{number}"),
        operand: "=".to_owned(),
        weight: Some(100),
    }];
    job
}

fn node(number: u8) -> NodeId {
    nodes::node(number).id
}

#[test]
fn a_successor_stays_on_the_node_of_its_predecessor() {
    for (stays, expected) in [(true, 1), (false, 2)] {
        let mut scene = Scene::new(3);
        let mut job = sticky("web", 1);
        job.task_groups[0].ephemeral_disk = Some(EphemeralDisk {
            sticky: Some(stays),
            ..EphemeralDisk::default()
        });
        let first = run(&mut scene, preferring(&job, 1));
        assert_eq!(first[0].node_id, node(1));
        let second = run(&mut scene, preferring(&changed(&job), 2));
        assert_eq!(second[0].node_id, node(expected));
        assert_eq!(second[0].previous_allocation, Some(first[0].id));
        let looked_at = if stays { 1 } else { 3 };
        assert_eq!(second[0].metrics.nodes_evaluated, looked_at);
    }
}

#[test]
fn a_successor_goes_elsewhere_where_its_node_has_no_room_or_is_gone() {
    let mut scene = Scene::new(2);
    let first = run(&mut scene, preferring(&sticky("web", 1), 1));
    let mut larger = sticky("web", 1);
    let resources = larger.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("the fixture has some").cpu = Some(3000);
    let mut other = jobs::draft(JobType::Service, "other", 1);
    let resources = other.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("the fixture has some").cpu = Some(2000);
    run(&mut scene, preferring(&other, 1));
    let second = run(&mut scene, larger.clone());
    assert_eq!((first[0].node_id, second[0].node_id), (node(1), node(2)));
    scene.world.silence(node(2));
    let mut scene_job = larger;
    scene_job.task_groups[0].tasks[0].resources =
        sticky("web", 1).task_groups[0].tasks[0].resources.clone();
    scene.settle(&key("web"));
    let third = run(&mut scene, scene_job);
    assert_eq!(third[0].node_id, node(1));
}

#[test]
fn one_that_failed_is_tried_again_on_its_node_as_nomad_does() {
    let mut scene = Scene::new(3);
    let mut job = sticky("web", 1);
    job.task_groups[0].reschedule_policy = Some(ReschedulePolicy {
        delay: Some(std::time::Duration::from_secs(5)),
        unlimited: Some(true),
        ..ReschedulePolicy::default()
    });
    let first = run(&mut scene, job);
    scene.world.report(first[0].id, ClientStatus::Failed);
    scene.settle(&key("web"));
    scene.world.wait(std::time::Duration::from_secs(60));
    scene.settle(&key("web"));
    let live = scene.live(&key("web"));
    let next = live.values().next().expect("it is placed again");
    assert_eq!(next.previous_allocation, Some(first[0].id));
    assert_eq!(next.node_id, first[0].node_id);
}
