//! Preemption: less important allocations make room for one that fits nowhere, and only as many as
//! have to.

use controlplane_scheduler::Decision;
use controlplane_state::{Capacity, PreemptionConfig, SchedulerConfig, Snapshot, Usage, fit};
use hack_testkit::jobs;
use proptest::prelude::*;
use protocol_model::{
    AllocId, ClientStatus, DesiredStatus, EvalStatus, EvalTrigger, Evaluation, Job, JobType,
    NetworkResource, NodeId, Port,
};

use crate::oracle::set_config;
use crate::scene::{Scene, key};

/// Jobs of every type preempt.
const ALL: PreemptionConfig = PreemptionConfig {
    system: true,
    sysbatch: true,
    batch: true,
    service: true,
};

fn scene(node_count: u8, preemption: PreemptionConfig) -> Scene {
    let mut scene = Scene::new(node_count);
    let config = SchedulerConfig {
        preemption,
        ..SchedulerConfig::default()
    };
    set_config(&mut scene.world, config);
    scene
}

/// A job of `count` that asks for this much processor time and memory.
fn sized(job_type: JobType, name: &str, priority: i32, count: u32, cpu: u64, memory: u64) -> Job {
    let mut job = jobs::draft(job_type, name, count);
    job.priority = priority;
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    let resources = resources.expect("the fixture has resources");
    (resources.cpu, resources.memory_mb) = (Some(cpu), Some(memory));
    job.canonicalize();
    job
}

fn service(name: &str, priority: i32, count: u32, cpu: u64) -> Job {
    sized(JobType::Service, name, priority, count, cpu, 100)
}

fn run(scene: &mut Scene, job: Job) -> Decision {
    let eval = scene.world.register(job);
    scene.run(&eval)
}

fn victims(decision: &Decision) -> Vec<AllocId> {
    decision.plan.preempted.iter().map(|it| it.id).collect()
}

fn preemption_evals(snapshot: &Snapshot, job: &str) -> Vec<Evaluation> {
    let evals = snapshot.evals_by_job(&key(job));
    let evals = evals.filter(|eval| eval.triggered_by == EvalTrigger::Preemption);
    evals.map(|eval| Evaluation::clone(eval)).collect()
}

#[test]
fn urgent_job_evicts_a_less_important_one_and_both_name_it() {
    let mut scene = scene(1, ALL);
    run(&mut scene, service("low", 20, 2, 2000));
    scene.start_all(&key("low"));
    let decision = run(&mut scene, service("high", 70, 1, 1500));
    let [victim] = victims(&decision)[..] else {
        panic!("one victim is enough: {:?}", decision.plan.preempted);
    };
    let placed = &decision.plan.placed[0];
    assert_eq!(placed.preempted_allocations, [victim]);
    let scores = &placed.metrics.score_meta_data[0].scores;
    assert!(scores["preemption"] > 0.9, "{scores:?}");
    assert_eq!(decision.groups["group"].preemptions, 1);
    let snapshot = scene.world.snapshot();
    let evicted = snapshot.alloc(victim).expect("it is kept");
    assert_eq!(evicted.desired_status, DesiredStatus::Evict);
    assert_eq!(evicted.preempted_by_allocation, Some(placed.id));
    assert_eq!(
        evicted.desired_description,
        format!("Preempted by alloc ID {}", placed.id)
    );
    let evals = preemption_evals(&snapshot, "low");
    assert_eq!(evals.len(), 1, "one evaluation, in the same entry");
    assert_eq!(evals[0].create_index, evicted.modify_index);
    // Its job finds no other node, and waits for room.
    scene.settle(&key("low"));
    let snapshot = scene.world.snapshot();
    let mut evals = snapshot.evals_by_job(&key("low"));
    assert!(evals.any(|eval| eval.status == EvalStatus::Blocked));
    assert_eq!(scene.live_count(&key("low")), 1);
}

#[test]
fn a_placement_evicts_no_alloc_where_a_node_has_room() {
    let mut scene = scene(2, ALL);
    run(&mut scene, service("low", 20, 1, 3000));
    let decision = run(&mut scene, service("high", 70, 1, 3000));
    assert_eq!(victims(&decision), []);
    assert_eq!(decision.plan.placed.len(), 1);
}

