//! Rollouts while a node is silent: nobody waits for the health of what is silent.

use std::time::Duration;

use controlplane_state::Command;
use protocol_model::{
    AllocId, Allocation, ClientStatus, Constraint, DeploymentStatus, DesiredStatus, Eligibility,
    EvalStatus, EvalTrigger, Job, JobType, UpdateStrategy,
};

use super::leases::leased;
use super::{come_back, status, tolerant};
use crate::scene::{Scene, key};

/// Three, of which one at a time is updated to what this argument says.
fn version(argument: &str, replace: bool) -> Job {
    let mut job = tolerant(JobType::Service, "web", 3);
    let group = &mut job.task_groups[0];
    let config = &mut group.tasks[0].config;
    config.insert("args".to_owned(), vec![argument].into());
    group.disconnect.as_mut().expect("set").replace = Some(replace);
    group.update = Some(UpdateStrategy {
        max_parallel: Some(1),
        min_healthy_time: Some(Duration::from_secs(10)),
        ..UpdateStrategy::default()
    });
    job.canonicalize();
    job
}

/// Everything that can be heard runs and is healthy, and the scheduler sees it.
fn get_healthy(scene: &mut Scene) {
    let snapshot = scene.world.snapshot();
    let live = snapshot.allocs_by_job(&key("web"));
    for alloc in live.filter(|alloc| !alloc.terminal()) {
        let node = snapshot.node(alloc.node_id).expect("known");
        let judged = alloc.deployment_status.as_ref().and_then(|it| it.healthy);
        if node.node.ready() && judged.is_none() && alloc.deployment_id.is_some() {
            scene.world.report_health(alloc.id, true);
        }
    }
    scene.settle(&key("web"));
}

/// The first version is everywhere, and the second begins, on one of three.
fn second_version_begins(replace: bool) -> (Scene, Allocation) {
    let mut scene = Scene::new(5);
    scene.world.register(version("one", replace));
    scene.settle(&key("web"));
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    scene.world.register(version("two", replace));
    scene.settle(&key("web"));
    let first = of_version(&scene, 1).pop().expect("one at a time");
    scene.world.report(first.id, ClientStatus::Running);
    scene.settle(&key("web"));
    assert_eq!(of_version(&scene, 1).len(), 1, "one at a time");
    (scene, first)
}

/// What is wanted of a version and not over.
fn of_version(scene: &Scene, version: u64) -> Vec<Allocation> {
    let snapshot = scene.world.snapshot();
    let live = snapshot.allocs_by_job(&key("web"));
    let ours = live.filter(|alloc| !alloc.terminal() && alloc.job_version == version);
    ours.map(|alloc| Allocation::clone(alloc)).collect()
}

fn deployment(scene: &Scene) -> DeploymentStatus {
    scene.deployment(&key("web")).expect("a deployment").status
}

fn silence(scene: &mut Scene, alloc: AllocId) {
    let node = scene.node_of(alloc);
    scene.world.silence(node);
    scene.settle(&key("web"));
}

#[test]
fn a_member_that_falls_silent_before_it_is_healthy_does_not_hold_the_others_up() {
    let (mut scene, first) = second_version_begins(false);
    silence(&mut scene, first.id);
    let waited_for = (ClientStatus::Unknown, DesiredStatus::Run);
    assert_eq!(status(&scene, first.id), waited_for);
    assert_eq!(of_version(&scene, 1).len(), 2, "the next one is replaced");
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    come_back(&mut scene, &first);
    scene.settle(&key("web"));
    let stands = (ClientStatus::Running, DesiredStatus::Run);
    assert_eq!(status(&scene, first.id), stands);
    assert_eq!(of_version(&scene, 1).len(), 3);
}

#[test]
fn what_replaces_a_silent_member_is_waited_for() {
    let (mut scene, first) = second_version_begins(true);
    silence(&mut scene, first.id);
    // The silent one, and its replacement.
    assert_eq!(of_version(&scene, 1).len(), 2);
    assert_eq!(of_version(&scene, 0).len(), 2);
    scene.world.wait(Duration::from_secs(30));
    scene.settle(&key("web"));
    assert_eq!(of_version(&scene, 0).len(), 2, "nobody is healthy yet");
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 0).len(), 1);
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
    get_healthy(&mut scene);
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    assert_eq!(of_version(&scene, 0).len(), 0);
}

