//! Rollouts: a deployment begins with a version, goes on with its allocations' health, and ends.

use std::time::Duration;

use controlplane_state::Command;
use controlplane_state::command::{DeploymentChange, DeploymentStatusUpdate, NodeSynced};
use hack_testkit::{jobs, nodes};
use protocol_model::{
    Allocation, ClientStatus, DeploymentStatus, DesiredStatus, DisconnectStrategy, EvalTrigger,
    Job, JobType, ReschedulePolicy, UpdateStrategy,
};

use crate::scene::{Scene, key};
use crate::silence;

/// A service of three whose command has this argument.
fn version(argument: &str, max_parallel: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", 3);
    let config = &mut job.task_groups[0].tasks[0].config;
    config.insert("args".to_owned(), vec![argument].into());
    job.task_groups[0].update = Some(UpdateStrategy {
        max_parallel: Some(max_parallel),
        min_healthy_time: Some(Duration::from_secs(10)),
        ..UpdateStrategy::default()
    });
    job.task_groups[0].reschedule_policy = Some(ReschedulePolicy {
        delay: Some(Duration::from_secs(1)),
        delay_function: Some("constant".to_owned()),
        unlimited: Some(true),
        ..ReschedulePolicy::default()
    });
    job.canonicalize();
    job
}

/// The same, tolerated on a silent node for ten minutes.
fn tolerant(argument: &str) -> Job {
    let mut job = version(argument, 1);
    job.task_groups[0].disconnect = Some(DisconnectStrategy {
        lost_after: Some(Duration::from_secs(600)),
        ..DisconnectStrategy::default()
    });
    job.canonicalize();
    job
}

fn rolled_out(scene: &mut Scene, argument: &str) {
    roll_out(scene, version(argument, 1));
}

fn roll_out(scene: &mut Scene, job: Job) {
    let eval = scene.world.register(job);
    scene.run(&eval);
    for _ in 0..3 {
        scene.start_all(&key("web"));
        scene.make_healthy(&key("web"));
        scene.settle(&key("web"));
    }
}

#[test]
fn an_evaluation_names_the_rollout_that_it_began_or_carried_on() {
    let mut scene = Scene::new(2);
    let named = |scene: &Scene, eval: &protocol_model::Evaluation| {
        let snapshot = scene.world.snapshot();
        snapshot.eval(eval.id).expect("kept").deployment_id
    };
    let eval = scene.world.register(version("one", 1));
    scene.run(&eval);
    let deployment = scene.deployment(&key("web")).expect("it began").id;
    assert_eq!(named(&scene, &eval), Some(deployment));
    let again = scene.world.register(version("one", 1));
    scene.run(&again);
    assert_eq!(named(&scene, &again), Some(deployment));
    for _ in 0..3 {
        scene.start_all(&key("web"));
        scene.make_healthy(&key("web"));
        scene.settle(&key("web"));
    }
    assert_eq!(status(&scene).0, DeploymentStatus::Successful);
    let over = scene.world.register(version("one", 1));
    scene.run(&over);
    assert_eq!(named(&scene, &over), None, "nothing is rolled out");
}

fn versions(scene: &Scene) -> Vec<u64> {
    let live = scene.live(&key("web"));
    live.values().map(|alloc| alloc.job_version).collect()
}

fn status(scene: &Scene) -> (DeploymentStatus, String) {
    let deployment = scene.deployment(&key("web")).expect("a deployment");
    (deployment.status, deployment.status_description)
}

fn set_status(scene: &mut Scene, status: DeploymentStatus) {
    let id = scene.deployment(&key("web")).expect("a deployment").id;
    let change = DeploymentChange {
        id,
        status,
        description: String::new(),
        from: None,
    };
    scene
        .world
        .expect(Command::DeploymentStatus(DeploymentStatusUpdate {
            change,
            revert: None,
            eval: None,
        }));
}

#[test]
fn the_first_version_is_a_deployment_of_all_at_once() {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(version("1", 1));
    scene.run(&eval);
    let deployment = scene.deployment(&key("web")).expect("a deployment");
    let group = &deployment.task_groups["group"];
    assert_eq!((group.desired_total, group.placed_allocs), (3, 3));
    assert_eq!(status(&scene).0, DeploymentStatus::Running);
    scene.start_all(&key("web"));
    assert!(
        scene.world.pending(&key("web")).is_none(),
        "running is not healthy"
    );
    scene.make_healthy(&key("web"));
    let eval = scene.world.pending(&key("web")).expect("health is news");
    assert_eq!(eval.triggered_by, EvalTrigger::DeploymentWatcher);
    scene.settle(&key("web"));
    assert_eq!(
        status(&scene),
        (
            DeploymentStatus::Successful,
            "Deployment completed successfully".to_owned()
        )
    );
    let stable = scene
        .world
        .snapshot()
        .job(&key("web"))
        .map(|job| job.stable);
    assert_eq!(stable, Some(true));
}