#[test]
fn a_job_type_preempts_only_where_it_is_configured() {
    for job_type in [
        JobType::Service,
        JobType::Batch,
        JobType::Sysbatch,
        JobType::System,
    ] {
        for on in [true, false] {
            let mut preemption = PreemptionConfig {
                system: false,
                sysbatch: false,
                batch: false,
                service: false,
            };
            match job_type {
                JobType::Service => preemption.service = on,
                JobType::Batch => preemption.batch = on,
                JobType::Sysbatch => preemption.sysbatch = on,
                JobType::System => preemption.system = on,
            }
            let mut scene = scene(1, preemption);
            run(&mut scene, service("low", 20, 1, 3000));
            let decision = run(&mut scene, sized(job_type, "high", 70, 1, 3000, 100));
            assert_eq!(victims(&decision).len(), usize::from(on), "{job_type} {on}");
            assert_eq!(decision.failed.is_empty(), on, "{job_type} {on}");
        }
    }
}

#[test]
fn priorities_within_ten_are_left_alone() {
    for (priority, victims_expected) in [(60, 0), (61, 0), (59, 1)] {
        let mut scene = scene(1, ALL);
        run(&mut scene, service("low", priority, 1, 3000));
        let decision = run(&mut scene, service("high", 69, 1, 3000));
        assert_eq!(victims(&decision).len(), victims_expected, "{priority}");
    }
}

#[test]
fn own_allocations_are_no_victims() {
    let mut scene = scene(1, ALL);
    run(&mut scene, service("web", 20, 1, 3000));
    let decision = run(&mut scene, service("web", 70, 2, 3000));
    assert_eq!(victims(&decision), []);
    assert_eq!(decision.failed.len(), 1);
}

#[test]
fn holder_of_a_static_port_is_the_victim() {
    let with_port = |name: &str, priority: i32| {
        let mut job = service(name, priority, 1, 100);
        job.task_groups[0].networks.push(NetworkResource {
            reserved_ports: vec![Port {
                label: "web".to_owned(),
                value: 8080,
                ..Port::default()
            }],
            ..NetworkResource::default()
        });
        job.canonicalize();
        job
    };
    let mut scene = scene(1, ALL);
    run(&mut scene, service("other", 10, 1, 100));
    let holder = run(&mut scene, with_port("holder", 30)).plan.placed[0].id;
    let decision = run(&mut scene, with_port("high", 70));
    assert_eq!(victims(&decision), [holder]);
}

#[test]
fn room_that_a_victim_leaves_over_is_used_before_another_one_goes() {
    let mut scene = scene(2, ALL);
    run(&mut scene, service("low", 20, 2, 4000));
    let decision = run(&mut scene, service("high", 70, 2, 2000));
    let [victim] = victims(&decision)[..] else {
        panic!("one leaves room for both: {:?}", decision.plan.preempted);
    };
    // The second one, too, starts when the victim has ended.
    for alloc in &decision.plan.placed {
        assert_eq!(alloc.preempted_allocations, [victim]);
    }
}

#[test]
fn a_victim_that_ended_meanwhile_is_left_as_it_is() {
    let mut scene = scene(1, ALL);
    run(&mut scene, service("low", 20, 1, 4000));
    scene.start_all(&key("low"));
    let eval = scene.world.register(service("high", 70, 1, 4000));
    let decision = scene.decide(&eval);
    let victim = victims(&decision)[0];
    scene.world.report(victim, ClientStatus::Complete);
    let plan = Box::new(decision.plan);
    scene
        .world
        .expect(controlplane_state::Command::PlanApply(plan));
    let snapshot = scene.world.snapshot();
    let alloc = snapshot.alloc(victim).expect("it is kept");
    assert_eq!(alloc.desired_status, DesiredStatus::Run);
    assert_eq!(alloc.preempted_by_allocation, None);
    assert_eq!(preemption_evals(&snapshot, "low"), []);
}

