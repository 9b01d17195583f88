//! Launches of periodic jobs: races are decided where they are applied.

use std::sync::Arc;

use controlplane_state::command::{
    ChildJob, JobRegister, LAUNCHES_MAX, Launch, LaunchCause, PeriodicLaunch, Purge,
};
use controlplane_state::{Command, LaunchResult, Outcome, Refusal, Signal};
use protocol_model::{ClientStatus, EvalTrigger, Job, JobKey, JobType, PeriodicConfig, UnixNanos};

use crate::harness::{Harness, SECOND, has_signal, job, says};

fn template(overlap: Overlap) -> Job {
    let mut template = job("backup", JobType::Batch);
    template.periodic = Some(PeriodicConfig {
        enabled: Some(true),
        spec: "* * * * *".to_owned(),
        spec_type: "cron".to_owned(),
        prohibit_overlap: overlap == Overlap::Prohibited,
        time_zone: "UTC".to_owned(),
        ..PeriodicConfig::default()
    });
    template
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Overlap {
    Allowed,
    Prohibited,
}

fn register(cluster: &mut Harness, job: &Job) {
    cluster.done(Command::JobRegister(JobRegister {
        job: Arc::new(job.clone()),
        spec: job.spec_hash(),
        eval: None,
        enforce_index: None,
        submission: None,
    }));
}

fn with_template(overlap: Overlap) -> (Harness, JobKey) {
    let mut cluster = Harness::new();
    let template = template(overlap);
    register(&mut cluster, &template);
    (cluster, template.key())
}

/// A launch of the template as it is now, `seconds` after the harness's present time.
fn launch(cluster: &mut Harness, parent: &JobKey, seconds: i64, cause: LaunchCause) -> Launch {
    let template = Job::clone(cluster.tables().job(parent).expect("the template"));
    let at = UnixNanos((cluster.now.0 / SECOND + seconds) * SECOND);
    let child = template.periodic_child(at);
    let mut eval = cluster.eval_of(&child);
    eval.triggered_by = EvalTrigger::PeriodicJob;
    Launch {
        child: ChildJob {
            spec: child.spec_hash(),
            job: Arc::new(child),
            parent_index: template.job_modify_index,
            eval: Some(eval),
        },
        at,
        cause,
    }
}

fn apply(cluster: &mut Harness, launches: &[Launch]) -> Vec<LaunchResult> {
    let launches = launches.to_vec();
    let command = Command::PeriodicLaunch(PeriodicLaunch { launches });
    match cluster.apply(command).outcome {
        Outcome::PeriodicLaunched(results) => results,
        other => panic!("{other:?}"),
    }
}

/// For the frozen checkpoint: a launch record and a child.
pub(crate) fn launched_once(cluster: &mut Harness) {
    let template = template(Overlap::Prohibited);
    register(cluster, &template);
    let launch = launch(cluster, &template.key(), 60, LaunchCause::Schedule);
    apply(cluster, &[launch]);
}

/// For random logs: a registration of the template, or launches of it.
pub(crate) fn some_command(cluster: &mut Harness, how: u16) -> Command {
    let mut template = template(Overlap::Prohibited);
    let known = cluster.tables().job(&template.key()).is_some();
    if !known || how.is_multiple_of(4) {
        let periodic = template.periodic.as_mut().expect("periodic");
        periodic.enabled = Some(!how.is_multiple_of(3));
        periodic.prohibit_overlap = how.is_multiple_of(2);
        return Command::JobRegister(JobRegister {
            spec: template.spec_hash(),
            job: Arc::new(template),
            eval: None,
            enforce_index: None,
            submission: None,
        });
    }
    let causes = [LaunchCause::Schedule, LaunchCause::Forced];
    let launches = causes.into_iter().cycle().take(usize::from(how % 4));
    let launches = launches.enumerate().map(|(number, cause)| {
        let seconds = i64::from(how % 7) * 2 - i64::try_from(number).unwrap_or(0);
        let mut launch = launch(cluster, &template.key(), seconds, cause);
        // Of a version that is gone.
        launch.child.parent_index -= u64::from(how.is_multiple_of(11));
        launch
    });
    let launches = launches.collect();
    Command::PeriodicLaunch(PeriodicLaunch { launches })
}

#[test]
fn a_launch_makes_child_evaluation_and_record_in_one_entry() {
    let (mut cluster, backup) = with_template(Overlap::Allowed);
    let launch = launch(&mut cluster, &backup, 60, LaunchCause::Schedule);
    let eval = launch.child.eval.as_ref().map(|it| it.id);
    let child = launch.child.job.key();
    let modified = cluster.tables().job(&backup).map(|it| it.modify_index);
    let command = PeriodicLaunch {
        launches: vec![launch.clone()],
    };
    let applied = cluster.done(Command::PeriodicLaunch(command));
    let Outcome::PeriodicLaunched(results) = &applied.outcome else {
        panic!("{applied:?}");
    };
    let [LaunchResult::Launched(launched)] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert_eq!((&launched.child, launched.eval), (&child, eval));
    assert!(has_signal(&applied, |signal| {
        matches!(signal, Signal::LaunchRecorded(key) if *key == backup)
    }));
    assert_eq!(cluster.pending(&child), [EvalTrigger::PeriodicJob]);
    assert_eq!(
        cluster.pending(&backup),
        [],
        "nothing is evaluated for the template"
    );
    let tables = cluster.tables();
    assert_eq!(tables.last_launch(&backup), Some(launch.at));
    assert_eq!(tables.job(&backup).map(|it| it.modify_index), modified);
    assert_eq!(tables.children(&backup).map(|it| it.pending), Some(1));
}

#[test]
fn a_time_that_is_not_above_the_record_is_not_launched() {
    let (mut cluster, backup) = with_template(Overlap::Allowed);
    let first = launch(&mut cluster, &backup, 60, LaunchCause::Schedule);
    let earlier = launch(&mut cluster, &backup, 59, LaunchCause::Schedule);
    apply(&mut cluster, std::slice::from_ref(&first));
    let results = apply(&mut cluster, &[first.clone(), earlier]);
    assert_eq!(results, [LaunchResult::Earlier, LaunchResult::Earlier]);
    assert_eq!(cluster.tables().last_launch(&backup), Some(first.at));
    // Nor one of before the schedule was registered.
    let changed = Job {
        priority: 60,
        ..template(Overlap::Allowed)
    };
    register(&mut cluster, &changed);
    let registered = cluster.now;
    assert_eq!(
        cluster.tables().last_launch(&backup),
        Some(first.at.max(registered))
    );
}

#[test]
fn launches_are_checked_again_when_they_are_applied() {
    type Change = fn(&mut Harness, &JobKey);
    let disable: Change = |cluster, _| {
        let mut changed = template(Overlap::Allowed);
        changed.periodic.as_mut().expect("periodic").enabled = Some(false);
        register(cluster, &changed);
    };
    let change: Change = |cluster, _| {
        let mut changed = template(Overlap::Allowed);
        changed.priority = 60;
        register(cluster, &changed);
    };
    let cases: [(&str, Change, LaunchResult); 5] = [
        (
            "gone",
            |cluster, key| drop(cluster.deregister(key, Purge::Forget)),
            LaunchResult::NotTracked,
        ),
        (
            "stopped",
            |cluster, key| drop(cluster.deregister(key, Purge::Keep)),
            LaunchResult::NotTracked,
        ),
        ("disabled", disable, LaunchResult::NotTracked),
        ("changed", change, LaunchResult::ParentChanged),
        (
            "purged and new",
            |cluster, key| {
                cluster.deregister(key, Purge::Forget);
                register(cluster, &template(Overlap::Allowed));
            },
            LaunchResult::ParentChanged,
        ),
    ];
    for (name, change, expected) in cases {
        for cause in [LaunchCause::Schedule, LaunchCause::Forced] {
            let (mut cluster, backup) = with_template(Overlap::Allowed);
            let launch = launch(&mut cluster, &backup, 600, cause);
            let child = launch.child.job.key();
            change(&mut cluster, &backup);
            let record = cluster.tables().last_launch(&backup);
            let results = apply(&mut cluster, &[launch]);
            assert_eq!(results, std::slice::from_ref(&expected), "{name} {cause:?}");
            assert_eq!(cluster.tables().job(&child), None, "{name} {cause:?}");
            assert_eq!(cluster.tables().last_launch(&backup), record, "{name}");
        }
    }
}

#[test]
fn prohibited_overlap_skips_and_records_until_the_child_is_over() {
    let (mut cluster, backup) = with_template(Overlap::Prohibited);
    let node = cluster.join(1);
    let first = launch(&mut cluster, &backup, 60, LaunchCause::Schedule);
    let child = first.child.job.key();
    let eval = first.child.eval.as_ref().map(|it| it.id).expect("an id");
    apply(&mut cluster, &[first]);
    // Its evaluation is open, then its allocation is alive.
    let second = launch(&mut cluster, &backup, 120, LaunchCause::Schedule);
    let results = apply(&mut cluster, std::slice::from_ref(&second));
    assert_eq!(results, [LaunchResult::Overlaps]);
    assert_eq!(cluster.tables().last_launch(&backup), Some(second.at));
    let alloc = cluster.place(&child, node);
    let finished = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert {
        evals: vec![finished],
    });
    let third = launch(&mut cluster, &backup, 180, LaunchCause::Schedule);
    assert_eq!(apply(&mut cluster, &[third]), [LaunchResult::Overlaps]);
    // A caller may launch beside it.
    let forced = launch(&mut cluster, &backup, 200, LaunchCause::Forced);
    let forced_child = forced.child.job.key();
    let results = apply(&mut cluster, &[forced]);
    assert!(
        matches!(results.as_slice(), [LaunchResult::Launched(_)]),
        "{results:?}"
    );
    cluster.deregister(&forced_child, Purge::Forget);
    let open = cluster
        .tables()
        .evals_by_job(&forced_child)
        .map(|it| it.id)
        .next();
    let finished = cluster.finished(open.expect("the evaluation"));
    cluster.done(Command::EvalsUpsert {
        evals: vec![finished],
    });
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    let fourth = launch(&mut cluster, &backup, 240, LaunchCause::Schedule);
    let results = apply(&mut cluster, &[fourth]);
    assert!(
        matches!(results.as_slice(), [LaunchResult::Launched(_)]),
        "{results:?}"
    );
}

