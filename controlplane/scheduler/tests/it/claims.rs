//! Claims that a node has once: ports on the addresses of its host networks, whole cores.

use std::collections::BTreeSet;

use controlplane_state::{Usage, fit};
use hack_testkit::nodes::add_host_network;
use hack_testkit::{jobs, nodes};
use proptest::prelude::*;
use protocol_model::{
    Allocation, ClientStatus, Job, JobType, NetworkResource, Node, Port, Resources, Task,
};

use crate::scene::{Scene, key};

fn port(label: &str, value: u32, host_network: &str) -> Port {
    Port {
        label: label.to_owned(),
        value,
        host_network: host_network.to_owned(),
        ..Port::default()
    }
}

fn with_ports(name: &str, count: u32, statics: Vec<Port>, dynamic: Vec<Port>) -> Job {
    let mut job = jobs::draft(JobType::Service, name, count);
    job.task_groups[0].networks.push(NetworkResource {
        reserved_ports: statics,
        dynamic_ports: dynamic,
        ..NetworkResource::default()
    });
    job.canonicalize();
    job
}

/// A job of which each task asks for so many whole cores.
fn with_cores(name: &str, cores: &[u64], count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, name, count);
    let task = |(number, cores): (usize, &u64)| Task {
        resources: Some(Resources {
            cores: Some(*cores),
            memory_mb: Some(100),
            ..Resources::default()
        }),
        ..jobs::task(&format!("task-{number}"))
    };
    job.task_groups[0].tasks = cores.iter().enumerate().map(task).collect();
    job.canonicalize();
    job
}

fn cores_of(alloc: &Allocation) -> Vec<(i64, Vec<u16>)> {
    let tasks = alloc.allocated_resources.tasks.values();
    let cpus = tasks.map(|task| (task.cpu.cpu_shares, task.cpu.reserved_cores.clone()));
    cpus.collect()
}

/// Label, address and number of each port.
fn ports_of(alloc: &Allocation) -> Vec<(&str, &str, u16)> {
    let ports = alloc.allocated_resources.shared.ports.iter();
    ports
        .map(|port| (port.label.as_str(), port.host_ip.as_str(), port.value))
        .collect()
}

#[test]
fn cores_are_given_by_number_with_the_time_that_they_come_to() {
    let mut scene = Scene::new(1);
    // The node has four cores of 1000 MHz.
    let eval = scene.world.register(with_cores("web", &[1, 2], 2));
    let decision = scene.run(&eval);
    let given: Vec<_> = decision.plan.placed.iter().map(|it| cores_of(it)).collect();
    assert_eq!(given, [[(1000, vec![0]), (2000, vec![1, 2])]]);
    let exhausted = &decision.failed["group"].dimension_exhausted;
    assert_eq!(exhausted["cores"], 1, "{exhausted:?}");
    let eval = scene.world.register(with_cores("small", &[1], 1));
    let placed = scene.run(&eval).plan.placed;
    assert_eq!(cores_of(&placed[0]), [(1000, vec![3])]);
}

#[test]
fn shared_tasks_have_the_time_of_the_cores_that_are_left() {
    let mut scene = Scene::new(1);
    let eval = scene.world.register(with_cores("web", &[3], 1));
    scene.run(&eval);
    let mut job = jobs::draft(JobType::Service, "shared", 1);
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("the fixture has some").cpu = Some(1001);
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.failed["group"].dimension_exhausted["cpu"], 1);
}

#[test]
fn an_update_in_place_keeps_its_cores() {
    let mut scene = Scene::new(1);
    let job = with_cores("web", &[2], 1);
    let eval = scene.world.register(job.clone());
    let placed = scene.run(&eval).plan.placed;
    let mut updated = job;
    updated.priority = 70;
    let eval = scene.world.register(updated);
    let updated = scene.run(&eval).plan.updated;
    assert_eq!(cores_of(&updated[0]), cores_of(&placed[0]));
    assert_eq!(cores_of(&updated[0]), [(2000, vec![0, 1])]);
}

