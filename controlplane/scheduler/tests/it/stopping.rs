//! What is being stopped and has not ended: whose room it takes.

use std::time::Duration;

use controlplane_state::Command;
use controlplane_state::command::NodeSynced;
use hack_testkit::{jobs, nodes};
use protocol_model::{
    Allocation, ClientStatus, EvalStatus, Job, JobType, NetworkResource, Port, UpdateStrategy,
};

use crate::scene::{Scene, key};

/// A service of `count` with the static port 8080.
fn on_port(name: &str, count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, name, count);
    let port = Port {
        label: "http".to_owned(),
        value: 8080,
        ..Port::default()
    };
    job.task_groups[0].networks.push(NetworkResource {
        reserved_ports: vec![port],
        ..NetworkResource::default()
    });
    job.canonicalize();
    job
}

/// `job` as it runs another command.
fn changed(job: &Job) -> Job {
    let mut job = job.clone();
    let config = &mut job.task_groups[0].tasks[0].config;
    config.insert("command".to_owned(), "/bin/true".into());
    job
}

fn run(scene: &mut Scene, job: Job) {
    let eval = scene.world.register(job);
    scene.run(&eval);
}

fn only(scene: &Scene, name: &str) -> Allocation {
    let live = scene.live(&key(name));
    assert_eq!(live.len(), 1, "{live:?}");
    live.into_values().next().expect("one")
}

#[test]
fn a_successor_is_placed_where_its_predecessor_is_being_stopped() {
    let mut scene = Scene::new(1);
    let job = on_port("web", 1);
    run(&mut scene, job.clone());
    scene.start_all(&key("web"));
    let old = only(&scene, "web");
    run(&mut scene, changed(&job));
    let new = only(&scene, "web");
    assert_eq!(new.previous_allocation, Some(old.id));
    assert_eq!(new.node_id, old.node_id);
}

#[test]
fn another_job_waits_for_the_port_of_what_is_being_stopped() {
    let mut scene = Scene::new(1);
    run(&mut scene, on_port("web", 1));
    scene.start_all(&key("web"));
    let old = only(&scene, "web");
    let stop = scene.world.deregister(&key("web"));
    scene.run(&stop);
    let eval = scene.world.register(on_port("other", 1));
    let decision = scene.run(&eval);
    let exhausted = &decision.failed["group"].dimension_exhausted;
    assert_eq!(exhausted["network: reserved port collision http=8080"], 1);
    scene.world.report(old.id, ClientStatus::Complete);
    let snapshot = scene.world.snapshot();
    let mut evals = snapshot.evals_by_job(&key("other"));
    let blocked = evals.find(|eval| eval.status == EvalStatus::Blocked);
    let decision = scene.run(blocked.expect("it waits"));
    assert_eq!(decision.plan.placed.len(), 1);
}

#[test]
fn what_a_node_that_is_back_does_not_report_holds_no_room() {
    let mut scene = Scene::new(1);
    run(&mut scene, on_port("web", 1));
    scene.start_all(&key("web"));
    let node = only(&scene, "web").node_id;
    let stop = scene.world.deregister(&key("web"));
    scene.run(&stop);
    scene.world.silence(node);
    scene.world.wait(Duration::from_secs(60));
    let epoch = scene.world.greet(nodes::node(1));
    let synced = NodeSynced {
        node,
        epoch,
        watch_index: 0,
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    };
    scene.world.expect(Command::NodeSynced(Box::new(synced)));
    let eval = scene.world.register(on_port("other", 1));
    assert_eq!(scene.run(&eval).plan.placed.len(), 1);
}

#[test]
fn a_rollout_in_steps_needs_no_room_but_its_own() {
    let mut scene = Scene::new(2);
    let mut job = on_port("web", 2);
    job.task_groups[0].update = Some(UpdateStrategy {
        max_parallel: Some(1),
        ..UpdateStrategy::default()
    });
    job.canonicalize();
    run(&mut scene, job.clone());
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    run(&mut scene, changed(&job));
    for _ in 0..2 {
        scene.start_all(&key("web"));
        scene.make_healthy(&key("web"));
        scene.settle(&key("web"));
    }
    let live = scene.live(&key("web"));
    assert!(live.values().all(|alloc| alloc.job_version == 1));
    assert_eq!(live.len(), 2);
}
