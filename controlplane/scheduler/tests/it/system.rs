//! System and sysbatch jobs: one on every node that may have it.

use controlplane_state::Command;
use controlplane_state::command::{JobDeregister, Purge};
use hack_testkit::{jobs, nodes};
use protocol_model::{AllocId, ClientStatus, Constraint, EvalStatus, Evaluation, JobType};

use crate::scene::{Scene, key};

#[test]
fn a_system_job_is_on_every_node_and_follows_new_ones() {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 1));
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("agent")), 3);
    scene.world.add_node(nodes::node(8));
    scene.settle(&key("agent"));
    assert_eq!(scene.live_count(&key("agent")), 4);
}

#[test]
fn a_node_that_goes_takes_its_system_allocation_along() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 1));
    scene.run(&eval);
    scene.start_all(&key("agent"));
    scene.world.silence(nodes::node(1).id);
    scene.settle(&key("agent"));
    assert_eq!(scene.live_count(&key("agent")), 1);
}

#[test]
fn a_finished_sysbatch_allocation_is_not_run_again() {
    let mut scene = Scene::new(2);
    let eval = scene
        .world
        .register(jobs::job(JobType::Sysbatch, "once", 1));
    scene.run(&eval);
    let all: Vec<_> = scene
        .world
        .snapshot()
        .allocs_by_job(&key("once"))
        .map(|alloc| alloc.id)
        .collect();
    assert_eq!(all.len(), 2);
    for id in all {
        scene.world.report(id, ClientStatus::Complete);
    }
    scene.settle(&key("once"));
    let eval = scene
        .world
        .register(jobs::job(JobType::Sysbatch, "once", 1));
    assert!(!scene.run(&eval).changes_something());
}

#[test]
fn a_system_job_that_may_run_nowhere_says_why_and_waits() {
    for job_type in [JobType::System, JobType::Sysbatch] {
        let mut scene = Scene::new(2);
        let mut job = jobs::draft(job_type, "agent", 1);
        job.constraints.push(Constraint {
            l_target: "${meta.rack}".to_owned(),
            operand: "=".to_owned(),
            r_target: "r9".to_owned(),
        });
        job.canonicalize();
        let eval = scene.world.register(job);
        let decision = scene.run(&eval);
        let told = &decision.failed["group"];
        assert_eq!((told.nodes_evaluated, told.nodes_filtered), (2, 2));
        assert_eq!(told.constraint_filtered["${meta.rack} = r9"], 2);
        let snapshot = scene.world.snapshot();
        let mut evals = snapshot.evals_by_job(&key("agent"));
        let blocked = evals.find(|eval| eval.status == EvalStatus::Blocked);
        let blocked = Evaluation::clone(blocked.expect("it waits"));
        assert!(!blocked.class_eligibility["linux"]);
        // On some nodes is where it belongs: nothing is missing then.
        let mut racked = nodes::node(3);
        racked.meta.insert("rack".to_owned(), "r9".to_owned());
        racked.computed_class = "racked".to_owned();
        scene.world.add_node(racked);
        let decision = scene.run(&blocked);
        assert_eq!(
            (decision.failed.len(), scene.live_count(&key("agent"))),
            (0, 1)
        );
    }
}

/// A sysbatch job of one task with this argument and priority, which ran to its end.
fn ran(scene: &mut Scene, argument: &str, priority: i32) -> Option<AllocId> {
    let mut job = jobs::draft(JobType::Sysbatch, "once", 1);
    job.priority = priority;
    let task = &mut job.task_groups[0].tasks[0];
    task.env.insert("A".to_owned(), argument.to_owned());
    job.canonicalize();
    let eval = scene.world.register(job);
    let placed = scene.run(&eval).plan.placed.first().map(|alloc| alloc.id);
    if let Some(id) = placed {
        scene.world.report(id, ClientStatus::Complete);
    }
    placed
}

