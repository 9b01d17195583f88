//! Jobs, their versions, their status.

use std::sync::Arc;

use controlplane_state::command::{JobRegister, Purge};
use controlplane_state::{Command, JOB_VERSIONS_MAX, KindChange, Outcome, Refusal};
use protocol_model::{
    ClientStatus, EvalTrigger, Job, JobKey, JobStatus, JobSubmission, JobType,
    ParameterizedJobConfig, PeriodicConfig,
};

use crate::harness::{Harness, job, says};

#[test]
fn registering_makes_the_job_and_its_evaluation_in_one_entry() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    let eval = cluster.register(&web);
    let stored = cluster.tables().job(&web.key()).expect("the job");
    assert_eq!((stored.version, stored.status), (0, JobStatus::Pending));
    assert_eq!(stored.job_modify_index, cluster.index);
    let eval = cluster.tables().eval(eval).expect("the evaluation");
    assert_eq!(eval.create_index, stored.create_index);
    assert_eq!(eval.job_modify_index, stored.job_modify_index);
}

#[test]
fn the_same_specification_again_is_no_new_version() {
    let mut cluster = Harness::new();
    let mut web = job("web", JobType::Service);
    cluster.register(&web);
    let first = cluster.tables().job(&web.key()).expect("the job").clone();
    cluster.register(&web);
    let second = cluster.tables().job(&web.key()).expect("the job");
    assert!(Arc::ptr_eq(&first, second));
    web.priority = 70;
    cluster.register(&web);
    let third = cluster.tables().job(&web.key()).expect("the job");
    assert_eq!((third.version, third.create_index), (1, first.create_index));
    assert_eq!(cluster.pending(&web.key()), [EvalTrigger::JobRegister; 3]);
}

#[test]
fn only_the_newest_versions_are_remembered_and_the_stable_one() {
    let mut cluster = Harness::new();
    let mut web = job("web", JobType::Service);
    let key = web.key();
    cluster.register(&web);
    cluster.done(Command::JobStability {
        key: key.clone(),
        version: 0,
        stable: true,
    });
    for priority in 60..70 {
        web.priority = priority;
        cluster.register(&web);
    }
    let versions: Vec<u64> = cluster
        .tables()
        .job_versions(&key)
        .map(|job| job.version)
        .collect();
    assert_eq!(versions, [10, 9, 8, 7, 6, 0]);
    assert_eq!(versions.len(), JOB_VERSIONS_MAX);
    // What no version refers to any more is collected with its last reference.
    assert!(cluster.tables().job_version(&key, 3).is_none());
}

#[test]
fn a_version_that_becomes_stable_changes_nothing_that_is_wanted() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    cluster.register(&web);
    let applied = cluster.apply(Command::JobStability {
        key: web.key(),
        version: 0,
        stable: true,
    });
    assert_eq!(applied.outcome, Outcome::Done);
    // An evaluation that waits for room would be given up, and nobody makes another.
    assert_eq!(applied.signals, []);
    assert!(cluster.tables().job(&web.key()).is_some_and(|it| it.stable));
}

#[test]
fn a_specification_lives_as_long_as_an_allocation_runs_it() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let (key, spec) = (web.key(), web.spec_hash());
    cluster.register(&web);
    let alloc = cluster.place(&key, node);
    cluster.deregister(&key, Purge::Forget);
    assert!(cluster.tables().job(&key).is_none());
    let of_alloc = cluster
        .tables()
        .job_of_alloc(&cluster.alloc(alloc))
        .expect("its job");
    assert_eq!(of_alloc.spec_hash(), spec);
    cluster.stop(alloc);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    let collect = controlplane_state::command::GcCollect {
        allocs: vec![alloc],
        ..Default::default()
    };
    let applied = cluster.done(Command::GcCollect(collect));
    assert!(cluster.tables().spec(spec).is_none());
    assert!(
        applied
            .signals
            .contains(&controlplane_state::Signal::SpecCollected(spec))
    );
}

#[test]
fn a_job_registered_after_a_purge_is_another_job() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let key = web.key();
    cluster.register(&web);
    let old = cluster.place(&key, node);
    cluster.deregister(&key, Purge::Forget);
    cluster.register(&web);
    let new = cluster.tables().job(&key).expect("the job");
    assert_eq!(new.version, 0);
    assert_ne!(new.create_index, cluster.alloc(old).job_create_index);
    let of_old = cluster
        .tables()
        .job_of_alloc(&cluster.alloc(old))
        .expect("its job");
    assert_eq!(of_old.create_index, cluster.alloc(old).job_create_index);
}

#[test]
fn enforcing_an_index_refuses_what_changed_since() {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    let command = |enforce_index| {
        Command::JobRegister(JobRegister {
            job: Arc::new(web.clone()),
            spec: web.spec_hash(),
            eval: None,
            enforce_index,
            submission: None,
        })
    };
    let missing = cluster.apply(command(Some(7))).outcome;
    assert_eq!(
        missing,
        Outcome::Refused(Refusal::JobModified {
            wanted: 7,
            found: 0
        })
    );
    cluster.done(command(Some(0)));
    let found = cluster.index;
    let exists = cluster.apply(command(Some(0))).outcome;
    assert_eq!(
        exists,
        Outcome::Refused(Refusal::JobModified { wanted: 0, found })
    );
    cluster.done(command(Some(found)));
}