#[test]
fn two_forced_launches_in_one_second_are_one_child() {
    let (mut cluster, backup) = with_template(Overlap::Allowed);
    let record = cluster.tables().last_launch(&backup);
    let first = launch(&mut cluster, &backup, 60, LaunchCause::Forced);
    let mut second = first.clone();
    second.child.eval = Some(cluster.eval_of(&second.child.job));
    let results = apply(&mut cluster, &[first, second]);
    let [
        LaunchResult::Launched(launched),
        LaunchResult::Repeated(repeated),
    ] = results.as_slice()
    else {
        panic!("{results:?}");
    };
    assert_eq!(launched, repeated);
    assert!(launched.eval.is_some());
    assert_eq!(
        cluster.tables().children(&backup).map(|it| it.total()),
        Some(1)
    );
    assert_eq!(
        cluster.tables().last_launch(&backup),
        record,
        "the schedule is as it was"
    );
    // The schedule's launch of the same second is done by it.
    let scheduled = launch(&mut cluster, &backup, 59, LaunchCause::Schedule);
    assert_eq!(scheduled.child.job.id, launched.child.id);
    let results = apply(&mut cluster, std::slice::from_ref(&scheduled));
    assert!(
        matches!(results.as_slice(), [LaunchResult::Repeated(_)]),
        "{results:?}"
    );
    assert_eq!(cluster.tables().last_launch(&backup), Some(scheduled.at));
}

