//! Canaries: the new version beside the older one, until somebody promotes it.

use std::time::Duration;

use controlplane_state::command::{
    DeploymentChange, DeploymentPromote, DeploymentStatusUpdate, PromoteGroups,
};
use controlplane_state::{Command, Outcome};
use hack_testkit::{jobs, nodes};
use proptest::prelude::*;
use protocol_model::{
    Allocation, ClientStatus, Deployment, DeploymentStatus, Job, JobType, ReschedulePolicy,
    UpdateStrategy,
};

use crate::scene::{Scene, key};

/// A service of `count` whose command has this argument, and that asks for canaries.
pub(crate) fn version(argument: &str, count: u32, canary: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", count);
    let task = &mut job.task_groups[0].tasks[0];
    task.config.insert("args".to_owned(), vec![argument].into());
    job.task_groups[0].update = Some(UpdateStrategy {
        max_parallel: Some(1),
        canary: Some(canary),
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

pub(crate) fn register(scene: &mut Scene, job: Job) {
    let eval = scene.world.register(job);
    scene.run(&eval);
}

/// Everything runs and is healthy, as often as it takes.
pub(crate) fn become_healthy(scene: &mut Scene) {
    for _ in 0..8 {
        start(scene);
        scene.make_healthy(&key("web"));
        for canary in canaries(scene) {
            let health = canary.deployment_status.and_then(|it| it.healthy);
            if health.is_none() {
                scene.world.report_health(canary.id, true);
            }
        }
        scene.settle(&key("web"));
    }
}

pub(crate) fn start(scene: &mut Scene) {
    for alloc in live(scene) {
        if alloc.client_status == ClientStatus::Pending {
            scene.world.report(alloc.id, ClientStatus::Running);
        }
    }
}

/// Version 0 runs, and version 1 is registered.
fn trial(nodes: u8, count: u32, canary: u32) -> Scene {
    let mut scene = Scene::new(nodes);
    register(&mut scene, version("0", count, canary));
    become_healthy(&mut scene);
    register(&mut scene, version("1", count, canary));
    scene
}

pub(crate) fn live(scene: &Scene) -> Vec<Allocation> {
    let snapshot = scene.world.snapshot();
    let live = snapshot
        .allocs_by_job(&key("web"))
        .filter(|it| !it.terminal());
    let mut live: Vec<Allocation> = live.map(|alloc| Allocation::clone(alloc)).collect();
    live.sort_by_key(|alloc| (alloc.job_version, alloc.index()));
    live
}

/// The numbers that stand in a version.
pub(crate) fn numbers(scene: &Scene, version: u64) -> Vec<u32> {
    let live = live(scene).into_iter();
    let of_version = live.filter(|alloc| alloc.job_version == version);
    of_version.filter_map(|alloc| alloc.index()).collect()
}

pub(crate) fn canaries(scene: &Scene) -> Vec<Allocation> {
    let live = live(scene).into_iter();
    let is_canary =
        |alloc: &Allocation| alloc.deployment_status.as_ref().is_some_and(|it| it.canary);
    live.filter(is_canary).collect()
}

pub(crate) fn deployment(scene: &Scene) -> Deployment {
    scene.deployment(&key("web")).expect("a deployment")
}

fn promote(scene: &mut Scene) -> Outcome {
    let snapshot = scene.world.snapshot();
    let job = snapshot.job(&key("web")).expect("registered").clone();
    let eval = protocol_model::Evaluation::new(
        protocol_model::EvalId::from_u128(0x9_0000 + u128::from(snapshot.index())),
        &job.key(),
        job.job_type,
        job.priority,
        protocol_model::EvalTrigger::DeploymentWatcher,
        scene.world.now(),
    );
    let command = Command::DeploymentPromote(DeploymentPromote {
        id: deployment(scene).id,
        groups: PromoteGroups::All,
        eval: Some(eval),
        from: None,
    });
    let outcome = scene.world.apply(command).outcome;
    scene.settle(&key("web"));
    outcome
}

pub(crate) fn set_status(scene: &mut Scene, status: DeploymentStatus) {
    let update = DeploymentStatusUpdate {
        change: DeploymentChange {
            id: deployment(scene).id,
            status,
            description: String::new(),
            from: None,
        },
        revert: None,
        eval: None,
    };
    scene.world.expect(Command::DeploymentStatus(update));
    look(scene);
}

/// The scheduler looks at the job.
pub(crate) fn look(scene: &mut Scene) {
    let snapshot = scene.world.snapshot();
    let job = Job::clone(snapshot.job(&key("web")).expect("registered"));
    register(scene, job);
    scene.settle(&key("web"));
}

#[test]
fn a_new_version_starts_as_a_canary_beside_the_older_one() {
    let mut scene = trial(3, 3, 1);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0])
    );
    let canary = &canaries(&scene)[0];
    assert_eq!(canary.job_version, 1);
    let deployment = deployment(&scene);
    let group = &deployment.task_groups["group"];
    assert_eq!(canary.deployment_id, Some(deployment.id));
    assert_eq!(group.placed_canaries, [canary.id]);
    assert_eq!((group.desired_canaries, group.desired_total), (1, 3));
    assert_eq!(deployment.status_description, Deployment::NEEDS_PROMOTION);
    become_healthy(&mut scene);
    scene.world.wait(Duration::from_secs(86400));
    look(&mut scene);
    assert_eq!((numbers(&scene, 0).len(), numbers(&scene, 1).len()), (3, 1));
    let now = self::deployment(&scene).status;
    assert_eq!(now, DeploymentStatus::Running, "it waits for a person");
}

