//! Another version of a job whose tasks do not feel it: who stays where it is, and who does not.

use hack_testkit::{jobs, nodes};
use protocol_model::{
    Affinity, Constraint, EvalStatus, Job, JobType, NodeId, Service, Spread, UpdateStrategy,
};

use crate::scene::{Scene, key};

/// Two nodes in rack `r1`, two in `r2`, in datacenters and pools of the same names.
fn racks() -> Scene {
    let mut scene = Scene::new(0);
    for number in 1..=4 {
        let mut node = nodes::node(number);
        let rack = if number <= 2 { "r1" } else { "r2" };
        node.meta.insert("rack".to_owned(), rack.to_owned());
        node.datacenter = rack.to_owned();
        node.node_pool = rack.to_owned();
        node.computed_class = rack.to_owned();
        scene.world.add_node(node);
    }
    scene
}

fn in_second_rack(node: NodeId) -> bool {
    [nodes::node(3).id, nodes::node(4).id].contains(&node)
}

/// A service of two that may run everywhere.
fn anywhere(max_parallel: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", 2);
    job.node_pool = "all".to_owned();
    job.datacenters = vec!["*".to_owned()];
    job.task_groups[0].update = Some(UpdateStrategy {
        max_parallel: Some(max_parallel),
        ..UpdateStrategy::default()
    });
    job
}

fn on_rack(operand: &str, rack: &str) -> Constraint {
    Constraint {
        l_target: "${meta.rack}".to_owned(),
        operand: operand.to_owned(),
        r_target: rack.to_owned(),
    }
}

/// `job` registered and running.
fn running(scene: &mut Scene, mut job: Job) {
    job.canonicalize();
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
}

/// Both in the first rack: a version that asks for it, and one that asks for nothing any more.
fn in_first_rack(max_parallel: u32) -> Scene {
    let mut scene = racks();
    let mut job = anywhere(max_parallel);
    job.constraints.push(on_rack("=", "r1"));
    running(&mut scene, job);
    running(&mut scene, anywhere(max_parallel));
    scene
}

type Change = fn(&mut Job);

#[test]
fn who_may_not_be_where_it_is_any_more_moves() {
    let changes: [(&str, Change); 4] = [
        ("constraint", |job| job.constraints.push(on_rack("=", "r2"))),
        ("of a task", |job| {
            let task = &mut job.task_groups[0].tasks[0];
            task.constraints.push(on_rack("!=", "r1"));
        }),
        ("datacenters", |job| job.datacenters = vec!["r2".to_owned()]),
        ("node pool", |job| job.node_pool = "r2".to_owned()),
    ];
    for (what, change) in changes {
        let mut scene = in_first_rack(0);
        let mut job = anywhere(0);
        change(&mut job);
        job.canonicalize();
        let eval = scene.world.register(job);
        let decision = scene.run(&eval);
        let report = decision.groups["group"];
        assert_eq!((report.destructive, report.in_place), (2, 0), "{what}");
        let live = scene.live(&key("web"));
        assert_eq!(live.len(), 2, "{what}");
        assert!(live.values().all(|it| in_second_rack(it.node_id)), "{what}");
    }
}

#[test]
fn who_may_be_where_it_is_stays_there() {
    let mut scene = in_first_rack(0);
    let mut job = anywhere(0);
    job.constraints.push(on_rack("=", "r1"));
    job.canonicalize();
    let eval = scene.world.register(job);
    let report = scene.run(&eval).groups["group"];
    assert_eq!((report.destructive, report.in_place), (0, 2));
}

#[test]
fn who_may_not_stay_moves_as_fast_as_the_rollout_allows() {
    let mut scene = in_first_rack(1);
    let mut job = anywhere(1);
    job.constraints.push(on_rack("=", "r2"));
    job.canonicalize();
    let eval = scene.world.register(job);
    assert_eq!(scene.run(&eval).groups["group"].destructive, 1);
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    let live = scene.live(&key("web"));
    assert!(live.values().all(|alloc| in_second_rack(alloc.node_id)));
}

#[test]
fn who_can_go_nowhere_else_goes_on_as_it_was() {
    let mut scene = in_first_rack(0);
    let mut job = anywhere(0);
    job.constraints.push(on_rack("=", "r3"));
    job.canonicalize();
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    assert!(decision.plan.changed.is_empty(), "nobody is stopped");
    assert_eq!(decision.failed["group"].nodes_filtered, 4);
    let snapshot = scene.world.snapshot();
    let mut evals = snapshot.evals_by_job(&key("web"));
    assert!(evals.any(|eval| eval.status == EvalStatus::Blocked));
}

#[test]
fn hosts_that_have_to_be_distinct_now_are_made_so() {
    let mut scene = Scene::new(1);
    let eval = scene.world.register({
        let mut job = anywhere(0);
        job.canonicalize();
        job
    });
    assert_eq!(scene.run(&eval).plan.placed.len(), 2, "on the one node");
    scene.start_all(&key("web"));
    scene.world.add_node(nodes::node(2));
    let mut job = anywhere(0);
    job.constraints.push(Constraint {
        operand: "distinct_hosts".to_owned(),
        r_target: "true".to_owned(),
        ..Constraint::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    scene.run(&eval);
    let live = scene.live(&key("web"));
    let nodes: Vec<NodeId> = live.values().map(|alloc| alloc.node_id).collect();
    assert_eq!(nodes.len(), 2);
    assert_ne!(nodes[0], nodes[1]);
}

#[test]
fn another_preference_among_nodes_is_followed_and_another_service_is_not_felt() {
    let affinity = || Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "r2".to_owned(),
        operand: "=".to_owned(),
        weight: Some(100),
    };
    let mut scene = in_first_rack(0);
    let mut job = anywhere(0);
    job.task_groups[0].affinities.push(affinity());
    job.canonicalize();
    let eval = scene.world.register(job.clone());
    assert_eq!(scene.run(&eval).groups["group"].destructive, 2);
    let live = scene.live(&key("web"));
    assert!(live.values().all(|alloc| in_second_rack(alloc.node_id)));

    scene.start_all(&key("web"));
    let service = Service {
        name: "web".to_owned(),
        ..Service::default()
    };
    job.task_groups[0].tasks[0].services.push(service);
    job.canonicalize();
    let eval = scene.world.register(job.clone());
    assert_eq!(scene.run(&eval).groups["group"].in_place, 2);

    job.task_groups[0].spreads.push(Spread {
        attribute: "${node.datacenter}".to_owned(),
        ..Spread::default()
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    assert_eq!(scene.run(&eval).groups["group"].destructive, 2);
}