#[test]
fn a_launch_that_does_not_hold_stops_no_other() {
    let (mut cluster, backup) = with_template(Overlap::Allowed);
    let other = Job {
        id: "other".to_owned(),
        name: "other".to_owned(),
        ..template(Overlap::Allowed)
    };
    register(&mut cluster, &other);
    let gone = launch(&mut cluster, &backup, 60, LaunchCause::Schedule);
    let holds = launch(&mut cluster, &other.key(), 60, LaunchCause::Schedule);
    cluster.deregister(&backup, Purge::Keep);
    let results = apply(&mut cluster, &[gone, holds]);
    assert!(
        matches!(
            results.as_slice(),
            [LaunchResult::NotTracked, LaunchResult::Launched(_)]
        ),
        "{results:?}"
    );
}

#[test]
fn a_template_gets_no_evaluation_when_a_node_comes() {
    let mut cluster = Harness::new();
    let mut template = template(Overlap::Allowed);
    template.job_type = JobType::Sysbatch;
    register(&mut cluster, &template);
    let scheduled = launch(&mut cluster, &template.key(), 60, LaunchCause::Schedule);
    let child = scheduled.child.job.key();
    apply(&mut cluster, &[scheduled]);
    cluster.join(1);
    assert_eq!(cluster.pending(&template.key()), []);
    let of_child = [EvalTrigger::PeriodicJob, EvalTrigger::NodeUpdate];
    assert_eq!(cluster.pending(&child), of_child);
}

#[test]
fn launches_that_make_no_sense_are_refused() {
    let (mut cluster, backup) = with_template(Overlap::Allowed);
    let good = launch(&mut cluster, &backup, 60, LaunchCause::Schedule);
    let mut other_id = good.clone();
    Arc::make_mut(&mut other_id.child.job).id = "backup/periodic-1".to_owned();
    let mut other_eval = good.clone();
    other_eval.child.eval.as_mut().expect("one").job_id = "web".to_owned();
    let many = vec![good; LAUNCHES_MAX + 1];
    for launches in [vec![other_id], vec![other_eval], many] {
        let command = Command::PeriodicLaunch(PeriodicLaunch { launches });
        let outcome = cluster.apply(command).outcome;
        let expected = matches!(
            outcome,
            Outcome::Refused(Refusal::Malformed(_) | Refusal::EvalMismatch(_))
        );
        assert!(expected, "{outcome:?}");
    }
}