#[test]
fn a_plan_counts_canaries_apart_from_other_placements() {
    let mut scene = Scene::new(3);
    register(&mut scene, version("0", 3, 2));
    become_healthy(&mut scene);
    let eval = scene.world.register(version("1", 4, 2));
    let report = scene.decide(&eval).groups["group"];
    assert_eq!((report.canary, report.place, report.ignore), (2, 1, 3));
    assert_eq!((report.destructive, report.stop), (0, 0));
}

#[test]
fn a_promoted_canary_stands_for_its_number_and_the_rest_follows() {
    let mut scene = trial(3, 3, 1);
    become_healthy(&mut scene);
    let canary = canaries(&scene)[0].id;
    promote(&mut scene);
    // The one with its number went, and one more is replaced: max_parallel.
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![2], vec![0, 1])
    );
    become_healthy(&mut scene);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![], vec![0, 1, 2])
    );
    assert_eq!(live(&scene)[0].id, canary, "it runs on");
    let deployment = deployment(&scene);
    assert_eq!(deployment.status, DeploymentStatus::Successful);
    assert_eq!(deployment.status_description, Deployment::SUCCESSFUL);
}

#[test]
fn as_many_canaries_as_the_count_are_a_blue_green_rollout() {
    let mut scene = trial(3, 3, 3);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0, 1, 2])
    );
    become_healthy(&mut scene);
    assert_eq!(
        deployment(&scene).status,
        DeploymentStatus::Running,
        "not promoted"
    );
    promote(&mut scene);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![], vec![0, 1, 2])
    );
    scene.settle(&key("web"));
    look(&mut scene);
    assert_eq!(deployment(&scene).status, DeploymentStatus::Successful);
}

#[test]
fn more_canaries_than_the_count_shrink_to_it_when_they_are_promoted() {
    let mut scene = trial(3, 2, 4);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1], vec![0, 1, 2, 3])
    );
    become_healthy(&mut scene);
    promote(&mut scene);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![], vec![0, 1])
    );
}

#[test]
fn a_failed_older_alloc_comes_back_in_the_older_version() {
    let mut scene = trial(3, 3, 1);
    start(&mut scene);
    let old = live(&scene)[1].clone();
    scene.world.report(old.id, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(2));
    scene.settle(&key("web"));
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0])
    );
    let new = live(&scene);
    let new = new
        .iter()
        .find(|it| it.name == old.name && it.job_version == 0);
    let new = new.expect("its successor");
    assert_eq!(new.previous_allocation, Some(old.id));
    assert_eq!((new.spec, new.deployment_id), (old.spec, None));
}

#[test]
fn a_stopped_older_alloc_comes_back_in_the_older_version() {
    let mut scene = trial(3, 3, 1);
    start(&mut scene);
    let old = live(&scene)[2].clone();
    scene.world.stop_alloc(old.id);
    scene.settle(&key("web"));
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0])
    );
    assert!(live(&scene).iter().all(|alloc| alloc.id != old.id));
}

