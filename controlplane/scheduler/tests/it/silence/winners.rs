//! Which of a pair stays when the original is back, where they are not alike: one is of an older
//! version, does not run, or runs for longer.

use std::time::Duration;

use controlplane_state::Command;
use controlplane_state::command::{DeploymentChange, DeploymentStatusUpdate};
use hack_testkit::nodes;
use protocol_model::{Allocation, ClientStatus, DeploymentStatus, DesiredStatus, Job, JobType};

use super::{come_back, running, status, successor, tolerant};
use crate::scene::{Scene, key};

/// What a newer version changes.
type Change = fn(&mut Job);

fn is_started_anew(job: &mut Job) {
    let env = &mut job.task_groups[0].tasks[0].env;
    env.insert("NEW".to_owned(), "1".to_owned());
}

fn changes_in_place(job: &mut Job) {
    job.priority = 60;
}

/// One that is silent, and its replacement, which is of a newer version and pending.
fn pair(reconcile: &str, change: Change) -> (Scene, Allocation, Allocation) {
    let mut scene = Scene::new(3);
    let mut job = tolerant(JobType::Service, "web", 1);
    let block = job.task_groups[0].disconnect.as_mut().expect("set");
    block.reconcile = Some(reconcile.to_owned());
    running(&mut scene, job.clone());
    let original = scene.live(&key("web")).into_values().next().expect("one");
    change(&mut job);
    scene.world.silence(original.node_id);
    scene.world.register(job);
    scene.settle(&key("web"));
    let replacement = successor(&scene, &original);
    assert_eq!((original.job_version, replacement.job_version), (0, 1));
    (scene, original, replacement)
}

/// Which of them are wanted once the original is back and runs.
fn wanted(scene: &mut Scene, original: &Allocation, replacement: &Allocation) -> [bool; 2] {
    come_back(scene, original);
    scene.settle(&key("web"));
    [original.id, replacement.id].map(|id| status(scene, id).1 == DesiredStatus::Run)
}

fn count(scene: &Scene) -> usize {
    scene.world.snapshot().allocs_by_job(&key("web")).count()
}

#[test]
fn of_two_that_run_the_older_version_goes_whatever_its_group_says() {
    for change in [is_started_anew as Change, changes_in_place] {
        for reconcile in ["keep_original", "best_score", "longest_running"] {
            let (mut scene, original, replacement) = pair(reconcile, change);
            scene.world.report(replacement.id, ClientStatus::Running);
            let stay = wanted(&mut scene, &original, &replacement);
            assert_eq!(stay, [false, true], "{reconcile}");
            assert_eq!(count(&scene), 2, "{reconcile}");
        }
    }
}

#[test]
fn what_runs_goes_for_a_newer_version_that_is_on_its_way_and_would_replace_it_anyway() {
    for reconcile in ["keep_original", "best_score"] {
        let (mut scene, original, replacement) = pair(reconcile, is_started_anew);
        let stay = wanted(&mut scene, &original, &replacement);
        assert_eq!(stay, [false, true], "{reconcile}");
        assert_eq!(count(&scene), 2, "nobody is placed once more");
    }
}

#[test]
fn what_runs_and_takes_the_newer_version_over_goes_on_instead_of_what_is_on_its_way() {
    let (mut scene, original, replacement) = pair("keep_replacement", changes_in_place);
    let stay = wanted(&mut scene, &original, &replacement);
    assert_eq!(stay, [true, false]);
    let live = scene.live(&key("web")).into_values().next().expect("one");
    assert_eq!((live.id, live.job_version), (original.id, 1));
}

#[test]
fn what_runs_goes_on_where_the_rollout_of_the_newer_version_failed() {
    let (mut scene, original, replacement) = pair("keep_original", is_started_anew);
    let change = DeploymentChange {
        id: scene.deployment(&key("web")).expect("a deployment").id,
        status: DeploymentStatus::Failed,
        description: String::new(),
        from: None,
    };
    let failed = DeploymentStatusUpdate {
        change,
        revert: None,
        eval: None,
    };
    scene.world.expect(Command::DeploymentStatus(failed));
    let stay = wanted(&mut scene, &original, &replacement);
    assert_eq!(stay, [true, false]);
}

/// Which of a pair stays that run since these seconds: the original and its replacement.
fn longest_running_stays(original_since: u64, replacement_since: u64) -> [bool; 2] {
    let mut scene = Scene::new(3);
    let mut job = tolerant(JobType::Service, "web", 1);
    let block = job.task_groups[0].disconnect.as_mut().expect("set");
    block.reconcile = Some("longest_running".to_owned());
    let began = scene.world.now();
    let at = |seconds| began.saturating_add(Duration::from_secs(seconds));
    running(&mut scene, job);
    let original = scene.live(&key("web")).into_values().next().expect("one");
    scene.world.wait(Duration::from_secs(30));
    scene.world.silence(original.node_id);
    scene.settle(&key("web"));
    let replacement = successor(&scene, &original);
    let since = at(replacement_since);
    scene.world.report_running_since(replacement.id, since);
    let number = (1..=3).find(|number| nodes::node(*number).id == original.node_id);
    scene.world.add_node(nodes::node(number.expect("ours")));
    let since = at(original_since);
    scene.world.report_running_since(original.id, since);
    scene.settle(&key("web"));
    [original.id, replacement.id].map(|id| status(&scene, id).1 == DesiredStatus::Run)
}

#[test]
fn of_two_that_run_the_one_stays_that_has_run_longest() {
    assert_eq!(longest_running_stays(1, 31), [true, false]);
    // Its host booted meanwhile.
    assert_eq!(longest_running_stays(40, 31), [false, true]);
}