#[test]
fn a_new_version_replaces_as_many_at_a_time_as_are_healthy_again() {
    let mut scene = Scene::new(3);
    rolled_out(&mut scene, "1");
    let eval = scene.world.register(version("2", 1));
    let decision = scene.run(&eval);
    assert_eq!(decision.groups["group"].destructive, 1, "one at a time");
    scene.start_all(&key("web"));
    scene.world.wait(Duration::from_secs(3600));
    scene.settle(&key("web"));
    assert_eq!(versions(&scene), [1, 0, 0], "time alone changes nothing");
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    assert_eq!(versions(&scene), [1, 1, 0]);
    for _ in 0..2 {
        scene.start_all(&key("web"));
        scene.make_healthy(&key("web"));
        scene.settle(&key("web"));
    }
    assert_eq!(versions(&scene), [1, 1, 1]);
    assert_eq!(status(&scene).0, DeploymentStatus::Successful);
}

#[test]
fn an_unhealthy_allocation_stops_the_rollout_where_it_is() {
    let mut scene = Scene::new(3);
    rolled_out(&mut scene, "1");
    let eval = scene.world.register(version("2", 2));
    scene.run(&eval);
    scene.start_all(&key("web"));
    let new: Vec<_> = scene
        .live(&key("web"))
        .into_values()
        .filter(|alloc| alloc.job_version == 1)
        .collect();
    scene.world.report_health(new[0].id, false);
    scene.world.report_health(new[1].id, true);
    scene.settle(&key("web"));
    assert_eq!(versions(&scene), [1, 1, 0]);
    assert_eq!(
        status(&scene).0,
        DeploymentStatus::Running,
        "it has until its deadline"
    );
}

#[test]
fn a_failed_rollout_changes_nothing_more_but_replaces_what_is_lost() {
    let mut scene = Scene::new(3);
    rolled_out(&mut scene, "1");
    let eval = scene.world.register(version("2", 1));
    scene.run(&eval);
    scene.start_all(&key("web"));
    set_status(&mut scene, DeploymentStatus::Failed);
    let live = scene.live(&key("web"));
    let new = live
        .values()
        .find(|alloc| alloc.job_version == 1)
        .expect("one");
    let old = live
        .values()
        .find(|alloc| alloc.job_version == 0)
        .expect("one");
    scene.world.report(new.id, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(60));
    scene.settle(&key("web"));
    assert_eq!(
        versions(&scene),
        [0, 0],
        "what failed with it is not tried elsewhere"
    );
    let node = old.node_id;
    scene.world.silence(node);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 2, "what is lost is replaced");
}

/// A rollout of version 1 that stands as `status` after its first allocation, and one of version 0.
fn halted(scene: &mut Scene, status: DeploymentStatus) -> Allocation {
    rolled_out(scene, "1");
    fail_rollout(scene, version("2", 1), status)
}

/// The rollout of `job` stands as `status` after its first allocation; answers an older one.
fn fail_rollout(scene: &mut Scene, job: Job, status: DeploymentStatus) -> Allocation {
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene.start_all(&key("web"));
    set_status(scene, status);
    let live = scene.live(&key("web"));
    let old = live.into_values().find(|alloc| alloc.job_version == 0);
    old.expect("one of three was replaced")
}

#[test]
fn a_halted_rollout_replaces_what_fails_of_an_older_version() {
    for status in [DeploymentStatus::Paused, DeploymentStatus::Failed] {
        let mut scene = Scene::new(3);
        let old = halted(&mut scene, status);
        scene.world.report(old.id, ClientStatus::Failed);
        scene.settle(&key("web"));
        let live = scene.live(&key("web"));
        assert_eq!(live.len(), 3, "{status:?}");
        assert_eq!(live[&old.name].previous_allocation, Some(old.id));
    }
}

