//! Explanations for `plan`: nodes that are ruled out, and those that come nearest.

use std::collections::BTreeSet;

use controlplane_scheduler::{GroupExplanation, MISSES_MAX, Scratch, explain};
use hack_testkit::{jobs, nodes};
use protocol_model::{Constraint, Job, JobType, NetworkResource, Port};

use crate::scene::Scene;

/// Registers and places the job, and explains its group.
fn explained(scene: &mut Scene, job: Job) -> GroupExplanation {
    let key = job.key();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let unplaced: BTreeSet<String> = decision.failed.keys().cloned().collect();
    let snapshot = scene.world.snapshot();
    let job = snapshot.job(&key).expect("the job");
    let mut groups = explain(&snapshot, job, &unplaced, &mut Scratch::new());
    groups.remove("group").expect("the group")
}

fn asking(cpu: u64, memory_mb: u64, count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", count);
    let resources = job.task_groups[0].tasks[0]
        .resources
        .as_mut()
        .expect("some");
    resources.cpu = Some(cpu);
    resources.memory_mb = Some(memory_mb);
    job
}

fn finished(mut job: Job) -> Job {
    job.canonicalize();
    job
}

fn misses(explanation: &GroupExplanation) -> Vec<(&str, Vec<&str>)> {
    let misses = explanation.misses.iter();
    let missing = misses.map(|miss| {
        let missing = miss.missing.iter().map(String::as_str).collect();
        (miss.name.as_str(), missing)
    });
    missing.collect()
}

#[test]
fn nodes_are_counted_for_the_first_reason_that_rules_them_out() {
    let mut scene = Scene::new(2);
    let mut bend = |number: u8, change: fn(&mut protocol_model::Node)| {
        let mut node = nodes::node(number);
        change(&mut node);
        scene.world.add_node(node);
    };
    bend(3, |node| node.node_pool = "gpu".to_owned());
    bend(4, |node| node.datacenter = "mars".to_owned());
    bend(5, |node| {
        node.drivers.clear();
        node.computed_class = "none".to_owned();
    });
    for number in [6, 7] {
        bend(number, |node| {
            node.attributes
                .insert("kernel.name".to_owned(), "plan9".to_owned());
            node.computed_class = "plan9".to_owned();
        });
    }
    let mut job = asking(100, 100, 1);
    job.datacenters = vec!["dc1".to_owned()];
    job.constraints.push(Constraint {
        l_target: "${attr.kernel.name}".to_owned(),
        operand: "=".to_owned(),
        r_target: "linux".to_owned(),
    });
    let explanation = explained(&mut scene, finished(job));
    let expected = [
        ("not in node pool \"default\"", 1),
        ("not in datacenters dc1", 1),
        ("${attr.kernel.name} = linux", 2),
        ("missing drivers", 1),
    ];
    let found: Vec<(&str, u64)> = explanation
        .filtered
        .iter()
        .map(|(reason, nodes)| (reason.as_str(), *nodes))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(explanation.misses, [], "all of it is placed");
}

#[test]
fn nearest_misses_lack_least_once_the_plan_is_applied() {
    let mut scene = Scene::new(0);
    for (number, memory_mb) in [(1, 600), (2, 500), (3, 100), (4, 400), (5, 1100)] {
        let mut node = nodes::node(number);
        node.node_resources.memory.memory_mb = memory_mb;
        scene.world.add_node(node);
    }
    // Two fit on node 5 and one on node 1: of the fourth, node 2 lacks least.
    let explanation = explained(&mut scene, finished(asking(100, 512, 4)));
    assert_eq!(explanation.misses.len(), MISSES_MAX);
    let expected = [
        ("node-2", vec!["memory 12 MiB short of 512"]),
        ("node-4", vec!["memory 112 MiB short of 512"]),
        ("node-3", vec!["memory 412 MiB short of 512"]),
    ];
    assert_eq!(misses(&explanation), expected);
}

#[test]
fn everything_that_a_node_lacks_is_named_and_rules_weigh_more_than_room() {
    let mut scene = Scene::new(0);
    let mut small = nodes::node(1);
    small.node_resources.cpu.cpu_shares = 100;
    small.node_resources.memory.memory_mb = 100;
    scene.world.add_node(small);
    let mut other = nodes::node(2);
    other.drivers.clear();
    other.computed_class = "none".to_owned();
    scene.world.add_node(other);
    let mut job = asking(500, 300, 1);
    job.task_groups[0].networks.push(NetworkResource {
        reserved_ports: vec![Port {
            label: "http".to_owned(),
            value: 8080,
            ..Port::default()
        }],
        ..NetworkResource::default()
    });
    let explanation = explained(&mut scene, finished(job));
    let expected = [
        (
            "node-1",
            vec!["cpu 400 MHz short of 500", "memory 200 MiB short of 300"],
        ),
        ("node-2", vec!["missing drivers"]),
    ];
    assert_eq!(misses(&explanation), expected);
}

#[test]
fn a_missing_host_network_is_named_once_and_is_no_collision() {
    let mut scene = Scene::new(1);
    let on = |label: &str, value, host_network: &str| Port {
        label: label.to_owned(),
        value,
        host_network: host_network.to_owned(),
        ..Port::default()
    };
    let mut job = asking(100, 100, 1);
    job.task_groups[0].networks.push(NetworkResource {
        reserved_ports: vec![on("http", 8080, "lan")],
        dynamic_ports: vec![on("admin", 0, "lan")],
        ..NetworkResource::default()
    });
    let explanation = explained(&mut scene, finished(job));
    let missing = [
        "missing host network \"lan\" for port \"http\"",
        "missing host network \"lan\" for port \"admin\"",
    ];
    assert_eq!(misses(&explanation), [("node-1", missing.to_vec())]);
}