#[test]
fn a_port_is_on_the_address_of_its_host_network() {
    let mut scene = Scene::new(1);
    let mut node = nodes::node(2);
    add_host_network(&mut node, "lan", &["192.168.0.2"], "");
    scene.world.add_node(node);
    let statics = vec![port("admin", 8080, "lan"), port("http", 8080, "")];
    let job = with_ports("web", 1, statics, vec![port("metrics", 0, "lan")]);
    let eval = scene.world.register(job);
    let placed = scene.run(&eval).plan.placed;
    let ports = ports_of(&placed[0]);
    assert_eq!(placed[0].node_id, nodes::node(2).id);
    assert_eq!(ports[0], ("admin", "192.168.0.2", 8080));
    assert_eq!(ports[1], ("http", "10.0.0.2", 8080));
    assert_eq!((ports[2].0, ports[2].1), ("metrics", "192.168.0.2"));
    assert!((20_000..=32_000).contains(&ports[2].2), "{ports:?}");
    let missing = "missing host network \"lan\" for port \"admin\"";
    assert_eq!(placed[0].metrics.constraint_filtered[missing], 1);
}

#[test]
fn a_host_network_may_be_named_by_a_property_of_the_node() {
    let mut scene = Scene::new(0);
    for (number, name) in [(1, None), (2, Some("lan")), (3, Some("wan"))] {
        let mut node = nodes::node(number);
        add_host_network(&mut node, "lan", &["192.168.0.2"], "");
        node.meta
            .extend(name.map(|name| ("net".to_owned(), name.to_owned())));
        node.computed_class = format!("class-{number}");
        scene.world.add_node(node);
    }
    let job = with_ports("web", 1, vec![port("http", 80, "${meta.net}")], Vec::new());
    let eval = scene.world.register(job);
    let placed = scene.run(&eval).plan.placed;
    assert_eq!(ports_of(&placed[0]), [("http", "192.168.0.2", 80)]);
    let filtered = &placed[0].metrics.constraint_filtered;
    assert_eq!(filtered.len(), 2, "{filtered:?}");
    assert!(filtered.contains_key("missing host network \"wan\" for port \"http\""));
    let invalid = "invalid host network \"${meta.net}\" template for port \"http\"";
    assert!(filtered.contains_key(invalid));
}

#[test]
fn a_static_port_is_had_once_on_each_address_of_its_network() {
    let mut scene = Scene::new(0);
    let mut node = nodes::node(1);
    let addresses = ["192.168.0.2", "fd00::2"];
    add_host_network(&mut node, "lan", &addresses, "443");
    scene.world.add_node(node);
    let on = |number| vec![port("http", number, "lan")];
    let job = with_ports("web", 3, on(80), Vec::new());
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let given: Vec<_> = decision.plan.placed.iter().map(|it| ports_of(it)).collect();
    assert_eq!(given, addresses.map(|address| [("http", address, 80)]));
    let taken = "network: reserved port collision http=80";
    assert_eq!(decision.failed["group"].dimension_exhausted[taken], 1);
    let eval = scene
        .world
        .register(with_ports("tls", 1, on(443), Vec::new()));
    let exhausted = scene.run(&eval).failed["group"].dimension_exhausted.clone();
    assert_eq!(exhausted["network: reserved port collision http=443"], 1);
}

#[test]
fn two_networks_collide_only_where_they_share_an_address() {
    let mut scene = Scene::new(0);
    let mut node = nodes::node(1);
    add_host_network(&mut node, "lan", &["192.168.0.2"], "");
    add_host_network(&mut node, "also-lan", &["192.168.0.2"], "");
    add_host_network(&mut node, "outside", &["10.0.0.1"], "");
    scene.world.add_node(node);
    let mut fits = |name: &str, network: &str| {
        let job = with_ports(name, 1, vec![port("http", 80, network)], Vec::new());
        let eval = scene.world.register(job);
        scene.run(&eval).failed.is_empty()
    };
    assert!(fits("a", "lan"));
    assert!(!fits("b", "also-lan"), "the same address");
    assert!(fits("c", "outside"), "another address");
    assert!(!fits("d", "default"), "it is the default network's");
}