#[test]
fn an_older_one_that_is_silent_and_waited_for_fails_no_rollout_and_follows_when_it_is_back() {
    let (mut scene, first) = second_version_begins(false);
    let older = of_version(&scene, 0).pop().expect("two");
    assert_ne!(older.node_id, first.node_id);
    silence(&mut scene, older.id);
    assert_eq!(of_version(&scene, 1).len(), 1, "one at a time");
    get_healthy(&mut scene);
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 1).len(), 2);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    come_back(&mut scene, &older);
    scene.settle(&key("web"));
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(status(&scene, older.id).1, DesiredStatus::Stop);
}

#[test]
fn a_rollout_of_which_nothing_can_be_heard_is_not_done() {
    let (mut scene, _) = second_version_begins(false);
    for version in [1, 0, 0] {
        let heard = of_version(&scene, version).into_iter();
        let mut heard = heard.filter(|alloc| alloc.client_status != ClientStatus::Unknown);
        let next = heard.next().map(|alloc| alloc.id);
        next.into_iter().for_each(|id| silence(&mut scene, id));
    }
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
}

#[test]
fn one_that_was_healthy_and_fell_silent_counts_once() {
    let (mut scene, first) = second_version_begins(false);
    get_healthy(&mut scene);
    silence(&mut scene, first.id);
    let others = of_version(&scene, 1).len();
    assert_eq!(others, 2, "the next one is being replaced");
    assert_eq!(deployment(&scene), DeploymentStatus::Running);
    get_healthy(&mut scene);
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(
        deployment(&scene),
        DeploymentStatus::Running,
        "two of three"
    );
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
}

/// A rollout that ended well without two silent members, which are both back: one of the new
/// version that nobody has judged, and one of the old. Each has a host of its own, and is healthy
/// after `min_healthy_time`.
fn ended_without_two(min_healthy_time: Duration) -> (Scene, Allocation, Allocation) {
    let of = |argument| {
        let mut job = version(argument, false);
        let group = &mut job.task_groups[0];
        let update = group.update.as_mut().expect("set");
        update.min_healthy_time = Some(min_healthy_time);
        group.constraints.push(Constraint {
            operand: "distinct_hosts".to_owned(),
            ..Constraint::default()
        });
        job
    };
    let mut scene = Scene::new(5);
    scene.world.register(of("one"));
    scene.settle(&key("web"));
    get_healthy(&mut scene);
    scene.world.register(of("two"));
    scene.settle(&key("web"));
    let new = of_version(&scene, 1).pop().expect("one at a time");
    scene.world.report(new.id, ClientStatus::Running);
    silence(&mut scene, new.id);
    let old = of_version(&scene, 0).pop().expect("the last of three");
    silence(&mut scene, old.id);
    get_healthy(&mut scene);
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    come_back(&mut scene, &new);
    come_back(&mut scene, &old);
    scene.settle(&key("web"));
    (scene, new, old)
}

fn pass(scene: &mut Scene, seconds: u64) {
    for _ in 0..seconds {
        scene.world.wait(Duration::from_secs(1));
        scene.settle(&key("web"));
    }
}

/// Evaluations that only look whether more can be replaced: those that were, and those to come.
fn looks(scene: &Scene) -> (usize, usize) {
    let snapshot = scene.world.snapshot();
    let evals = snapshot.evals_by_job(&key("web"));
    let looks = evals.filter(|eval| eval.triggered_by == EvalTrigger::RollingUpdate);
    let (to_come, over): (Vec<_>, Vec<_>) =
        looks.partition(|eval| eval.status == EvalStatus::Pending);
    (over.len(), to_come.len())
}

#[test]
fn after_a_rollout_nobody_looks_again_and_again_while_a_member_of_it_is_unhealthy() {
    let (mut scene, new, old) = ended_without_two(Duration::from_secs(10));
    scene.world.report_health(new.id, false);
    pass(&mut scene, 20);
    let looked = looks(&scene);
    assert_eq!(looked.1, 0);
    pass(&mut scene, 600);
    assert_eq!(looks(&scene), looked);
    assert_eq!(status(&scene, old.id).1, DesiredStatus::Run);
    // When it has left, the other one follows.
    scene.world.report(new.id, ClientStatus::Failed);
    pass(&mut scene, 60);
    assert_eq!(status(&scene, old.id).1, DesiredStatus::Stop);
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(looks(&scene).1, 0);
}