#[test]
fn a_lost_node_s_allocs_come_back_each_in_its_own_version() {
    let mut scene = trial(1, 3, 1);
    start(&mut scene);
    scene.world.silence(nodes::node(1).id);
    scene.settle(&key("web"));
    assert!(live(&scene).is_empty(), "there is no other node");
    scene.world.add_node(nodes::node(2));
    look(&mut scene);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0])
    );
    assert_eq!(canaries(&scene).len(), 1);
}

#[test]
fn a_failed_canary_comes_back_as_a_canary() {
    let mut scene = trial(3, 3, 1);
    start(&mut scene);
    let canary = canaries(&scene)[0].clone();
    scene.world.report(canary.id, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(2));
    scene.settle(&key("web"));
    let next = &canaries(&scene)[0];
    assert_eq!(next.previous_allocation, Some(canary.id));
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0])
    );
}

#[test]
fn a_higher_count_adds_older_ones_and_a_lower_one_takes_the_highest() {
    for (count, expected) in [(5, vec![0, 1, 2, 3, 4]), (2, vec![0, 1])] {
        let mut scene = Scene::new(3);
        register(&mut scene, version("0", 3, 1));
        become_healthy(&mut scene);
        register(&mut scene, version("1", count, 1));
        assert_eq!(
            (numbers(&scene, 0), numbers(&scene, 1)),
            (expected, vec![0])
        );
    }
}

#[test]
fn a_failed_trial_stops_its_canaries_and_keeps_the_older_version() {
    for status in [DeploymentStatus::Failed, DeploymentStatus::Cancelled] {
        let mut scene = trial(3, 3, 2);
        become_healthy(&mut scene);
        set_status(&mut scene, status);
        assert_eq!(
            (numbers(&scene, 0), numbers(&scene, 1)),
            (vec![0, 1, 2], vec![])
        );
        // An allocation of it that dies afterwards is replaced in it, too.
        let old = live(&scene)[0].id;
        scene.world.report(old, ClientStatus::Failed);
        scene.world.wait(Duration::from_secs(2));
        scene.settle(&key("web"));
        assert_eq!(
            (numbers(&scene, 0), numbers(&scene, 1)),
            (vec![0, 1, 2], vec![])
        );
    }
}

#[test]
fn a_failed_canary_of_a_failed_trial_is_not_tried_again() {
    let mut scene = trial(3, 3, 1);
    start(&mut scene);
    let canary = canaries(&scene)[0].id;
    scene.world.report(canary, ClientStatus::Failed);
    set_status(&mut scene, DeploymentStatus::Failed);
    scene.world.wait(Duration::from_secs(60));
    scene.settle(&key("web"));
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![])
    );
}

#[test]
fn a_newer_version_stops_the_canaries_and_starts_its_own() {
    let mut scene = trial(3, 3, 1);
    become_healthy(&mut scene);
    register(&mut scene, version("2", 3, 1));
    assert_eq!(numbers(&scene, 0), [0, 1, 2]);
    assert_eq!((numbers(&scene, 1), numbers(&scene, 2)), (vec![], vec![0]));
    let old = live(&scene)[0].clone();
    start(&mut scene);
    scene.world.report(old.id, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(2));
    scene.settle(&key("web"));
    assert_eq!(
        numbers(&scene, 0),
        [0, 1, 2],
        "not in the version that was never promoted"
    );
}

#[test]
fn a_version_that_goes_back_stops_the_canaries_and_needs_none() {
    let mut scene = trial(3, 3, 1);
    register(&mut scene, version("0", 3, 1));
    assert_eq!(
        (numbers(&scene, 1), numbers(&scene, 2)),
        (vec![], vec![0, 1, 2])
    );
    let group = &deployment(&scene).task_groups["group"];
    assert_eq!(group.desired_canaries, 0, "changed in place");
}

#[test]
fn a_paused_trial_places_no_further_canary() {
    let mut scene = trial(3, 3, 1);
    start(&mut scene);
    set_status(&mut scene, DeploymentStatus::Paused);
    let old = live(&scene)[0].clone();
    scene.world.report(old.id, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(2));
    scene.settle(&key("web"));
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1, 2], vec![0])
    );
}

#[test]
fn first_versions_and_changes_in_place_need_no_canary() {
    let mut scene = Scene::new(3);
    register(&mut scene, version("0", 3, 1));
    assert!(canaries(&scene).is_empty());
    become_healthy(&mut scene);
    let mut changed = version("0", 3, 1);
    changed.task_groups[0].tasks[0].kill_timeout = Some(Duration::from_secs(9));
    register(&mut scene, changed);
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![], vec![0, 1, 2])
    );
    assert!(canaries(&scene).is_empty());
    let mut parallel = version("1", 3, 1);
    let update = parallel.task_groups[0].update.as_mut().expect("it has one");
    update.max_parallel = Some(0);
    register(&mut scene, parallel);
    assert!(canaries(&scene).is_empty(), "no deployment, no canaries");
}

