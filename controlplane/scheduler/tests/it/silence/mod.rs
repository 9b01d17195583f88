//! Nodes that fall silent and come back: who counts, who makes way, who is given up.

mod chains;
mod leases;
mod purges;
mod rollouts;
mod starting;
mod stops;
mod unaccepted;
mod versions;
mod winners;
mod words;

use std::time::Duration;

use hack_testkit::{jobs, nodes};
use protocol_model::{
    Affinity, AllocId, Allocation, ClientStatus, DesiredStatus, DisconnectStrategy, EvalTrigger,
    Job, JobType, NodeId, ReschedulePolicy,
};

use crate::scene::{Scene, key};

/// A job whose silent allocations are tolerated for a minute, and whose failures wait for half.
fn tolerant(job_type: JobType, name: &str, count: u32) -> Job {
    let mut job = jobs::draft(job_type, name, count);
    let group = &mut job.task_groups[0];
    group.disconnect = Some(DisconnectStrategy {
        lost_after: Some(Duration::from_secs(60)),
        ..DisconnectStrategy::default()
    });
    if job_type == JobType::Service {
        group.reschedule_policy = Some(ReschedulePolicy {
            unlimited: Some(true),
            delay: Some(Duration::from_secs(30)),
            delay_function: Some("constant".to_owned()),
            ..ReschedulePolicy::default()
        });
    }
    job.canonicalize();
    job
}

fn running(scene: &mut Scene, job: Job) {
    let key = job.key();
    let eval = scene.world.register(job);
    scene.run(&eval);
    scene.start_all(&key);
    scene.settle(&key);
}

/// The first allocation of `web`, and its node silenced.
fn silence_first(scene: &mut Scene) -> Allocation {
    let first = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.silence(first.node_id);
    scene.settle(&key("web"));
    first
}

/// The node of `alloc` is back and says that it runs.
pub(crate) fn come_back(scene: &mut Scene, alloc: &Allocation) {
    come_back_as(scene, alloc, ClientStatus::Running);
}

/// The node of `alloc` is back and says that it is as `status` says.
fn come_back_as(scene: &mut Scene, alloc: &Allocation, status: ClientStatus) {
    let number = (1..=9).find(|number| nodes::node(*number).id == alloc.node_id);
    scene
        .world
        .add_node(nodes::node(number.expect("one of ours")));
    scene.world.report(alloc.id, status);
}

/// A node drains, and everything on it was asked to leave, whatever its pace.
pub(crate) fn begin_drain(scene: &mut Scene, node: NodeId) {
    scene.world.drain(node, 0);
    let snapshot = scene.world.snapshot();
    let on_node = snapshot.allocs_on_node(node).filter(|it| !it.terminal());
    for alloc in on_node.map(|alloc| alloc.id) {
        scene.world.stop_alloc(alloc);
    }
}

pub(crate) fn successor(scene: &Scene, alloc: &Allocation) -> Allocation {
    let snapshot = scene.world.snapshot();
    let next = snapshot.alloc(alloc.id).and_then(|it| it.next_allocation);
    let next = next.and_then(|id| snapshot.alloc(id));
    Allocation::clone(next.expect("somebody took its place"))
}

pub(crate) fn status(scene: &Scene, id: AllocId) -> (ClientStatus, DesiredStatus) {
    let snapshot = scene.world.snapshot();
    let alloc = snapshot.alloc(id).expect("it is known");
    (alloc.client_status, alloc.desired_status)
}

#[test]
fn a_replacement_that_failed_makes_way_for_the_original_and_for_nobody_who_runs() {
    let mut scene = Scene::new(4);
    running(&mut scene, tolerant(JobType::Service, "web", 4));
    let original = silence_first(&mut scene);
    let replacement = successor(&scene, &original);
    scene.world.report(replacement.id, ClientStatus::Failed);
    scene.settle(&key("web"));
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    let live = scene.live(&key("web"));
    assert_eq!(live.len(), 4, "{:?}", live.keys());
    assert!(live.values().any(|alloc| alloc.id == original.id));
    let given_up = status(&scene, replacement.id);
    assert_eq!(given_up, (ClientStatus::Failed, DesiredStatus::Stop));
    scene.world.wait(Duration::from_secs(3600));
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 4, "nobody tries it again");
}

