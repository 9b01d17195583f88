//! Drains: what the scheduler makes of the marks, and that a group keeps what it needs meanwhile.

use std::time::Duration;

use controlplane_state::{Command, Outcome};
use hack_testkit::{jobs, nodes};
use proptest::prelude::*;
use protocol_model::{
    AllocId, Allocation, ClientStatus, DesiredStatus, DrainSpec, Eligibility, Job, JobType, NodeId,
};

use crate::scene::{Scene, key};
use crate::silence::status;

const NOW: i64 = -1;
const NEVER: i64 = 0;

/// A job that runs on so many nodes.
fn running(nodes: u8, job: Job) -> Scene {
    let mut scene = Scene::new(nodes);
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene.start_all(&key("web"));
    scene.make_healthy(&key("web"));
    scene.settle(&key("web"));
    scene
}

fn first(scene: &Scene) -> Allocation {
    let mut live = scene.live(&key("web")).into_values();
    live.next().expect("one")
}

/// One look of a leader, and all that follows.
fn turn(scene: &mut Scene, node: NodeId) {
    scene.world.mark_drained(node);
    scene.settle(&key("web"));
}

fn on(scene: &Scene, node: NodeId) -> usize {
    let live = scene.live(&key("web"));
    live.values().filter(|alloc| alloc.node_id == node).count()
}

/// Allocations that were told to stop have ended.
fn end_stopped(scene: &mut Scene) {
    let snapshot = scene.world.snapshot();
    let stopped = snapshot.allocs_by_job(&key("web"));
    let stopped = stopped.filter(|it| it.server_terminal() && !it.client_terminal());
    for id in stopped.map(|alloc| alloc.id).collect::<Vec<_>>() {
        scene.world.report(id, ClientStatus::Complete);
    }
    scene.settle(&key("web"));
}

fn complete(scene: &mut Scene, node: NodeId) -> Outcome {
    let snapshot = scene.world.snapshot();
    let drain_index = snapshot.node(node).expect("known").drain_index;
    let complete = Command::NodeDrainComplete { node, drain_index };
    scene.world.apply(complete).outcome
}

#[test]
fn a_marked_alloc_leaves_when_its_successor_has_a_node() {
    let mut scene = running(2, jobs::job(JobType::Service, "web", 1));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, NEVER);
    scene.settle(&key("web"));
    assert_eq!(
        status(&scene, alloc.id).1,
        DesiredStatus::Run,
        "not asked yet"
    );
    turn(&mut scene, alloc.node_id);
    let stopped = scene
        .world
        .snapshot()
        .alloc(alloc.id)
        .cloned()
        .expect("known");
    assert_eq!(stopped.desired_status, DesiredStatus::Stop);
    assert_eq!(stopped.desired_description, "alloc is being migrated");
    assert!(stopped.next_allocation.is_some());
    assert_ne!(first(&scene).node_id, alloc.node_id);
}

#[test]
fn without_room_elsewhere_it_stays_until_the_deadline() {
    let mut scene = running(1, jobs::job(JobType::Service, "web", 1));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, 60_000_000_000);
    turn(&mut scene, alloc.node_id);
    assert_eq!(status(&scene, alloc.id).1, DesiredStatus::Run);
    scene.world.wait(Duration::from_secs(60));
    turn(&mut scene, alloc.node_id);
    assert_eq!(status(&scene, alloc.id).1, DesiredStatus::Stop);
    assert_eq!(scene.live_count(&key("web")), 0);
    scene.world.add_node(nodes::node(2));
    let blocked = scene.world.snapshot();
    let mut blocked = blocked
        .evals_by_job(&key("web"))
        .filter(|it| !it.status.is_terminal());
    let eval = protocol_model::Evaluation::clone(blocked.next().expect("it waits for room"));
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("web")), 1, "there is room now");
}