/// Nomad #20308: a deployment whose canaries found no room knew nothing of them, and asked for a
/// person although `auto_promote` was set.
#[test]
fn a_deployment_wants_its_canaries_although_none_finds_room() {
    let mut scene = Scene::new(1);
    let sized = |argument: &str, cpu| {
        let mut job = version(argument, 1, 1);
        let task = &mut job.task_groups[0].tasks[0];
        task.resources.as_mut().expect("the fixture has some").cpu = Some(cpu);
        let update = job.task_groups[0].update.as_mut();
        update.expect("it has one").auto_promote = Some(true);
        job
    };
    register(&mut scene, sized("0", 3000));
    become_healthy(&mut scene);
    register(&mut scene, sized("1", 3000));
    assert_eq!((numbers(&scene, 0), numbers(&scene, 1)), (vec![0], vec![]));
    let found = deployment(&scene);
    assert_eq!(found.status_description, Deployment::PENDING_PROMOTION);
    assert_eq!(found.task_groups["group"].desired_canaries, 1);
    scene.world.add_node(nodes::node(2));
    scene.settle(&key("web"));
    look(&mut scene);
    assert_eq!(canaries(&scene).len(), 1);
}

/// Nomad #9506: what blocks one placement must not keep the rest of a rollout from going on.
#[test]
fn a_canary_without_room_keeps_no_older_alloc_from_coming_back() {
    let mut scene = Scene::new(2);
    let sized = |argument: &str, cpu| {
        let mut job = version(argument, 2, 1);
        let task = &mut job.task_groups[0].tasks[0];
        task.resources.as_mut().expect("the fixture has some").cpu = Some(cpu);
        job
    };
    register(&mut scene, sized("0", 1500));
    become_healthy(&mut scene);
    register(&mut scene, sized("1", 3900));
    assert_eq!(
        (numbers(&scene, 0), numbers(&scene, 1)),
        (vec![0, 1], vec![])
    );
    let old = live(&scene)[0].clone();
    scene.world.report(old.id, ClientStatus::Failed);
    scene.world.wait(Duration::from_secs(2));
    scene.settle(&key("web"));
    assert_eq!(numbers(&scene, 0), [0, 1]);
}

