//! Decisions that are made at the same time, and while plans are committed.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_scheduler::{Concurrency, Decision, Lane, Lanes, Scratch, schedule_concurrent};
use controlplane_state::{Command, SchedulerAlgorithm, SchedulerConfig, Usage};
use hack_testkit::{jobs, nodes};
use protocol_model::{Affinity, Evaluation, JobType, NodeId};

use crate::scene::Scene;

fn decide(scene: &Scene, eval: &Evaluation, concurrency: &Concurrency) -> Decision {
    schedule_concurrent(
        &scene.world.snapshot(),
        concurrency,
        eval,
        *eval.id.0.as_bytes(),
        &mut Scratch::new(),
        scene.world.now(),
    )
}

fn in_lane(lane: Lane) -> Concurrency {
    Concurrency {
        lane,
        ..Concurrency::NONE
    }
}

/// Plans in flight take so much of these nodes.
fn planned(nodes: &[u8], cpu: i64) -> Concurrency {
    let usage = Usage {
        cpu,
        ..Usage::default()
    };
    let planned = nodes.iter().map(|it| (nodes::node(*it).id, usage.clone()));
    Concurrency {
        planned: planned.collect(),
        ..Concurrency::NONE
    }
}

/// The lanes of two decisions at a time.
fn two_lanes(scene: &Scene, eval: &Evaluation) -> [Lane; 2] {
    let mut lanes = Lanes::new(2);
    [(); 2].map(|()| {
        let lane = lanes.take(&scene.world.snapshot(), eval, 1);
        lane.expect("one is free")
    })
}

fn placed_on(decision: &Decision) -> BTreeMap<NodeId, usize> {
    let mut counts = BTreeMap::new();
    for alloc in &decision.plan.placed {
        *counts.entry(alloc.node_id).or_default() += 1;
    }
    counts
}

#[test]
fn large_jobs_in_two_lanes_share_no_node_while_there_is_room() {
    let mut scene = Scene::new(10);
    let first = scene.world.register(jobs::job(JobType::Service, "a", 150));
    let second = scene.world.register(jobs::job(JobType::Service, "b", 150));
    let lanes = two_lanes(&scene, &first);
    let first = decide(&scene, &first, &in_lane(lanes[0]));
    let second = decide(&scene, &second, &in_lane(lanes[1]));
    for (decision, lane) in [(&first, lanes[0]), (&second, lanes[1])] {
        assert_eq!(decision.plan.placed.len(), 150);
        assert!(placed_on(decision).keys().all(|node| lane.has(*node)));
    }
    for decision in [first, second] {
        let plan = Command::PlanApply(Box::new(decision.plan));
        scene.world.expect(plan);
    }
}

#[test]
fn a_job_larger_than_its_lane_uses_the_others_too() {
    let mut scene = Scene::new(10);
    let eval = scene.world.register(jobs::job(JobType::Service, "a", 300));
    let [lane, _] = two_lanes(&scene, &eval);
    let decision = decide(&scene, &eval, &in_lane(lane));
    assert_eq!(decision.plan.placed.len(), 300);
    assert!(decision.failed.is_empty() && !decision.crowded_out);
}

#[test]
fn what_plans_in_flight_will_take_counts_as_used() {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(jobs::job(JobType::Service, "a", 6));
    let decision = decide(&scene, &eval, &planned(&[1, 3], 4000));
    let counts = placed_on(&decision);
    assert_eq!(counts, BTreeMap::from([(nodes::node(2).id, 6)]));
    assert!(!decision.crowded_out);
}

#[test]
fn only_what_plans_in_flight_take_crowds_a_job_out() {
    let mut scene = Scene::new(1);
    let eval = scene.world.register(jobs::job(JobType::Service, "a", 30));
    let decision = decide(&scene, &eval, &planned(&[1], 2000));
    assert!(decision.crowded_out);
    assert_eq!(decision.plan.placed.len(), 20);
    // More than the node has, whatever the plans take: their end would change nothing.
    let large = scene.world.register(jobs::job(JobType::Service, "b", 1));
    scene.run(&eval);
    let full = scene.world.register(jobs::job(JobType::Service, "c", 30));
    let decision = decide(&scene, &full, &planned(&[1], 0));
    assert!(!decision.crowded_out && !decision.failed.is_empty());
    assert!(decide(&scene, &large, &planned(&[1], 1000)).crowded_out);
}

#[test]
fn the_spread_algorithm_uses_the_nodes_of_all_lanes() {
    let mut scene = Scene::new(10);
    let config = SchedulerConfig {
        algorithm: SchedulerAlgorithm::Spread,
        ..SchedulerConfig::default()
    };
    scene.world.expect(Command::SchedulerConfigSet {
        config,
        enforce_index: None,
    });
    let eval = scene.world.register(jobs::job(JobType::Service, "a", 100));
    let [lane, _] = two_lanes(&scene, &eval);
    let decision = decide(&scene, &eval, &in_lane(lane));
    assert_eq!(placed_on(&decision).len(), 10);
}

#[test]
fn an_affinity_counts_more_than_the_lane() {
    let mut scene = Scene::new(4);
    let eval = scene.world.register(jobs::job(JobType::Service, "a", 1));
    let lanes = two_lanes(&scene, &eval);
    let mut racked = nodes::node(9);
    racked.meta.insert("rack".to_owned(), "r1".to_owned());
    racked.computed_class = "racked".to_owned();
    let racked = scene.world.add_node(racked);
    let mut job = jobs::draft(JobType::Service, "b", 10);
    job.affinities.push(Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "r1".to_owned(),
        operand: "=".to_owned(),
        weight: Some(100),
    });
    job.canonicalize();
    let eval = scene.world.register(job);
    let on = lanes.map(|lane| placed_on(&decide(&scene, &eval, &in_lane(lane))));
    assert_eq!(on[0], on[1]);
    assert!(on[0].contains_key(&racked));
    let other: BTreeSet<bool> = lanes.iter().map(|lane| lane.has(racked)).collect();
    assert_eq!(other.len(), 2, "it is in one of the lanes");
}