#[test]
fn a_forced_drain_stops_all_at_once_and_places_what_finds_room() {
    let mut scene = running(2, jobs::job(JobType::Service, "web", 4));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, NOW);
    turn(&mut scene, alloc.node_id);
    assert_eq!(on(&scene, alloc.node_id), 0);
    assert_eq!(scene.live_count(&key("web")), 4);
    let all = scene.live(&key("web"));
    assert!(all.values().all(|it| it.node_id != alloc.node_id));
}

/// GH-26929: what a drain ends is not placed anew, whoever looks at the job afterwards.
#[test]
fn batch_work_that_a_drain_ended_counts_as_done() {
    let mut scene = running(2, jobs::job(JobType::Batch, "web", 2));
    let alloc = first(&scene);
    let before = scene.live_count(&key("web")) - on(&scene, alloc.node_id);
    scene.world.drain(alloc.node_id, NOW);
    turn(&mut scene, alloc.node_id);
    assert_eq!(status(&scene, alloc.id).1, DesiredStatus::Stop);
    assert_eq!(scene.live_count(&key("web")), before);
    let ended = scene
        .world
        .snapshot()
        .alloc(alloc.id)
        .cloned()
        .expect("known");
    assert_eq!(ended.next_allocation, None);
    scene.world.report(alloc.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    scene.collect();
    let again = scene.world.register(jobs::job(JobType::Batch, "web", 2));
    scene.run(&again);
    assert_eq!(
        scene.live_count(&key("web")),
        before,
        "its version is the same"
    );
}

/// GH-28008: nor where its node takes allocations again before it has ended.
#[test]
fn batch_work_is_not_replaced_where_its_node_is_eligible_before_it_ended() {
    let mut scene = running(2, jobs::job(JobType::Batch, "web", 1));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, NOW);
    scene.world.mark_drained(alloc.node_id);
    scene
        .world
        .set_drain(alloc.node_id, None, Eligibility::Eligible);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0);
    scene.world.report(alloc.id, ClientStatus::Complete);
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0);
}

#[test]
fn a_new_version_of_batch_work_is_placed_after_a_drain_ended_the_old() {
    let mut scene = running(2, jobs::job(JobType::Batch, "web", 1));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, NOW);
    turn(&mut scene, alloc.node_id);
    let mut next = jobs::job(JobType::Batch, "web", 1);
    next.meta.insert("version".to_owned(), "2".to_owned());
    let eval = scene.world.register(next);
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn sysbatch_work_that_a_drain_ended_does_not_run_again_on_its_node() {
    let mut scene = running(1, jobs::job(JobType::Sysbatch, "web", 1));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, NOW);
    turn(&mut scene, alloc.node_id);
    assert_eq!(status(&scene, alloc.id).1, DesiredStatus::Stop);
    end_stopped(&mut scene);
    let done = complete(&mut scene, alloc.node_id);
    assert!(matches!(done, Outcome::Evaluated(_)), "{done:?}");
    scene.world.expect(Command::NodeEligibility {
        node: alloc.node_id,
        eligibility: Eligibility::Eligible,
    });
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 0);
}

/// GH-27499: a system job is back where it was once its node takes allocations again.
#[test]
fn a_system_job_returns_to_a_node_that_was_drained() {
    let mut scene = running(1, jobs::job(JobType::System, "web", 1));
    let alloc = first(&scene);
    scene.world.drain(alloc.node_id, NEVER);
    turn(&mut scene, alloc.node_id);
    assert_eq!(status(&scene, alloc.id).1, DesiredStatus::Stop);
    let early = complete(&mut scene, alloc.node_id);
    assert!(matches!(early, Outcome::Refused(_)), "its task runs still");
    end_stopped(&mut scene);
    complete(&mut scene, alloc.node_id);
    assert_eq!(scene.live_count(&key("web")), 0, "the node is ineligible");
    scene.world.expect(Command::NodeEligibility {
        node: alloc.node_id,
        eligibility: Eligibility::Eligible,
    });
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 1);
}