#[test]
fn the_replacement_goes_and_not_the_highest_number() {
    let mut scene = Scene::new(4);
    running(&mut scene, tolerant(JobType::Service, "web", 4));
    let original = silence_first(&mut scene);
    assert_eq!(original.index(), Some(0));
    let replacement = successor(&scene, &original);
    scene.start_all(&key("web"));
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    let (_, desired) = status(&scene, replacement.id);
    assert_eq!(desired, DesiredStatus::Stop);
    let names: Vec<_> = scene.live(&key("web")).into_keys().collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn a_replacement_that_has_to_leave_goes_without_a_successor_where_the_original_is_back() {
    let mut scene = Scene::new(4);
    running(&mut scene, tolerant(JobType::Service, "web", 3));
    let originals = scene.live(&key("web"));
    // All that take their places are on the node that is left.
    for original in originals.values() {
        scene.world.silence(original.node_id);
        scene.settle(&key("web"));
    }
    let snapshot = scene.world.snapshot();
    let replacements: Vec<_> = snapshot
        .allocs_by_job(&key("web"))
        .filter(|it| !it.terminal() && it.client_status == ClientStatus::Pending)
        .cloned()
        .collect();
    // The one that is looked at first.
    let replacement = &replacements[0];
    let first = &originals[&replacement.name];
    scene.start_all(&key("web"));
    begin_drain(&mut scene, replacement.node_id);
    come_back(&mut scene, first);
    scene.settle(&key("web"));
    let snapshot = scene.world.snapshot();
    let gone = snapshot.alloc(replacement.id).expect("its record");
    assert_eq!(gone.desired_status, DesiredStatus::Stop);
    assert_eq!(gone.next_allocation, None);
    let moved = snapshot.alloc(replacements[1].id).expect("its record");
    assert_eq!(moved.desired_description, "alloc is being migrated");
    let here = snapshot.allocs_by_job(&key("web"));
    let mut here: Vec<_> = here
        .filter(|it| !it.terminal() && it.client_status != ClientStatus::Unknown)
        .map(|it| it.name.as_str())
        .collect();
    here.sort_unstable();
    assert_eq!(here, ["web.group[0]", "web.group[1]", "web.group[2]"]);
    assert_eq!(status(&scene, first.id).1, DesiredStatus::Run);
}

/// Where the replacement is placed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    /// On a node like the original's.
    Alike,
    /// On one that the job would rather have, and that came later.
    Better,
}

/// Which of the pair stays by this word: the original or its replacement.
fn stays(reconcile: Option<&str>, elsewhere: Elsewhere) -> &'static str {
    let mut scene = Scene::new(3);
    let mut job = tolerant(JobType::Service, "web", 1);
    let block = job.task_groups[0].disconnect.as_mut().expect("set");
    block.reconcile = reconcile.map(str::to_owned);
    job.task_groups[0].affinities = vec![Affinity {
        l_target: "${node.unique.name}".to_owned(),
        r_target: "node-9".to_owned(),
        operand: "=".to_owned(),
        weight: Some(100),
    }];
    running(&mut scene, job);
    if elsewhere == Elsewhere::Better {
        scene.world.add_node(nodes::node(9));
    }
    let original = silence_first(&mut scene);
    let replacement = successor(&scene, &original);
    scene.world.report(replacement.id, ClientStatus::Running);
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    let wanted = |id| status(&scene, id) == (ClientStatus::Running, DesiredStatus::Run);
    match (wanted(original.id), wanted(replacement.id)) {
        (true, false) => "original",
        (false, true) => "replacement",
        both => panic!("{reconcile:?}: {both:?}"),
    }
}

#[test]
fn of_a_pair_the_one_stays_that_its_group_wants() {
    for elsewhere in [Elsewhere::Alike, Elsewhere::Better] {
        assert_eq!(stays(Some("keep_original"), elsewhere), "original");
        assert_eq!(stays(Some("keep_replacement"), elsewhere), "replacement");
        assert_eq!(stays(Some("longest_running"), elsewhere), "original");
    }
}

#[test]
fn of_a_pair_the_one_on_the_better_node_stays_and_among_equals_the_original() {
    for said in [None, Some("best_score")] {
        assert_eq!(stays(said, Elsewhere::Alike), "original");
        assert_eq!(stays(said, Elsewhere::Better), "replacement");
    }
}

#[test]
fn a_silent_allocation_whose_replacement_found_no_room_still_wants_one() {
    let mut scene = Scene::new(1);
    running(&mut scene, tolerant(JobType::Service, "web", 1));
    let original = silence_first(&mut scene);
    let snapshot = scene.world.snapshot();
    assert_eq!(
        snapshot
            .alloc(original.id)
            .and_then(|it| it.next_allocation),
        None
    );
    let blocked = snapshot.evals_by_job(&key("web"));
    let mut blocked = blocked.filter(|eval| eval.status == protocol_model::EvalStatus::Blocked);
    let blocked = blocked.next().expect("it waits for room").clone();
    scene.world.add_node(nodes::node(2));
    scene.run(&blocked);
    assert_eq!(successor(&scene, &original).node_id, nodes::node(2).id);
}