#[test]
fn room_of_an_evicted_one_is_not_given_away_twice() {
    let mut scene = scene(1, ALL);
    run(&mut scene, service("low", 20, 1, 4000));
    run(&mut scene, service("high", 70, 1, 3000));
    // The victim has not ended yet: its room is counted still, and is another one's already.
    let decision = run(&mut scene, service("higher", 75, 1, 3000));
    assert_eq!(decision.plan.placed.len(), 0);
    assert_eq!(decision.failed.len(), 1);
}

/// Allocations of a full cluster: priority, MHz, MiB.
type Low = (i32, u64, u64);

fn left(snapshot: &Snapshot, node: NodeId, gone: &[AllocId]) -> (Capacity, Usage) {
    let row = snapshot
        .node_columns()
        .row(node)
        .expect("the node is known");
    let mut used = row.used.clone();
    for alloc in snapshot.allocs_on_node(node) {
        if gone.contains(&alloc.id) {
            used.subtract(&Usage::of(&alloc.allocated_resources));
        }
    }
    (row.capacity.clone(), used)
}

/// Whether a subset of the victims is enough, by trying each.
fn can_do_with_fewer(snapshot: &Snapshot, node: NodeId, victims: &[AllocId], ask: &Usage) -> bool {
    let all = (1u32 << victims.len()) - 1;
    (0..all).any(|subset| {
        let chosen = victims.iter().enumerate();
        let chosen = chosen.filter(|(bit, _)| subset & (1 << bit) != 0);
        let chosen: Vec<AllocId> = chosen.map(|(_, id)| *id).collect();
        let (capacity, used) = left(snapshot, node, &chosen);
        fit::fits(&capacity, &used, ask).is_ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_victim_can_be_left_out_and_none_is_too_important(
        lows in prop::collection::vec((1..60i32, 200..1500u64, 200..3000u64), 4..24),
        (priority, cpu, memory) in (20..90i32, 200..4000u64, 200..8000u64),
    ) {
        let mut scene = scene(3, ALL);
        // They find the nodes empty and evict none: the first are the most important.
        let mut lows: Vec<Low> = lows;
        lows.sort_by_key(|low| std::cmp::Reverse(low.0));
        for (number, (priority, cpu, memory)) in lows.iter().enumerate() {
            let name = format!("low-{number}");
            let job = sized(JobType::Service, &name, *priority, 1, *cpu, *memory);
            run(&mut scene, job);
            scene.start_all(&key(&name));
        }
        let before = scene.world.snapshot();
        let decision = run(&mut scene, sized(JobType::Service, "high", priority, 1, cpu, memory));
        let victims = victims(&decision);
        let mine = before.nodes().map(|record| record.node.id);
        let reclaimable = |node: &NodeId| -> Vec<AllocId> {
            let on_node = before.allocs_on_node(*node).filter(|alloc| !alloc.terminal());
            let less = on_node.filter(|alloc| {
                before.spec(alloc.spec).is_some_and(|job| job.priority <= priority - 10)
            });
            less.map(|alloc| alloc.id).collect()
        };
        let Some(placed) = decision.plan.placed.first() else {
            // Not even all of them together are enough anywhere.
            let mut ask = Usage::default();
            (ask.cpu, ask.memory_mb) = (cpu as i64, memory as i64);
            for node in mine {
                let (capacity, used) = left(&before, node, &reclaimable(&node));
                prop_assert!(fit::fits(&capacity, &used, &ask).is_err());
            }
            return Ok(());
        };
        let ask = Usage::of(&placed.allocated_resources);
        let allowed = reclaimable(&placed.node_id);
        prop_assert!(victims.iter().all(|id| allowed.contains(id)));
        let (capacity, used) = left(&before, placed.node_id, &victims);
        prop_assert!(fit::fits(&capacity, &used, &ask).is_ok());
        prop_assert!(!can_do_with_fewer(&before, placed.node_id, &victims, &ask));
        if !victims.is_empty() {
            for node in mine {
                let (capacity, used) = left(&before, node, &[]);
                prop_assert!(fit::fits(&capacity, &used, &ask).is_err(), "there was room");
            }
        }
        let mut victims = victims;
        victims.sort();
        prop_assert_eq!(&placed.preempted_allocations, &victims);
    }
}