#[test]
fn a_halted_rollout_replaces_what_its_node_lost() {
    let mut scene = Scene::new(3);
    let old = halted(&mut scene, DeploymentStatus::Failed);
    // Its node is back, and knows nothing of it.
    let number = (1..=3).find(|number| nodes::node(*number).id == old.node_id);
    let epoch = scene.world.greet(nodes::node(number.expect("one of ours")));
    let snapshot = scene.world.snapshot();
    let others = snapshot.allocs_on_node(old.node_id).map(|alloc| alloc.id);
    let unchanged = others.filter(|id| *id != old.id).collect();
    scene.world.expect(Command::NodeSynced(Box::new(NodeSynced {
        node: old.node_id,
        epoch,
        watch_index: snapshot.index(),
        changed: Vec::new(),
        unchanged,
        facts: None,
    })));
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 3);
}

#[test]
fn a_halted_rollout_replaces_what_was_lost_when_there_is_room() {
    let mut scene = Scene::new(1);
    let old = halted(&mut scene, DeploymentStatus::Failed);
    scene.world.silence(old.node_id);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0, "there is no other node");
    // However long that takes.
    scene.collect();
    scene.world.add_node(nodes::node(2));
    let again = scene.world.register(version("2", 1));
    scene.run(&again);
    let names: Vec<String> = scene.live(&key("web")).into_keys().collect();
    assert_eq!(names, ["web.group[0]", "web.group[1]", "web.group[2]"]);
    let again = scene.world.register(version("2", 1));
    assert_eq!(scene.run(&again).plan.placed.len(), 0, "once");
}

#[test]
fn a_halted_rollout_replaces_what_was_lost_although_its_successors_are_forgotten() {
    let mut scene = Scene::new(3);
    roll_out(&mut scene, tolerant("1"));
    assert_eq!(status(&scene).0, DeploymentStatus::Successful);
    for number in 1..=3 {
        // Whoever takes their places never runs, and is lost with the next node.
        scene.world.silence(nodes::node(number).id);
        scene.settle(&key("web"));
    }
    scene.collect();
    let eval = scene.world.register(tolerant("2"));
    scene.run(&eval);
    set_status(&mut scene, DeploymentStatus::Failed);
    scene.world.wait(Duration::from_secs(601));
    scene.settle(&key("web"));
    scene.collect();
    assert_eq!(scene.live_count(&key("web")), 0, "given up");
    scene.world.add_node(nodes::node(4));
    let again = scene.world.register(tolerant("2"));
    scene.run(&again);
    assert_eq!(scene.live_count(&key("web")), 3);
}

#[test]
fn of_a_pair_one_goes_in_a_failed_rollout_too_and_what_failed_keeps_its_place() {
    let mut scene = Scene::new(4);
    roll_out(&mut scene, tolerant("1"));
    let old = fail_rollout(&mut scene, tolerant("2"), DeploymentStatus::Failed);
    let live = scene.live(&key("web")).into_values();
    let new = live
        .filter(|alloc| alloc.job_version == 1)
        .collect::<Vec<_>>();
    scene.world.report(new[0].id, ClientStatus::Failed);
    scene.settle(&key("web"));

    scene.world.silence(old.node_id);
    scene.settle(&key("web"));
    let replacement = silence::successor(&scene, &old);
    scene.world.report(replacement.id, ClientStatus::Running);
    scene.settle(&key("web"));
    silence::come_back(&mut scene, &old);
    scene.settle(&key("web"));

    let snapshot = scene.world.snapshot();
    let all = snapshot.allocs_by_job(&key("web"));
    let mut names: Vec<_> = all
        .filter(|alloc| alloc.desired_status == DesiredStatus::Run)
        .map(|alloc| alloc.name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["web.group[0]", "web.group[1]", "web.group[2]"]);
    let failed = silence::status(&scene, new[0].id);
    assert_eq!(failed, (ClientStatus::Failed, DesiredStatus::Run));
}

#[test]
fn a_failed_rollout_is_remembered_as_long_as_its_version_is_wanted() {
    let mut scene = Scene::new(3);
    halted(&mut scene, DeploymentStatus::Failed);
    let failed = scene.deployment(&key("web")).expect("the failed one").id;
    let of_it = |scene: &Scene| {
        let live = scene.live(&key("web")).into_values();
        live.filter(|alloc| alloc.deployment_id == Some(failed))
            .collect::<Vec<_>>()
    };
    // What it placed is lost, and replaced: nothing refers to it any more.
    for alloc in of_it(&scene) {
        scene.world.silence(alloc.node_id);
    }
    scene.settle(&key("web"));
    assert_eq!((of_it(&scene).len(), scene.live_count(&key("web"))), (0, 3));
    scene.collect();
    let again = scene.world.register(version("2", 1));
    assert!(!scene.run(&again).changes_something());
    let eval = scene.world.register(version("3", 1));
    scene.run(&eval);
    scene.collect();
    let snapshot = scene.world.snapshot();
    assert!(snapshot.deployment(failed).is_none(), "nobody wants it");
}

