//! A system job follows a new version at the pace that its `update` block says.

use std::time::Duration;

use controlplane_state::Command;
use hack_testkit::{jobs, nodes};
use protocol_model::{
    Allocation, ClientStatus, Eligibility, EvalStatus, EvalTrigger, Job, JobType, NodeId,
    UpdateStrategy,
};

use crate::scene::{Scene, key};

const STAGGER: Duration = Duration::from_secs(30);

fn version(number: u8, max_parallel: Option<u32>) -> Job {
    let mut job = jobs::draft(JobType::System, "agent", 1);
    let group = &mut job.task_groups[0];
    group.update = max_parallel.map(|max_parallel| UpdateStrategy {
        max_parallel: Some(max_parallel),
        stagger: Some(STAGGER),
        ..UpdateStrategy::default()
    });
    let env = &mut group.tasks[0].env;
    env.insert("VERSION".to_owned(), number.to_string());
    job.canonicalize();
    job
}

/// That many nodes, on each of which the first version runs.
fn running(node_count: u8, max_parallel: Option<u32>) -> Scene {
    let mut scene = Scene::new(node_count);
    let eval = scene.world.register(version(1, max_parallel));
    scene.run(&eval);
    scene.start_all(&key("agent"));
    scene.settle(&key("agent"));
    scene
}

/// What lives of the newest version.
fn newest(scene: &Scene) -> Vec<Allocation> {
    let snapshot = scene.world.snapshot();
    let version = snapshot.job(&key("agent")).expect("the job").version;
    let live = snapshot.allocs_by_job(&key("agent"));
    let live = live.filter(|alloc| !alloc.terminal() && alloc.job_version == version);
    live.map(|alloc| Allocation::clone(alloc)).collect()
}

fn start(scene: &mut Scene) {
    for alloc in newest(scene) {
        if alloc.client_status == ClientStatus::Pending {
            scene.world.report(alloc.id, ClientStatus::Running);
        }
    }
}

fn pending(scene: &Scene, trigger: EvalTrigger) -> usize {
    let snapshot = scene.world.snapshot();
    let evals = snapshot.evals_by_job(&key("agent"));
    let pending = evals.filter(|eval| eval.status == EvalStatus::Pending);
    pending.filter(|eval| eval.triggered_by == trigger).count()
}

/// The next step: `STAGGER` later, whoever looks then has looked.
fn step(scene: &mut Scene) {
    scene.world.wait(STAGGER + Duration::from_secs(1));
    scene.settle(&key("agent"));
}

fn eligible(scene: &mut Scene, node: NodeId, eligibility: Eligibility) {
    let command = Command::NodeEligibility { node, eligibility };
    scene.world.expect(command);
}

#[test]
fn as_many_nodes_at_a_time_as_the_job_says_and_never_more() {
    let mut scene = running(5, Some(2));
    let eval = scene.world.register(version(2, Some(2)));
    assert_eq!(scene.run(&eval).groups["group"].destructive, 2);
    start(&mut scene);
    // Whatever else makes the scheduler look, and however often.
    for number in 6..=8 {
        scene.world.wait(Duration::from_secs(2));
        scene.world.add_node(nodes::node(number));
        scene.settle(&key("agent"));
        start(&mut scene);
        assert_eq!(newest(&scene).len(), usize::from(number) - 3);
    }
    assert_eq!(
        pending(&scene, EvalTrigger::RollingUpdate),
        1,
        "one goes on"
    );
    step(&mut scene);
    assert_eq!(newest(&scene).len(), 7);
    // Those do not start: they keep their slots.
    step(&mut scene);
    assert_eq!(newest(&scene).len(), 7);
    start(&mut scene);
    step(&mut scene);
    assert_eq!(newest(&scene).len(), 8);
    step(&mut scene);
    assert_eq!(scene.live_count(&key("agent")), 8);
    assert_eq!(pending(&scene, EvalTrigger::RollingUpdate), 0);
}

#[test]
fn a_version_that_fails_goes_no_further_and_is_tried_again() {
    let mut scene = running(3, Some(1));
    let eval = scene.world.register(version(2, Some(1)));
    scene.run(&eval);
    let failing = newest(&scene)[0].clone();
    for _ in 0..2 {
        let now_on = newest(&scene);
        assert_eq!((now_on.len(), now_on[0].node_id), (1, failing.node_id));
        scene.world.report(now_on[0].id, ClientStatus::Failed);
        step(&mut scene);
        let again = newest(&scene);
        assert_eq!(again[0].previous_allocation, Some(now_on[0].id));
    }
    start(&mut scene);
    step(&mut scene);
    assert_eq!(newest(&scene).len(), 2);
}

#[test]
fn the_next_step_is_not_left_to_one_that_is_due_and_dropped_for_a_newer_evaluation() {
    let mut scene = running(3, Some(1));
    let eval = scene.world.register(version(2, Some(1)));
    scene.run(&eval);
    start(&mut scene);
    scene.world.wait(STAGGER + Duration::from_secs(1));
    scene.world.add_node(nodes::node(4));
    scene.run_newest(&key("agent"));
    start(&mut scene);
    assert_eq!(newest(&scene).len(), 3, "two of three, and the new node");
    step(&mut scene);
    assert_eq!(newest(&scene).len(), 4);
}

#[test]
fn nodes_on_which_it_cannot_be_replaced_hold_no_other_up() {
    let mut scene = running(3, Some(1));
    let away = nodes::node(1).id;
    eligible(&mut scene, away, Eligibility::Ineligible);
    let eval = scene.world.register(version(2, Some(1)));
    scene.run(&eval);
    for _ in 0..3 {
        start(&mut scene);
        step(&mut scene);
    }
    let followed: Vec<NodeId> = newest(&scene).iter().map(|alloc| alloc.node_id).collect();
    assert_eq!(followed.len(), 2);
    assert!(!followed.contains(&away));
    assert_eq!(
        pending(&scene, EvalTrigger::RollingUpdate),
        0,
        "it is no matter of time"
    );
    let snapshot = scene.world.snapshot();
    let mut evals = snapshot.evals_by_job(&key("agent"));
    let blocked = evals.find(|eval| eval.status == EvalStatus::Blocked);
    let blocked = protocol_model::Evaluation::clone(blocked.expect("it waits for the node"));
    eligible(&mut scene, away, Eligibility::Eligible);
    scene.run(&blocked);
    assert_eq!(newest(&scene).len(), 3);
}

#[test]
fn without_an_update_block_all_are_replaced_at_once() {
    let mut scene = running(4, None);
    let eval = scene.world.register(version(2, None));
    assert_eq!(scene.run(&eval).groups["group"].destructive, 4);
    assert_eq!(pending(&scene, EvalTrigger::RollingUpdate), 0);
}