/// A fix of what fails all the time is tried like any other version.
#[test]
fn a_version_is_tried_beside_one_whose_allocs_wait_for_their_retry() {
    for (attempts, expected) in [(None, vec![0, 1]), (Some(0), vec![])] {
        let old = |argument: &str| {
            let mut job = version(argument, 2, 1);
            let policy = job.task_groups[0].reschedule_policy.as_mut();
            let policy = policy.expect("it has one");
            policy.unlimited = Some(attempts.is_none());
            policy.attempts = attempts;
            policy.interval = Some(Duration::from_secs(3600));
            job
        };
        let mut scene = Scene::new(3);
        register(&mut scene, old("0"));
        become_healthy(&mut scene);
        for alloc in live(&scene) {
            scene.world.report(alloc.id, ClientStatus::Failed);
        }
        scene.settle(&key("web"));
        assert!(live(&scene).is_empty(), "they wait");
        register(&mut scene, old("1"));
        assert_eq!(numbers(&scene, 1).len(), 1);
        assert_eq!(canaries(&scene).len(), 1);
        let found = deployment(&scene);
        assert_eq!(found.status_description, Deployment::NEEDS_PROMOTION);
        scene.world.wait(Duration::from_secs(2));
        scene.settle(&key("web"));
        assert_eq!(numbers(&scene, 0), expected, "each in its own version");
        become_healthy(&mut scene);
        promote(&mut scene);
        become_healthy(&mut scene);
        assert_eq!(
            (numbers(&scene, 0), numbers(&scene, 1)),
            (vec![], vec![0, 1])
        );
        // Failures of a version that was left long ago are none of the next one's business.
        scene.collect();
        look(&mut scene);
        assert_eq!(numbers(&scene, 1), [0, 1]);
        assert!(canaries(&scene).is_empty(), "{attempts:?}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    FailOne(usize),
    StopOne(usize),
    Start,
    Healthy,
    SilenceNode(u8),
    NodeReturns(u8),
    Wait(u64),
    Pause,
    Resume,
    NewVersion(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..8usize).prop_map(Event::FailOne),
        2 => (0..8usize).prop_map(Event::StopOne),
        3 => Just(Event::Start),
        2 => Just(Event::Healthy),
        1 => (1..5u8).prop_map(Event::SilenceNode),
        2 => (1..5u8).prop_map(Event::NodeReturns),
        3 => (1..30u64).prop_map(Event::Wait),
        1 => Just(Event::Pause),
        1 => Just(Event::Resume),
        1 => (1..6u32).prop_map(Event::NewVersion),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// While nothing is promoted, whatever dies, there are never more of the older version than the
    /// count, never more canaries than are wanted, nothing of a third version, and nothing of the
    /// new version that is no canary.
    #[test]
    fn counts_stay_within_bounds_while_unpromoted(
        canary in 1..5u32,
        events in prop::collection::vec(event(), 1..30)
    ) {
        let mut scene = trial(4, 3, canary);
        let mut count = 3;
        let mut newest = 1;
        for event in events {
            carry_out(&mut scene, &event, canary, &mut count, &mut newest);
            scene.settle(&key("web"));
            let (older, new): (Vec<_>, Vec<_>) =
                live(&scene).into_iter().partition(|alloc| alloc.job_version == 0);
            prop_assert!(older.len() <= count as usize, "{event:?}: {} older", older.len());
            prop_assert!(new.len() <= canary as usize, "{event:?}: {} new", new.len());
            for alloc in new {
                let status = alloc.deployment_status.expect("a canary's");
                prop_assert!(status.canary && alloc.job_version == newest, "{event:?}");
            }
        }
        // Once everything works again, nothing is missing.
        for node in 1..5 {
            carry_out(&mut scene, &Event::NodeReturns(node), canary, &mut count, &mut newest);
        }
        carry_out(&mut scene, &Event::Resume, canary, &mut count, &mut newest);
        scene.world.wait(Duration::from_secs(60));
        look(&mut scene);
        prop_assert_eq!(numbers(&scene, 0).len(), count as usize);
        prop_assert_eq!(numbers(&scene, newest).len(), canary as usize);
    }
}

/// Whether one of the first version failed, and nothing took its place yet.
fn waits_for_its_retry(scene: &Scene) -> bool {
    let snapshot = scene.world.snapshot();
    let mut allocs = snapshot.allocs_by_job(&key("web"));
    allocs.any(|alloc| {
        alloc.job_version == 0
            && alloc.client_status == ClientStatus::Failed
            && !alloc.server_terminal()
            && alloc.next_allocation.is_none()
    })
}

fn carry_out(scene: &mut Scene, event: &Event, canary: u32, count: &mut u32, newest: &mut u64) {
    let pick = |scene: &Scene, at: usize| {
        let live = live(scene);
        (!live.is_empty()).then(|| live[at % live.len()].clone())
    };
    match *event {
        Event::FailOne(at) => {
            if let Some(alloc) = pick(scene, at) {
                scene.world.report(alloc.id, ClientStatus::Failed);
            }
        }
        Event::StopOne(at) => {
            if let Some(alloc) = pick(scene, at) {
                scene.world.stop_alloc(alloc.id);
            }
        }
        Event::Start => start(scene),
        Event::Healthy => {
            start(scene);
            for alloc in canaries(scene) {
                scene.world.report_health(alloc.id, true);
            }
        }
        Event::SilenceNode(number) => scene.world.silence(nodes::node(number).id),
        Event::NodeReturns(number) => {
            scene.world.add_node(nodes::node(number));
        }
        Event::Wait(seconds) => scene.world.wait(Duration::from_secs(seconds)),
        Event::Pause | Event::Resume => {
            let status = match event {
                Event::Pause => DeploymentStatus::Paused,
                _ => DeploymentStatus::Running,
            };
            set_status(scene, status);
        }
        Event::NewVersion(new_count) => {
            // A version that comes while nothing is left of the older one has nothing to be tried
            // beside.
            if numbers(scene, 0).is_empty() && !waits_for_its_retry(scene) {
                return;
            }
            *newest += 1;
            *count = new_count;
            register(scene, version(&newest.to_string(), *count, canary));
        }
    }
}
