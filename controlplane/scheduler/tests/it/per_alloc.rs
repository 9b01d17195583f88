//! Host volumes of which each allocation has its own, and resources that failed placements lacked.

use std::collections::BTreeMap;

use hack_testkit::{jobs, nodes};
use protocol_model::{
    ClientStatus, HostVolume, Job, JobType, Node, NodeId, Resources, VolumeRequest,
};

use crate::scene::{Scene, key};

const MISSING: &str = "missing compatible host volumes";

fn node(number: u8, volumes: &[&str]) -> Node {
    let mut node = nodes::node(number);
    for name in volumes {
        let volume = HostVolume {
            name: (*name).to_owned(),
            path: "/srv".to_owned(),
            read_only: name.starts_with("frozen"),
        };
        node.host_volumes.insert((*name).to_owned(), volume);
    }
    node.computed_class = format!("class {volumes:?}");
    node
}

fn claiming(source: &str, count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, "db", count);
    let request = VolumeRequest {
        volume_type: "host".to_owned(),
        source: source.to_owned(),
        per_alloc: true,
        ..VolumeRequest::default()
    };
    job.task_groups[0].volumes = BTreeMap::from([("data".to_owned(), request)]);
    job.canonicalize();
    job
}

fn places(scene: &Scene) -> BTreeMap<String, NodeId> {
    let live = scene.live(&key("db")).into_iter();
    live.map(|(name, alloc)| (name, alloc.node_id)).collect()
}

#[test]
fn each_allocation_is_where_the_volume_of_its_number_is() {
    let mut scene = Scene::new(1);
    // One class has two of them: the answer for one number is none for another.
    let nodes = [node(2, &["data[2]"]), node(3, &["data[0]", "data[1]"])];
    for node in &nodes {
        scene.world.add_node(node.clone());
    }
    let eval = scene.world.register(claiming("data", 4));
    let decision = scene.run(&eval);
    let expected = [(0, 3), (1, 3), (2, 2)].map(|(index, number)| {
        let name = format!("db.group[{index}]");
        (name, nodes::node(number).id)
    });
    assert_eq!(places(&scene), BTreeMap::from(expected));
    let failed = &decision.failed["group"];
    assert_eq!(
        failed.constraint_filtered[MISSING], 3,
        "no node has data[3]"
    );
    assert_eq!((failed.nodes_filtered, failed.nodes_evaluated), (3, 3));
    // The one that died comes back to its volume; the fourth has one now.
    scene.start_all(&key("db"));
    let live = scene.live(&key("db"));
    scene
        .world
        .report(live["db.group[2]"].id, ClientStatus::Failed);
    scene.world.add_node(node(4, &["data[3]"]));
    scene.settle(&key("db"));
    scene.world.wait(std::time::Duration::from_secs(60));
    scene.settle(&key("db"));
    let places = places(&scene);
    assert_eq!(places["db.group[2]"], nodes[0].id);
    assert_eq!(places["db.group[3]"], nodes::node(4).id);
}

#[test]
fn a_writer_is_not_placed_on_a_volume_of_its_number_that_is_read_only() {
    let mut scene = Scene::new(0);
    scene.world.add_node(node(1, &["frozen[0]"]));
    let eval = scene.world.register(claiming("frozen", 1));
    let decision = scene.run(&eval);
    assert_eq!(decision.failed["group"].constraint_filtered[MISSING], 1);
    let mut reading = claiming("frozen", 1);
    for request in reading.task_groups[0].volumes.values_mut() {
        request.read_only = true;
    }
    let eval = scene.world.register(reading);
    assert_eq!(scene.run(&eval).plan.placed.len(), 1);
}

#[test]
fn failed_placements_sum_up_what_they_asked_for_of_exhausted_dimensions() {
    let mut scene = Scene::new(1);
    let mut job = jobs::draft(JobType::Service, "big", 3);
    let mut second = jobs::task("second");
    second.resources = Some(Resources {
        cpu: Some(50),
        memory_mb: Some(100),
        ..Resources::default()
    });
    let first = job.task_groups[0].tasks[0].resources.as_mut();
    first.expect("the fixture has some").memory_mb = Some(5000);
    job.task_groups[0].tasks.push(second);
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let failed = &decision.failed["group"];
    assert_eq!(decision.plan.placed.len(), 1);
    assert_eq!(failed.coalesced_failures, 1);
    let amounts = failed.resources_exhausted.iter();
    let amounts: Vec<_> = amounts
        .map(|(task, amount)| (task.as_str(), amount.cpu, amount.memory_mb))
        .collect();
    assert_eq!(amounts, [("second", 0, 200), ("task", 0, 10_000)]);
}
