//! Versions that wait for the turn of their region.

use std::time::Duration;

use hack_testkit::{jobs, nodes};
use protocol_model::{
    ClientStatus, Deployment, DeploymentStatus, Job, JobType, Multiregion, MultiregionRegion,
};

use crate::canary::{
    become_healthy, canaries, deployment, live, look, numbers, register, set_status, start,
};
use crate::scene::{Scene, key};

fn in_regions(mut job: Job) -> Job {
    let region = |name: &str| MultiregionRegion {
        name: name.to_owned(),
        ..MultiregionRegion::default()
    };
    job.multiregion = Some(Multiregion {
        strategy: None,
        regions: vec![region("global"), region("west")],
    });
    job
}

fn version(argument: &str, count: u32, canary: u32) -> Job {
    in_regions(crate::canary::version(argument, count, canary))
}

fn status(scene: &Scene) -> DeploymentStatus {
    deployment(scene).status
}

/// Version 0 runs, and version 1 waits for its turn.
fn waiting(canary: u32) -> Scene {
    let mut scene = Scene::new(3);
    register(&mut scene, version("0", 2, canary));
    set_status(&mut scene, DeploymentStatus::Running);
    become_healthy(&mut scene);
    assert_eq!(status(&scene), DeploymentStatus::Successful);
    register(&mut scene, version("1", 3, canary));
    assert_eq!(status(&scene), DeploymentStatus::Pending);
    scene
}

fn fail_one(scene: &mut Scene) {
    start(scene);
    let one = live(scene)[0].id;
    scene.world.report(one, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(2));
    scene.settle(&key("web"));
}

#[test]
fn a_version_is_placed_once_its_deployment_runs_whatever_asks_for_it() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(version("0", 2, 0));
    assert_eq!(status(&scene), DeploymentStatus::Initializing);
    scene.run(&eval);
    let found = deployment(&scene);
    assert_eq!(found.status, DeploymentStatus::Pending);
    assert_eq!(found.status_description, Deployment::PENDING_FOR_PEER);
    assert_eq!(found.task_groups["group"].desired_total, 2);
    scene.world.add_node(nodes::node(3));
    scene.settle(&key("web"));
    look(&mut scene);
    assert!(live(&scene).is_empty(), "it is another region's turn");
    set_status(&mut scene, DeploymentStatus::Running);
    assert_eq!(numbers(&scene, 0), [0, 1]);
    assert!(
        live(&scene)
            .iter()
            .all(|it| it.deployment_id == Some(found.id))
    );
    become_healthy(&mut scene);
    assert_eq!(status(&scene), DeploymentStatus::Successful);
    // A lost node concerns only this region, so nothing waits for another one.
    let node = live(&scene)[0].node_id;
    scene.world.silence(node);
    scene.settle(&key("web"));
    assert_eq!(numbers(&scene, 0), [0, 1]);
}

#[test]
fn a_plan_shows_what_a_version_does_once_it_is_its_turn() {
    let mut scene = Scene::new(2);
    let mut eval = scene.world.register(version("0", 2, 0));
    eval.annotate_plan = true;
    let report = scene.decide(&eval).groups["group"];
    assert_eq!(report.place, 2);
}

#[test]
fn the_older_version_stands_in_while_a_newer_one_waits() {
    for canary in [0, 1] {
        let mut scene = waiting(canary);
        let before = (numbers(&scene, 0), numbers(&scene, 1));
        assert_eq!(
            before,
            (vec![0, 1, 2], vec![]),
            "the count is this region's"
        );
        fail_one(&mut scene);
        assert_eq!((numbers(&scene, 0), numbers(&scene, 1)), before);
        let group = &deployment(&scene).task_groups["group"];
        assert_eq!((group.desired_canaries, group.placed_allocs), (canary, 0));
        set_status(&mut scene, DeploymentStatus::Running);
        assert_eq!(numbers(&scene, 1).len(), 1, "max_parallel, or the canary");
        assert_eq!(canaries(&scene).len(), canary as usize);
    }
}

#[test]
fn a_version_ended_or_paused_before_its_turn_leaves_the_older_one() {
    for status in [DeploymentStatus::Paused, DeploymentStatus::Failed] {
        let mut scene = waiting(0);
        set_status(&mut scene, status);
        fail_one(&mut scene);
        assert_eq!(
            (numbers(&scene, 0), numbers(&scene, 1)),
            (vec![0, 1, 2], vec![])
        );
    }
}

#[test]
fn a_deployment_resumed_before_its_first_plan_is_not_done_at_once() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(version("0", 2, 0));
    let set = |scene: &mut Scene, status| {
        let update = controlplane_state::command::DeploymentStatusUpdate {
            change: controlplane_state::command::DeploymentChange {
                id: deployment(scene).id,
                status,
                description: String::new(),
                from: None,
            },
            revert: None,
            eval: None,
        };
        scene
            .world
            .expect(controlplane_state::Command::DeploymentStatus(update));
    };
    set(&mut scene, DeploymentStatus::Paused);
    set(&mut scene, DeploymentStatus::Running);
    scene.run(&eval);
    let found = deployment(&scene);
    assert_eq!(found.status, DeploymentStatus::Running);
    assert_eq!(found.task_groups["group"].placed_allocs, 2);
    become_healthy(&mut scene);
    assert_eq!(status(&scene), DeploymentStatus::Successful);
}

#[test]
fn job_types_without_deployments_never_wait_for_other_regions() {
    for job_type in [JobType::Batch, JobType::System, JobType::Sysbatch] {
        let mut scene = Scene::new(2);
        let mut job = jobs::draft(job_type, "web", 1);
        job.canonicalize();
        register(&mut scene, in_regions(job));
        assert!(!live(&scene).is_empty(), "{job_type}");
        assert!(scene.deployment(&key("web")).is_none(), "{job_type}");
    }
}
