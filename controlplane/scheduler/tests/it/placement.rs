//! Where things are placed, and how the scheduler explains that they are not.

use std::collections::BTreeSet;

use hack_testkit::{jobs, nodes};
use protocol_model::{
    Affinity, Constraint, EvalStatus, JobType, NetworkResource, NodeId, Port, UpdateStrategy,
    WorkloadIdentity,
};

use crate::scene::{Scene, key};

fn constraint(left: &str, operand: &str, right: &str) -> Constraint {
    Constraint {
        l_target: left.to_owned(),
        operand: operand.to_owned(),
        r_target: right.to_owned(),
    }
}

#[test]
fn a_job_gets_its_count_and_every_name_once() {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 7));
    let decision = scene.run(&eval);
    assert_eq!(decision.groups["group"].place, 7);
    assert_eq!(scene.live(&key("web")).len(), 7, "seven different names");
    let stored = scene.world.snapshot();
    assert_eq!(
        stored.eval(eval.id).map(|eval| eval.status),
        Some(EvalStatus::Complete)
    );
}

#[test]
fn a_constraint_that_no_node_satisfies_blocks_and_says_why() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.constraints
        .push(constraint("${attr.kernel.name}", "=", "plan9"));
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let metric = &decision.failed["group"];
    assert_eq!((metric.nodes_evaluated, metric.nodes_filtered), (2, 2));
    assert_eq!(metric.constraint_filtered["${attr.kernel.name} = plan9"], 2);
    let snapshot = scene.world.snapshot();
    let blocked = snapshot
        .evals_by_job(&key("web"))
        .find(|eval| eval.status == EvalStatus::Blocked)
        .expect("a blocked evaluation");
    assert_eq!(blocked.class_eligibility.get("linux"), Some(&false));
    assert_eq!(
        snapshot.eval(eval.id).and_then(|eval| eval.blocked_eval),
        Some(blocked.id)
    );
}

#[test]
fn what_does_not_fit_is_explained_by_dimension() {
    let mut scene = Scene::new(1);
    let mut job = jobs::draft(JobType::Service, "big", 1);
    let resources = job.task_groups[0].tasks[0]
        .resources
        .as_mut()
        .expect("resources");
    resources.memory_mb = Some(100_000);
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.failed["group"].dimension_exhausted["memory"], 1);
    assert_eq!(decision.failed["group"].nodes_exhausted, 1);
}

#[test]
fn a_missing_driver_filters_a_node() {
    let mut scene = Scene::new(0);
    let mut bare = nodes::node(1);
    bare.drivers.clear();
    scene.world.add_node(bare);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 1));
    let decision = scene.run(&eval);
    assert_eq!(
        decision.failed["group"].constraint_filtered["missing drivers"],
        1
    );
}

#[test]
fn a_task_that_shows_an_identity_waits_for_a_node_that_gives_it() {
    const REASON: &str = "missing task identities (${attr.noded.identity} = true)";
    for (env, file, waits) in [
        (true, false, true),
        (false, true, true),
        (false, false, false),
    ] {
        let mut scene = Scene::new(0);
        let mut old = nodes::node(1);
        old.attributes.remove("noded.identity");
        "old".clone_into(&mut old.computed_class);
        scene.world.add_node(old);
        let mut job = jobs::draft(JobType::Service, "web", 1);
        let own = WorkloadIdentity {
            env,
            file,
            ..WorkloadIdentity::default()
        };
        job.task_groups[0].tasks[0].identity = Some(own);
        job.canonicalize();
        let eval = scene.world.register(job);
        let decision = scene.run(&eval);
        if !waits {
            assert_eq!(scene.live(&key("web")).len(), 1, "no token is expected");
            continue;
        }
        assert_eq!(decision.failed["group"].constraint_filtered[REASON], 1);
        let snapshot = scene.world.snapshot();
        let blocked = snapshot.evals_by_job(&key("web"));
        let blocked: Vec<_> = blocked
            .filter(|it| it.status == EvalStatus::Blocked)
            .collect();
        assert_eq!(blocked[0].class_eligibility.get("old"), Some(&false));
        let eval = blocked[0].clone();
        let new = scene.world.add_node(nodes::node(2));
        scene.run(&eval);
        let live = scene.live(&key("web"));
        let placed: Vec<NodeId> = live.values().map(|alloc| alloc.node_id).collect();
        assert_eq!(placed, [new], "env {env}, file {file}");
    }
}

