//! Jobs that are launched from templates.

use std::sync::Arc;

use controlplane_state::command::{ChildJob, JobRegister, Purge};
use controlplane_state::{Children, Command, LaunchField, Launched, Outcome, Refusal};
use protocol_model::{EvalStatus, Job, JobKey, JobStatus, JobType, ParameterizedJobConfig};

use crate::harness::{Harness, job};

fn template(id: &str) -> Job {
    let mut template = job(id, JobType::Batch);
    template.parameterized_job = Some(ParameterizedJobConfig::default());
    template
}

fn with_template() -> (Harness, JobKey) {
    let mut cluster = Harness::new();
    let work = template("work");
    let key = work.key();
    cluster.done(registered(&work));
    (cluster, key)
}

fn registered(job: &Job) -> Command {
    Command::JobRegister(JobRegister {
        job: Arc::new(job.clone()),
        spec: job.spec_hash(),
        eval: None,
        enforce_index: None,
        submission: None,
    })
}

/// A dispatch of the template as it is now.
fn dispatch(cluster: &mut Harness, template: &JobKey, child: &str, token: &str) -> ChildJob {
    let parent = cluster.tables().job(template).expect("the template");
    let parent_index = parent.job_modify_index;
    let mut job = Job::clone(parent);
    job.id = format!("{}/{child}", template.id);
    job.name.clone_from(&job.id);
    job.parent_id.clone_from(&template.id);
    job.dispatched = true;
    job.dispatch_idempotency_token = token.to_owned();
    let eval = Some(cluster.eval_of(&job));
    ChildJob {
        spec: job.spec_hash(),
        job: Arc::new(job),
        parent_index,
        eval,
    }
}

fn launched(cluster: &mut Harness, child: ChildJob) -> Launched {
    match cluster.apply(Command::JobDispatch(child)).outcome {
        Outcome::JobDispatched(launched) => launched,
        other => panic!("{other:?}"),
    }
}