#[test]
fn after_a_rollout_what_came_back_follows_when_an_unhealthy_member_is_lost_and_has_no_room() {
    let (mut scene, new, old) = ended_without_two(Duration::from_secs(10));
    scene.world.report_health(new.id, false);
    let snapshot = scene.world.snapshot();
    for node in snapshot.nodes().map(|record| record.node.id) {
        if node != old.node_id {
            let eligibility = Eligibility::Ineligible;
            scene
                .world
                .expect(Command::NodeEligibility { node, eligibility });
        }
    }
    silence(&mut scene, new.id);
    pass(&mut scene, 90);
    assert_eq!(status(&scene, new.id).0, ClientStatus::Lost);
    assert_eq!(status(&scene, old.id).1, DesiredStatus::Stop);
    let live = of_version(&scene, 1);
    assert!(live.iter().any(|alloc| alloc.node_id == old.node_id));
    assert_eq!(live.len(), 2);
    assert_eq!(looks(&scene).1, 0);
}

#[test]
fn after_a_rollout_what_came_back_is_looked_at_every_few_seconds_until_a_member_is_judged() {
    let (mut scene, new, old) = ended_without_two(Duration::ZERO);
    pass(&mut scene, 60);
    let (looked, to_come) = looks(&scene);
    assert!((5..=12).contains(&looked), "{looked} times in a minute");
    assert_eq!(to_come, 1);
    scene.world.report_health(new.id, true);
    pass(&mut scene, 10);
    assert_eq!(status(&scene, old.id).1, DesiredStatus::Stop);
    pass(&mut scene, 10);
    assert_eq!(looks(&scene).1, 0);
}

/// Three that stop themselves, of which one at a time is updated.
fn leased_version(number: u8) -> Job {
    let mut job = leased();
    let group = &mut job.task_groups[0];
    group.count = Some(3);
    group.update = Some(UpdateStrategy {
        max_parallel: Some(1),
        min_healthy_time: Some(Duration::ZERO),
        ..UpdateStrategy::default()
    });
    let env = &mut group.tasks[0].env;
    env.insert("VERSION".to_owned(), number.to_string());
    job.canonicalize();
    job
}

/// One of it ends that was told to stop, and another one takes its number.
fn ends(scene: &mut Scene) {
    let snapshot = scene.world.snapshot();
    let allocs = snapshot.allocs_by_job(&key("web"));
    let mut ending = allocs.filter(|it| it.server_terminal() && !it.client_terminal());
    let id = ending.next().expect("one is told to stop").id;
    scene.world.report(id, ClientStatus::Complete);
    scene.settle(&key("web"));
}

#[test]
fn after_a_rollout_nobody_looks_again_and_again_while_one_of_a_leased_group_ends_slowly() {
    let mut scene = Scene::new(5);
    scene.world.register(leased_version(1));
    scene.settle(&key("web"));
    get_healthy(&mut scene);
    // Two are silent while the third is updated, and the rollout is done without them.
    let mut silent = of_version(&scene, 0);
    silent.pop().expect("three");
    for alloc in &silent {
        silence(&mut scene, alloc.id);
    }
    scene.world.register(leased_version(2));
    scene.settle(&key("web"));
    ends(&mut scene);
    get_healthy(&mut scene);
    assert_eq!(deployment(&scene), DeploymentStatus::Successful);
    for alloc in &silent {
        come_back(&mut scene, alloc);
    }
    scene.settle(&key("web"));
    pass(&mut scene, 20);
    let looked = looks(&scene);
    assert!(looked.0 <= 2, "{looked:?}");
    pass(&mut scene, 300);
    assert_eq!(looks(&scene), looked);
    assert_eq!(
        of_version(&scene, 0).len(),
        1,
        "the other one is told to stop"
    );
    // One follows after the other, whenever one has ended.
    ends(&mut scene);
    pass(&mut scene, 20);
    assert_eq!(of_version(&scene, 0).len(), 0);
    ends(&mut scene);
    pass(&mut scene, 20);
    assert_eq!(of_version(&scene, 1).len(), 3);
    assert_eq!(looks(&scene).1, 0);
}