#[test]
fn dynamic_ports_of_a_network_are_counted_on_its_addresses() {
    let mut scene = Scene::new(0);
    let mut node = nodes::node(1);
    node.node_resources.max_dynamic_port = node.node_resources.min_dynamic_port + 1;
    add_host_network(&mut node, "lan", &["192.168.0.2"], "20001");
    scene.world.add_node(node);
    let on = |network| vec![port("a", 0, network), port("b", 0, network)];
    let eval = scene
        .world
        .register(with_ports("lan", 1, Vec::new(), on("lan")));
    let exhausted = scene.run(&eval).failed["group"].dimension_exhausted.clone();
    assert_eq!(exhausted["network: dynamic port selection failed"], 1);
    let eval = scene
        .world
        .register(with_ports("own", 1, Vec::new(), on("")));
    assert_eq!(scene.run(&eval).plan.placed.len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Register {
        job: u8,
        count: u32,
        cores: u64,
        statics: BTreeSet<(u32, u8)>,
        dynamic: Vec<u8>,
    },
    End {
        pick: usize,
    },
}

const NETWORKS: [&str; 4] = ["default", "lan", "both", "outside"];

fn step() -> impl Strategy<Value = Step> {
    let network = 0..4u8;
    let statics = prop::collection::btree_set((80..83u32, network.clone()), 0..3);
    let dynamic = prop::collection::vec(network, 0..4);
    let register = (0..3u8, 0..4u32, 0..3u64, statics, dynamic);
    let register = register.prop_map(|(job, count, cores, statics, dynamic)| Step::Register {
        job,
        count,
        cores,
        statics,
        dynamic,
    });
    prop_oneof![3 => register, 1 => (0..9usize).prop_map(|pick| Step::End { pick })]
}

fn crowded_node(number: u8) -> Node {
    let mut node = nodes::node(number);
    let resources = &mut node.node_resources;
    resources.max_dynamic_port = resources.min_dynamic_port + 4;
    resources.cpu.reservable_cpu_cores = vec![1, 2, 3];
    let lan = format!("192.168.0.{number}");
    let own = format!("10.0.0.{number}");
    add_host_network(&mut node, "lan", &[&lan], "81,20001");
    add_host_network(&mut node, "both", &[&lan, "fd00::1"], "");
    add_host_network(&mut node, "outside", &[&own], "");
    node
}

/// Every port of a node by address, and every core, as its allocations have them.
fn check(scene: &Scene) -> Result<(), TestCaseError> {
    let snapshot = scene.world.snapshot();
    for (_, row) in snapshot.node_columns().rows() {
        let (mut ports, mut cores) = (BTreeSet::new(), BTreeSet::new());
        let mut used = Usage::default();
        for alloc in snapshot
            .allocs_on_node(row.node)
            .filter(|it| !it.terminal())
        {
            for (label, address, number) in ports_of(alloc) {
                let claim = (address.to_owned(), number);
                prop_assert!(ports.insert(claim), "{label} {address}:{number} twice");
                let reserved = address.starts_with("192.") && [81, 20_001].contains(&number);
                prop_assert!(!reserved, "{label} is a reserved port");
            }
            for (shares, own) in cores_of(alloc) {
                prop_assert!(own.is_empty() || shares == 1000 * own.len() as i64);
                for core in own {
                    prop_assert!((1..4).contains(&core) && cores.insert(core), "core {core}");
                }
            }
            let usage = Usage::of(&alloc.allocated_resources);
            let fits = fit::fits(&row.capacity, &used, &usage);
            prop_assert!(fits.is_ok(), "{fits:?}");
            used.add(&usage);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_given_twice_on_a_node(steps in prop::collection::vec(step(), 1..12)) {
        let mut scene = Scene::new(0);
        for number in 1..=2 {
            scene.world.add_node(crowded_node(number));
        }
        for step in steps {
            match step {
                Step::Register { job, count, cores, statics, dynamic } => {
                    let network = |number: u8| NETWORKS[usize::from(number)];
                    let statics = statics.iter().enumerate();
                    let statics = statics.map(|(at, (value, on))| {
                        port(&format!("s{at}"), *value, network(*on))
                    });
                    let dynamic = dynamic.iter().enumerate();
                    let dynamic = dynamic.map(|(at, on)| port(&format!("d{at}"), 0, network(*on)));
                    let name = format!("job-{job}");
                    let mut job = with_ports(&name, count, statics.collect(), dynamic.collect());
                    if cores > 0 {
                        job.task_groups[0].tasks =
                            with_cores(&name, &[cores], 1).task_groups[0].tasks.clone();
                    }
                    scene.world.register(job);
                }
                Step::End { pick } => {
                    let live = (0..3).flat_map(|job| scene.live(&key(&format!("job-{job}"))));
                    let live: Vec<_> = live.collect();
                    if let Some((_, alloc)) = live.get(pick % live.len().max(1)) {
                        scene.world.report(alloc.id, ClientStatus::Failed);
                    }
                }
            }
            for job in 0..3 {
                scene.settle(&key(&format!("job-{job}")));
                scene.start_all(&key(&format!("job-{job}")));
            }
            check(&scene)?;
        }
    }
}