#[test]
fn of_what_a_sysbatch_job_ran_on_a_node_the_newest_counts_and_the_others_are_collected() {
    for collects in [false, true] {
        let mut scene = Scene::new(1);
        let known = |scene: &Scene| -> Vec<AllocId> {
            let snapshot = scene.world.snapshot();
            let allocs = snapshot.allocs_by_job(&key("once"));
            allocs.map(|alloc| alloc.id).collect()
        };
        let first = ran(&mut scene, "one", 50).expect("it runs");
        assert_eq!(ran(&mut scene, "one", 70), None, "its tasks are the same");
        let second = ran(&mut scene, "two", 70).expect("it is another one");
        assert_eq!(known(&scene).len(), 2);
        if collects {
            // A job that is dead goes as a whole: one that still has something to do does not.
            scene.world.add_node(nodes::node(2));
            let eval = scene.world.pending(&key("once")).expect("for the node");
            scene.run(&eval);
            scene.collect();
            assert!(known(&scene).contains(&second));
            assert!(!known(&scene).contains(&first));
            scene.world.silence(nodes::node(2).id);
        }
        assert!(ran(&mut scene, "one", 70).is_some(), "{collects}");
    }
}

#[test]
fn a_system_group_of_none_runs_nowhere() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 0));
    assert!(!scene.run(&eval).changes_something());
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 1));
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("agent")), 2);
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 0));
    assert_eq!(scene.run(&eval).groups["group"].stop, 2);
    assert_eq!(scene.live_count(&key("agent")), 0);
}

#[test]
fn what_runs_outlives_a_driver_that_is_ill_and_another_version_does_not_start_there() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 1));
    scene.run(&eval);
    scene.start_all(&key("agent"));
    let mut ill = nodes::node(1);
    for driver in ill.drivers.values_mut() {
        driver.healthy = false;
    }
    ill.computed_class = "ill".to_owned();
    scene.world.add_node(ill);
    scene.settle(&key("agent"));
    let eval = scene.world.register(jobs::job(JobType::System, "agent", 1));
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("agent")), 2, "both go on");
    let mut newer = jobs::draft(JobType::System, "agent", 1);
    newer.task_groups[0].tasks[0]
        .env
        .insert("NEW".to_owned(), "1".to_owned());
    newer.canonicalize();
    let eval = scene.world.register(newer);
    scene.run(&eval);
    let live = scene.live(&key("agent")).into_values();
    let nodes: Vec<_> = live.map(|alloc| alloc.node_id).collect();
    assert_eq!(nodes, [nodes::node(2).id]);
}

#[test]
fn a_node_that_leaves_the_datacenter_of_a_system_job_loses_its_allocation() {
    let mut scene = Scene::new(2);
    let mut job = jobs::draft(JobType::System, "agent", 1);
    job.datacenters = vec!["dc1".to_owned()];
    job.canonicalize();
    let eval = scene.world.register(job.clone());
    scene.run(&eval);
    scene.start_all(&key("agent"));
    let mut moved = nodes::node(1);
    moved.datacenter = "dc2".to_owned();
    scene.world.add_node(moved);
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene.settle(&key("agent"));
    assert_eq!(scene.live_count(&key("agent")), 1);
}

#[test]
fn what_a_purged_job_of_that_name_ran_is_run_again() {
    let mut scene = Scene::new(1);
    let job = jobs::job(JobType::Sysbatch, "once", 1);
    let eval = scene.world.register(job.clone());
    scene.run(&eval);
    let first = scene.live(&key("once")).into_values().next().expect("one");
    scene.world.report(first.id, ClientStatus::Complete);
    scene.settle(&key("once"));
    scene.world.expect(Command::JobDeregister(JobDeregister {
        key: key("once"),
        purge: Purge::Forget,
        eval: None,
        no_shutdown_delay: false,
    }));
    let eval = scene.world.register(job);
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("once")), 1);
}