#[test]
fn a_node_that_owes_its_report_has_not_brought_its_allocations_back() {
    let mut scene = Scene::new(3);
    running(&mut scene, tolerant(JobType::Service, "web", 2));
    let original = silence_first(&mut scene);
    scene.start_all(&key("web"));
    let number = (1..=3).find(|number| nodes::node(*number).id == original.node_id);
    scene.world.greet(nodes::node(number.expect("ours")));
    let again = scene.world.register(tolerant(JobType::Service, "web", 2));
    let decision = scene.run(&again);
    assert!(!decision.changes_something(), "{:?}", decision.plan.changed);
    assert_eq!(
        status(&scene, original.id),
        (ClientStatus::Unknown, DesiredStatus::Run)
    );
}

#[test]
fn who_comes_back_with_an_older_version_is_updated_after_it() {
    let mut scene = Scene::new(3);
    let mut job = tolerant(JobType::Service, "web", 2);
    job.task_groups[0].disconnect.as_mut().expect("set").replace = Some(false);
    running(&mut scene, job.clone());
    let original = silence_first(&mut scene);
    job.task_groups[0].tasks[0]
        .env
        .insert("NEW".to_owned(), "1".to_owned());
    running(&mut scene, job);
    scene.make_healthy(&key("web"));
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    let version = scene.world.snapshot().job(&key("web")).map(|it| it.version);
    let live = scene.live(&key("web"));
    assert_eq!(live.len(), 2);
    for alloc in live.values() {
        assert_eq!(Some(alloc.job_version), version, "{}", alloc.name);
    }
}

#[test]
fn a_surplus_allocation_on_a_draining_node_is_stopped_without_a_successor() {
    let mut scene = Scene::new(2);
    let eval = scene.world.register(jobs::job(JobType::Service, "web", 2));
    scene.run(&eval);
    scene.start_all(&key("web"));
    let leaving = scene.live(&key("web")).into_values().next().expect("one");
    begin_drain(&mut scene, leaving.node_id);
    let on_node = scene.live(&key("web")).into_values();
    let staying = on_node.filter(|it| it.node_id != leaving.node_id).count();
    let staying = u32::try_from(staying).expect("few");
    let eval = scene
        .world
        .register(jobs::job(JobType::Service, "web", staying));
    scene.run(&eval);
    assert_eq!(status(&scene, leaving.id).1, DesiredStatus::Stop);
    assert_eq!(scene.live_count(&key("web")), staying as usize);
}

#[test]
fn a_system_allocation_is_tolerated_for_its_window_and_then_given_up() {
    let mut scene = Scene::new(2);
    running(&mut scene, tolerant(JobType::System, "web", 1));
    let original = silence_first(&mut scene);
    assert_eq!(
        status(&scene, original.id),
        (ClientStatus::Unknown, DesiredStatus::Run)
    );
    let due = scene.world.pending(&key("web")).expect("the window's end");
    assert_eq!(due.triggered_by, EvalTrigger::MaxDisconnectTimeout);
    scene.world.wait(Duration::from_secs(61));
    scene.settle(&key("web"));
    assert_eq!(
        status(&scene, original.id),
        (ClientStatus::Lost, DesiredStatus::Stop)
    );
}

#[test]
fn a_system_allocation_comes_back_within_its_window() {
    let mut scene = Scene::new(2);
    running(&mut scene, tolerant(JobType::System, "web", 1));
    let original = silence_first(&mut scene);
    come_back(&mut scene, &original);
    scene.settle(&key("web"));
    assert_eq!(
        status(&scene, original.id),
        (ClientStatus::Running, DesiredStatus::Run)
    );
    assert_eq!(scene.live_count(&key("web")), 2);
}

#[test]
fn a_system_allocation_without_a_window_is_lost_with_a_silent_node() {
    let mut scene = Scene::new(2);
    running(&mut scene, tolerant(JobType::Service, "other", 2));
    running(&mut scene, jobs::job(JobType::System, "web", 1));
    // Somebody else's window makes the node disconnected and not down.
    let original = silence_first(&mut scene);
    assert_eq!(
        status(&scene, original.id),
        (ClientStatus::Lost, DesiredStatus::Stop)
    );
}

#[test]
fn what_fails_together_is_looked_at_together() {
    let mut scene = Scene::new(2);
    running(&mut scene, tolerant(JobType::Service, "web", 3));
    for alloc in scene.live(&key("web")).into_values() {
        scene.world.report(alloc.id, ClientStatus::Failed);
        scene.settle(&key("web"));
    }
    let snapshot = scene.world.snapshot();
    let later = snapshot
        .evals_by_job(&key("web"))
        .filter(|eval| eval.wait_until.is_some() && !eval.status.is_terminal());
    assert_eq!(later.count(), 1);
    scene.world.wait(Duration::from_secs(32));
    scene.settle(&key("web"));
    assert_eq!(scene.live_count(&key("web")), 3);
}