#[test]
fn a_newer_version_cancels_the_rollout_before_it() {
    let mut scene = Scene::new(3);
    rolled_out(&mut scene, "1");
    let eval = scene.world.register(version("2", 1));
    scene.run(&eval);
    let second = scene.deployment(&key("web")).expect("a deployment").id;
    let eval = scene.world.register(version("3", 1));
    scene.run(&eval);
    let snapshot = scene.world.snapshot();
    let second = snapshot.deployment(second).expect("kept for people");
    assert_eq!(second.status, DeploymentStatus::Cancelled);
    assert_eq!(
        second.status_description,
        "Cancelled due to newer version of job"
    );
    assert_eq!(status(&scene).0, DeploymentStatus::Running);
}

#[test]
fn a_stopped_job_cancels_its_rollout() {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(version("1", 1));
    scene.run(&eval);
    let eval = scene.world.deregister(&key("web"));
    scene.run(&eval);
    assert_eq!(
        status(&scene),
        (
            DeploymentStatus::Cancelled,
            "Cancelled because job is stopped".to_owned()
        )
    );
}

#[test]
fn a_paused_rollout_waits() {
    let mut scene = Scene::new(3);
    rolled_out(&mut scene, "1");
    let eval = scene.world.register(version("2", 1));
    scene.run(&eval);
    set_status(&mut scene, DeploymentStatus::Paused);
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    assert_eq!(versions(&scene), [1, 0, 0]);
}

#[test]
fn without_max_parallel_everything_is_replaced_at_once_and_nothing_is_deployed() {
    let mut scene = Scene::new(3);
    let eval = scene.world.register(version("1", 0));
    scene.run(&eval);
    scene.start_all(&key("web"));
    let eval = scene.world.register(version("2", 0));
    assert_eq!(scene.run(&eval).groups["group"].destructive, 3);
    assert!(scene.deployment(&key("web")).is_none());
}

#[test]
fn what_ended_by_itself_does_not_hold_a_rollout_up() {
    let mut scene = Scene::new(3);
    rolled_out(&mut scene, "1");
    let eval = scene.world.register(version("2", 1));
    scene.run(&eval);
    let live = scene.live(&key("web"));
    let new = live.into_values().find(|alloc| alloc.job_version == 1);
    let new = new.expect("the first of three").id;
    // Before anybody knew whether it is healthy.
    scene.world.report(new, ClientStatus::Complete);
    for _ in 0..3 {
        let again = scene.world.register(version("2", 1));
        scene.run(&again);
        scene.start_all(&key("web"));
        scene.make_healthy(&key("web"));
        scene.settle(&key("web"));
    }
    assert_eq!(versions(&scene), [1, 1, 1]);
}

/// [`version`] with this much processor time for each of `count`.
fn sized(argument: &str, max_parallel: u32, count: u32, cpu: u64) -> Job {
    let mut job = version(argument, max_parallel);
    job.task_groups[0].count = Some(count);
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("the fixture has resources").cpu = Some(cpu);
    job
}

#[test]
fn on_a_full_node_what_finds_no_room_goes_on_as_it_was() {
    for max_parallel in [0, 10] {
        let mut scene = Scene::new(1);
        let eval = scene.world.register(sized("1", max_parallel, 10, 390));
        assert_eq!(scene.run(&eval).plan.placed.len(), 10, "3900 of 4000 MHz");
        scene.start_all(&key("web"));
        scene.make_healthy(&key("web"));
        scene.settle(&key("web"));
        // Nine would fit if everybody left first, and then the tenth would have no room any more.
        let eval = scene.world.register(sized("2", max_parallel, 10, 440));
        let decision = scene.run(&eval);
        assert_eq!(decision.plan.placed.len(), 2, "each wants 50 MHz more");
        assert_eq!(
            scene.live_count(&key("web")),
            10,
            "nobody is stopped in vain"
        );
    }
}