#[test]
fn an_affinity_draws_allocations_to_its_node() {
    let mut scene = Scene::new(3);
    let mut rack = nodes::node(9);
    rack.meta.insert("rack".to_owned(), "r1".to_owned());
    rack.computed_class = "racked".to_owned();
    let favourite = scene.world.add_node(rack);
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.affinities.push(Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "r1".to_owned(),
        operand: "=".to_owned(),
        weight: Some(100),
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.plan.placed[0].node_id, favourite);
    let best = &decision.plan.placed[0].metrics.score_meta_data[0];
    assert_eq!(
        (best.node_id, best.scores["node-affinity"]),
        (favourite, 1.0)
    );
}

#[test]
fn static_ports_are_had_once_per_node_and_dynamic_ones_never_twice() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::Service, "web", 3);
    let port = |label: &str, value| Port {
        label: label.to_owned(),
        value,
        ..Port::default()
    };
    job.task_groups[0].networks.push(NetworkResource {
        reserved_ports: vec![port("admin", 8080)],
        dynamic_ports: vec![port("http", 0)],
        ..NetworkResource::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(
        decision.plan.placed.len(),
        2,
        "one per node: the static port"
    );
    assert!(
        decision.failed["group"]
            .dimension_exhausted
            .contains_key("network: reserved port collision admin=8080")
    );
    for alloc in &decision.plan.placed {
        let ports = &alloc.allocated_resources.shared.ports;
        let http = ports
            .iter()
            .find(|port| port.label == "http")
            .expect("the dynamic port");
        assert!((20_000..=32_000).contains(&http.value), "{}", http.value);
        assert!(http.host_ip.starts_with("10.0.0."));
    }
}

#[test]
fn distinct_hosts_keeps_allocations_apart() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::Service, "web", 3);
    job.constraints
        .push(constraint("", "distinct_hosts", "true"));
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.plan.placed.len(), 2);
    assert_eq!(
        decision.failed["group"].constraint_filtered["distinct_hosts"],
        2
    );
}

#[test]
fn distinct_hosts_of_a_job_keeps_its_groups_apart() {
    let mut scene = Scene::new(3);
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.task_groups.push(jobs::group("other", 1));
    job.task_groups.push(jobs::group("third", 1));
    job.constraints
        .push(constraint("", "distinct_hosts", "true"));
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let placed = decision.plan.placed.iter();
    let nodes: BTreeSet<NodeId> = placed.map(|alloc| alloc.node_id).collect();
    assert_eq!(nodes.len(), 3, "one on each");
}

#[test]
fn what_stays_for_want_of_room_keeps_its_distance() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::Service, "web", 1);
    job.constraints
        .push(constraint("", "distinct_hosts", "true"));
    job.task_groups[0].update = Some(UpdateStrategy {
        max_parallel: Some(0),
        ..UpdateStrategy::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job.clone());
    let first = scene.run(&eval).plan.placed[0].node_id;
    scene.start_all(&key("web"));
    // Another argument, and more than any node has: what runs cannot be replaced.
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("the fixture has resources").cpu = Some(4001);
    job.task_groups.push(jobs::group("other", 2));
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let others: Vec<NodeId> = decision.plan.placed.iter().map(|it| it.node_id).collect();
    assert_eq!(others.len(), 1, "one node is left");
    assert_ne!(others[0], first);
}

#[test]
fn a_property_that_is_used_up_rules_out_all_who_have_it() {
    let mut scene = Scene::new(0);
    for number in 1..=4 {
        let mut node = nodes::node(number);
        let rack = if number <= 2 { "r1" } else { "r2" };
        node.meta.insert("rack".to_owned(), rack.to_owned());
        node.computed_class = rack.to_owned();
        scene.world.add_node(node);
    }
    let mut job = jobs::draft(JobType::Service, "web", 4);
    job.constraints
        .push(constraint("${meta.rack}", "distinct_property", "1"));
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.plan.placed.len(), 2, "one in each rack");
    let metric = &decision.failed["group"];
    assert_eq!((metric.nodes_evaluated, metric.nodes_filtered), (4, 4));
    let used_up = "distinct_property: ${meta.rack}=r1 used by 1 allocs";
    assert_eq!(metric.constraint_filtered[used_up], 2);
}

#[test]
fn the_room_of_a_group_that_goes_is_there_for_the_one_that_comes() {
    let mut scene = Scene::new(1);
    let sized = |name: &str| {
        let mut job = jobs::draft(JobType::Service, "web", 0);
        let mut group = jobs::group(name, 2);
        let resources = group.tasks[0].resources.as_mut();
        resources.expect("the fixture has resources").cpu = Some(2000);
        job.task_groups = vec![group];
        job.canonicalize();
        job
    };
    let eval = scene.world.register(sized("one"));
    assert_eq!(scene.run(&eval).plan.placed.len(), 2, "the node is full");
    let eval = scene.world.register(sized("two"));
    assert_eq!(scene.run(&eval).plan.placed.len(), 2);
}