#[test]
fn a_job_stays_of_its_kind_until_it_is_purged() {
    let batch = job("web", JobType::Batch);
    let mut service = batch.clone();
    service.job_type = JobType::Service;
    let mut periodic = batch.clone();
    periodic.periodic = Some(PeriodicConfig::default());
    let mut parameterized = batch.clone();
    parameterized.parameterized_job = Some(ParameterizedJobConfig::default());
    let to_service = KindChange::Type {
        from: JobType::Batch,
        to: JobType::Service,
    };
    for (old, new, change) in [
        (&batch, &service, to_service),
        (&batch, &periodic, KindChange::ToPeriodic),
        (&periodic, &batch, KindChange::FromPeriodic),
        (&batch, &parameterized, KindChange::ToParameterized),
        (&parameterized, &batch, KindChange::FromParameterized),
    ] {
        let mut cluster = Harness::new();
        cluster.register(old);
        let refused = Outcome::Refused(Refusal::JobKind(change));
        assert_eq!(cluster.apply(registration_of(new)).outcome, refused);
        // What is stopped may still be ending.
        cluster.deregister(&old.key(), Purge::Keep);
        assert_eq!(cluster.apply(registration_of(new)).outcome, refused);
        cluster.done(registration_of(old));
        cluster.deregister(&old.key(), Purge::Forget);
        cluster.done(registration_of(new));
    }
}

fn registration_of(job: &Job) -> Command {
    Command::JobRegister(JobRegister {
        job: Arc::new(job.clone()),
        spec: job.spec_hash(),
        eval: None,
        enforce_index: None,
        submission: None,
    })
}

#[test]
fn a_jobs_status_follows_its_allocations_and_evaluations() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let batch = job("batch", JobType::Batch);
    let key = batch.key();
    let status = |cluster: &Harness| cluster.tables().job(&key).expect("the job").status;
    let eval = cluster.register(&batch);
    assert_eq!(status(&cluster), JobStatus::Pending);
    let alloc = cluster.place(&key, node);
    assert_eq!(status(&cluster), JobStatus::Running);
    let finished = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert {
        evals: vec![finished],
    });
    assert_eq!(status(&cluster), JobStatus::Running);
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    assert_eq!(status(&cluster), JobStatus::Dead);
    let summary = cluster.tables().job_summary(&key);
    assert_eq!(summary.groups["group"].counts.complete, 1);
    assert_eq!(summary.groups["group"].counts.running, 0);
}

#[test]
fn a_system_job_runs_until_it_is_stopped() {
    let mut cluster = Harness::new();
    let agent = job("agent", JobType::System);
    let key = agent.key();
    cluster.register(&agent);
    assert_eq!(
        cluster.tables().job(&key).expect("the job").status,
        JobStatus::Running
    );
    cluster.deregister(&key, Purge::Keep);
    let stopped = cluster.tables().job(&key).expect("the job");
    assert_eq!(
        (stopped.status, stopped.version, stopped.stop),
        (JobStatus::Dead, 1, true)
    );
}

#[test]
fn jobs_are_found_by_the_beginning_of_their_id() {
    let mut cluster = Harness::new();
    for id in ["api", "web", "web-2", "x"] {
        cluster.register(&job(id, JobType::Service));
    }
    let found: Vec<String> = cluster
        .tables()
        .jobs_with_prefix("default", "web")
        .map(|(key, _)| key.id.clone())
        .collect();
    assert_eq!(found, ["web", "web-2"]);
    assert!(cluster.tables().job(&JobKey::new("other", "web")).is_none());
}

#[test]
fn what_a_version_was_made_from_is_kept_with_it() {
    let mut cluster = Harness::new();
    let register = |cluster: &mut Harness, command: &str, source: Option<&str>| {
        let mut web = job("web", JobType::Service);
        web.meta.insert("made".to_owned(), command.to_owned());
        let submission = source.map(|source| JobSubmission {
            source: source.to_owned(),
            ..JobSubmission::default()
        });
        cluster.done(Command::JobRegister(JobRegister {
            spec: web.spec_hash(),
            job: Arc::new(web),
            eval: None,
            enforce_index: None,
            submission: submission.map(Arc::new),
        }));
    };
    let key = JobKey::new("default", "web");
    let source = |cluster: &Harness, version| {
        let found = cluster.tables().job_submission(&key, version);
        found.map(|submission| submission.source.clone())
    };
    register(&mut cluster, "one", Some("first"));
    register(&mut cluster, "two", None);
    assert_eq!(source(&cluster, 0).as_deref(), Some("first"));
    assert_eq!(source(&cluster, 1), None);
    // The same job, and now its text is known; without a text nothing is forgotten.
    register(&mut cluster, "two", Some("second"));
    register(&mut cluster, "two", None);
    cluster.deregister(&key, Purge::Keep);
    assert_eq!(source(&cluster, 1).as_deref(), Some("second"));
    assert_eq!(source(&cluster, 2).as_deref(), Some("second"), "stopped");
    cluster.deregister(&key, Purge::Forget);
    assert_eq!(source(&cluster, 1), None);
}

#[test]
fn a_job_in_an_unknown_namespace_is_refused() {
    let mut cluster = Harness::new();
    let mut web = job("web", JobType::Service);
    web.namespace = "elsewhere".to_owned();
    let command = Command::JobRegister(JobRegister {
        spec: web.spec_hash(),
        job: Arc::new(web),
        eval: None,
        enforce_index: None,
        submission: None,
    });
    let refusal = Refusal::UnknownNamespace("elsewhere".to_owned());
    assert_eq!(cluster.apply(command).outcome, Outcome::Refused(refusal));
}

#[test]
fn nothing_but_the_beginning_is_accepted_before_the_beginning() {
    let mut cluster = Harness::empty();
    let applied = cluster.apply(Command::EvalsUpsert { evals: Vec::new() });
    assert_eq!(applied.outcome, Outcome::Refused(Refusal::NotInitialized));
    assert_eq!(cluster.apply(Command::Barrier).outcome, Outcome::Done);
}