#[test]
fn a_drain_that_ignores_system_jobs_is_over_while_they_run() {
    let mut scene = running(1, jobs::job(JobType::System, "web", 1));
    let alloc = first(&scene);
    let spec = DrainSpec {
        deadline: NOW,
        ignore_system_jobs: true,
    };
    let node = alloc.node_id;
    scene
        .world
        .set_drain(node, Some(spec), Eligibility::Ineligible);
    turn(&mut scene, node);
    complete(&mut scene, node);
    assert_eq!(status(&scene, alloc.id).1, DesiredStatus::Run);
}

/// One of three steps of a drain's course.
#[derive(Clone, Copy, Debug)]
enum Step {
    Drain(u8),
    End(u8),
    Mark(u8),
    Start(u8),
    Health(u8),
    Stop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..9_u8, any::<u8>()).prop_map(|(kind, who)| match kind {
        0 => Step::Drain(who),
        1 => Step::End(who),
        2..=4 => Step::Mark(who),
        5 => Step::Start(who),
        6 | 7 => Step::Health(who),
        _ => Step::Stop,
    });
    proptest::collection::vec(step, 1..60)
}

fn pick(scene: &Scene, who: u8, wanted: impl Fn(&Allocation) -> bool) -> Option<AllocId> {
    let live = scene.live(&key("web"));
    let fit: Vec<AllocId> = live
        .values()
        .filter(|it| wanted(it))
        .map(|it| it.id)
        .collect();
    fit.get(usize::from(who) % fit.len().max(1)).copied()
}

fn take(scene: &mut Scene, step: Step, nodes: u8) {
    let node = |who: u8| nodes::node(1 + who % nodes).id;
    let judged = |it: &Allocation| it.deployment_status.as_ref().and_then(|it| it.healthy);
    match step {
        Step::Drain(who) => scene.world.drain(node(who), NEVER),
        Step::End(who) => scene
            .world
            .set_drain(node(who), None, Eligibility::Eligible),
        Step::Mark(who) => {
            let snapshot = scene.world.snapshot();
            if snapshot.node(node(who)).is_some_and(|it| it.node.drain) {
                scene.world.mark_drained(node(who));
            }
        }
        Step::Start(who) => {
            let starts = |it: &Allocation| it.client_status == ClientStatus::Pending;
            if let Some(id) = pick(scene, who, starts) {
                scene.world.report(id, ClientStatus::Running);
            }
        }
        Step::Health(who) => {
            let runs = |it: &Allocation| it.client_status == ClientStatus::Running;
            if let Some(id) = pick(scene, who, |it| runs(it) && judged(it).is_none()) {
                scene.world.report_health(id, true);
            }
        }
        Step::Stop => end_stopped(scene),
    }
    scene.settle(&key("web"));
}

fn healthy(scene: &Scene) -> usize {
    let live = scene.live(&key("web"));
    let is_healthy = |it: &&Allocation| {
        let status = it.deployment_status.as_ref();
        status.is_some_and(|it| it.is_healthy()) && it.client_status == ClientStatus::Running
    };
    live.values().filter(is_healthy).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// With any proposals of a leader and any draining nodes: of those that were healthy once all
    /// were, `count - max_parallel` are at every moment.
    #[test]
    fn a_drain_never_takes_a_group_below_count_less_max_parallel(
        count in 1..6_u32,
        parallel in 0..4_u32,
        nodes in 2..5_u8,
        steps in steps(),
    ) {
        let mut web = jobs::job(JobType::Service, "web", count);
        let migrate = web.task_groups[0].migrate.as_mut().expect("a service has one");
        migrate.max_parallel = Some(parallel);
        let mut scene = running(nodes, web);
        let needed = count.saturating_sub(parallel) as usize;
        for step in steps {
            take(&mut scene, step, nodes);
            prop_assert!(healthy(&scene) >= needed, "{} of {count}, {step:?}", healthy(&scene));
        }
    }
}