#[test]
fn a_node_without_free_ports_is_passed_over() {
    let mut scene = Scene::new(0);
    for number in 1..=2 {
        let mut node = nodes::node(number);
        if number == 1 {
            // The better one, by what is left of it, hands out a single port.
            node.node_resources.cpu.cpu_shares = 1000;
            node.node_resources.max_dynamic_port = node.node_resources.min_dynamic_port;
        }
        scene.world.add_node(node);
    }
    let mut job = jobs::draft(JobType::Service, "web", 4);
    let port = |label: &str| Port {
        label: label.to_owned(),
        ..Port::default()
    };
    job.task_groups[0].networks.push(NetworkResource {
        dynamic_ports: vec![port("http"), port("admin")],
        ..NetworkResource::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert_eq!(decision.plan.placed.len(), 4, "{:?}", decision.failed);
    for alloc in &decision.plan.placed {
        assert_eq!(alloc.node_id, nodes::node(2).id);
        let none_free = "network: dynamic port selection failed";
        assert_eq!(alloc.metrics.dimension_exhausted[none_free], 1);
    }
}

#[test]
fn ineligible_nodes_and_other_datacenters_are_left_out() {
    let mut scene = Scene::new(1);
    let mut away = nodes::node(5);
    away.datacenter = "eu-1".to_owned();
    let away = scene.world.add_node(away);
    let mut job = jobs::draft(JobType::Service, "web", 2);
    job.datacenters = vec!["eu-*".to_owned()];
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let nodes: Vec<NodeId> = decision
        .plan
        .placed
        .iter()
        .map(|alloc| alloc.node_id)
        .collect();
    assert_eq!(nodes, [away, away]);
}

#[test]
fn equal_inputs_give_equal_decisions() {
    let mut left = Scene::new(4);
    let mut right = Scene::new(4);
    let first = left.world.register(jobs::job(JobType::Batch, "run", 5));
    let second = right.world.register(jobs::job(JobType::Batch, "run", 5));
    assert_eq!(left.decide(&first), right.decide(&second));
}

#[test]
fn nothing_is_decided_by_the_order_in_which_nodes_came() {
    let orders: [Vec<u8>; 2] = [(1..=9).collect(), (1..=9).rev().collect()];
    let decided = orders.map(|numbers| {
        let mut scene = Scene::new(0);
        for number in numbers {
            scene.world.add_node(nodes::node(number));
        }
        let eval = scene.world.register(jobs::job(JobType::Service, "web", 4));
        let placed = scene.decide(&eval).plan.placed;
        let placed = placed
            .iter()
            .map(|alloc| (alloc.name.clone(), alloc.node_id));
        placed.collect::<Vec<_>>()
    });
    assert_eq!(decided[0], decided[1]);
}

#[test]
fn a_job_that_waits_no_longer_is_not_said_to_wait() {
    let queued = |scene: &Scene| {
        let summary = scene.world.snapshot().job_summary(&key("web"));
        summary.groups["group"].queued
    };
    let mut scene = Scene::new(0);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 2));
    scene.run(&eval);
    assert_eq!(queued(&scene), 2);
    scene.world.add_node(nodes::node(1));
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 2));
    scene.run(&eval);
    assert_eq!((queued(&scene), scene.live_count(&key("web"))), (0, 2));
    let eval = scene
        .world
        .register(jobs::job(JobType::Service, "web", 1000));
    scene.run(&eval);
    assert!(queued(&scene) > 0);
    let eval = scene.world.deregister(&key("web"));
    scene.run(&eval);
    assert_eq!(queued(&scene), 0);
}

#[test]
fn a_property_with_many_values_is_explained_in_one_line() {
    for (count, texts) in [(8, 8), (9, 1)] {
        let mut scene = Scene::new(count);
        let mut job = jobs::draft(JobType::Service, "web", u32::from(count) + 1);
        let apart = constraint("${node.unique.name}", "distinct_property", "1");
        job.constraints.push(apart);
        job.canonicalize();
        let eval = scene.world.register(job);
        let decision = scene.run(&eval);
        let metric = &decision.failed["group"];
        let told = &metric.constraint_filtered;
        assert_eq!(told.len(), texts, "{told:?}");
        assert_eq!(told.values().sum::<u64>(), u64::from(count));
    }
}