fn refused(cluster: &mut Harness, command: Command) -> Refusal {
    match cluster.apply(command).outcome {
        Outcome::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dispatch_makes_the_child_and_its_evaluation_in_one_entry() {
    let (mut cluster, work) = with_template();
    let child = dispatch(&mut cluster, &work, "dispatch-1-a", "");
    let eval = child.eval.as_ref().map(|eval| eval.id);
    let launched = launched(&mut cluster, child);
    assert_eq!(launched.eval, eval);
    assert_eq!(launched.create_index, cluster.index);
    let tables = cluster.tables();
    let stored = tables.job(&launched.child).expect("the child");
    assert_eq!((stored.version, stored.status), (0, JobStatus::Pending));
    let eval = tables.eval(eval.expect("an id")).expect("the evaluation");
    assert_eq!(eval.job_modify_index, stored.job_modify_index);
    let children = tables.children(&work).expect("a child");
    assert_eq!((children.pending, children.total()), (1, 1));
}

#[test]
fn a_repeated_token_answers_the_child_that_has_it() {
    let (mut cluster, work) = with_template();
    let first = dispatch(&mut cluster, &work, "dispatch-1-a", "t");
    let first = launched(&mut cluster, first);
    let again = dispatch(&mut cluster, &work, "dispatch-1-b", "t");
    let again = launched(&mut cluster, again);
    assert_eq!((&again.child, again.eval), (&first.child, None));
    assert_eq!(again.create_index, first.create_index);
    // Another template's token is another one, and no token is none.
    cluster.done(registered(&template("other")));
    let other = JobKey::new("default", "other");
    for (template, token) in [(&other, "t"), (&work, ""), (&work, "")] {
        let name = format!("dispatch-2-{}", cluster.index);
        let child = dispatch(&mut cluster, template, &name, token);
        assert!(launched(&mut cluster, child).eval.is_some());
    }
    // After the purge of its child the token is free.
    cluster.deregister(&first.child, Purge::Forget);
    let later = dispatch(&mut cluster, &work, "dispatch-3-a", "t");
    assert_ne!(launched(&mut cluster, later).child, first.child);
}

#[test]
fn tokens_and_counters_survive_a_checkpoint() {
    let (mut cluster, work) = with_template();
    let child = dispatch(&mut cluster, &work, "dispatch-1-a", "t");
    let child = launched(&mut cluster, child).child;
    let restored = controlplane_state::State::restore(cluster.checkpoint().as_slice());
    let restored = restored.expect("a state");
    let found = restored.tables().dispatched_with(&work, "t");
    assert_eq!(found.map(|job| job.key()), Some(child));
    let children = restored.tables().children(&work).map(Children::total);
    assert_eq!(children, Some(1));
}

#[test]
fn children_are_counted_by_status() {
    let (mut cluster, work) = with_template();
    let child = dispatch(&mut cluster, &work, "dispatch-1-a", "");
    let launched = launched(&mut cluster, child);
    let mut eval = cluster.finished(launched.eval.expect("an evaluation"));
    eval.status = EvalStatus::Complete;
    cluster.done(Command::EvalsUpsert { evals: vec![eval] });
    let counts = |cluster: &Harness| cluster.tables().children(&work).cloned();
    assert_eq!(
        counts(&cluster).map(|it| (it.pending, it.dead)),
        Some((0, 1))
    );
    // The children go their own way when their template is forgotten.
    cluster.deregister(&work, Purge::Forget);
    assert_eq!(counts(&cluster).map(|it| it.total()), Some(1));
    cluster.deregister(&launched.child, Purge::Forget);
    assert_eq!(counts(&cluster), None);
}

#[test]
fn a_dispatch_from_a_template_that_changed_is_refused() {
    let (mut cluster, work) = with_template();
    let child = dispatch(&mut cluster, &work, "dispatch-1-a", "");
    let made_from = child.parent_index;
    let command = Command::JobDispatch(child.clone());
    let mut changed = template("work");
    changed.priority = 70;
    cluster.done(registered(&changed));
    let found = cluster.index;
    assert_eq!(
        refused(&mut cluster, command.clone()),
        Refusal::TemplateChanged {
            key: work.clone(),
            wanted: made_from,
            found,
        }
    );
    let current = dispatch(&mut cluster, &work, "dispatch-1-a", "");
    launched(&mut cluster, current.clone());
    let taken = current.job.key();
    assert_eq!(
        refused(&mut cluster, Command::JobDispatch(current)),
        Refusal::ChildExists(taken)
    );
    cluster.deregister(&work, Purge::Keep);
    assert_eq!(
        refused(&mut cluster, command.clone()),
        Refusal::TemplateStopped(work.clone())
    );
    cluster.deregister(&work, Purge::Forget);
    assert_eq!(
        refused(&mut cluster, command.clone()),
        Refusal::UnknownJob(work.clone())
    );
    // A job that is no template, in the place of the one before.
    cluster.register(&job("work", JobType::Batch));
    assert_eq!(
        refused(&mut cluster, command),
        Refusal::NotParameterized(work)
    );
}

#[test]
fn a_child_has_its_parent_s_id_before_its_own() {
    let (mut cluster, work) = with_template();
    for id in ["elsewhere", "work", "work/", "workers/a"] {
        let mut child = dispatch(&mut cluster, &work, "a", "");
        let mut job = Job::clone(&child.job);
        job.id = id.to_owned();
        child.eval = Some(cluster.eval_of(&job));
        child.job = Arc::new(job);
        let refusal = refused(&mut cluster, Command::JobDispatch(child));
        assert!(matches!(refusal, Refusal::Malformed(_)), "{id}: {refusal}");
    }
}

#[test]
fn a_registration_neither_forges_a_child_nor_changes_one() {
    let (mut cluster, work) = with_template();
    let child = dispatch(&mut cluster, &work, "dispatch-1-a", "t");
    let key = launched(&mut cluster, child).child;
    let stored = Job::clone(cluster.tables().job(&key).expect("the child"));
    type Change = fn(&mut Job);
    let changes: [(LaunchField, Change); 4] = [
        (LaunchField::Dispatched, |job| job.dispatched ^= true),
        (LaunchField::ParentId, |job| job.parent_id = "x".to_owned()),
        (LaunchField::Payload, |job| {
            job.payload = Some("AAA=".to_owned());
        }),
        (LaunchField::IdempotencyToken, |job| {
            job.dispatch_idempotency_token = "u".to_owned();
        }),
    ];
    for (field, change) in changes {
        let mut new = job("new", JobType::Batch);
        change(&mut new);
        let set = refused(&mut cluster, registered(&new));
        assert_eq!(set, Refusal::LaunchFieldSet(field));
        let mut changed = stored.clone();
        change(&mut changed);
        let refusal = refused(&mut cluster, registered(&changed));
        assert_eq!(refusal, Refusal::LaunchFieldChanged(field));
    }
    // Everything else of a child may change.
    let mut changed = stored;
    changed.priority = 70;
    cluster.done(registered(&changed));
}
