//! Namespaces: which jobs they take, judged where an entry is applied, and when they are deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use controlplane_state::command::{
    ChildJob, DeletionRule, DeploymentChange, DeploymentStatusUpdate, JobRegister, JobScale,
    Launch, LaunchCause, PeriodicLaunch, Purge,
};
use controlplane_state::{
    Command, JobDenied, LaunchResult, Namespace, NamespaceCapabilities, NamespaceHolds,
    NamespaceNodePools, Outcome, Refusal,
};
use protocol_model::{
    ClientStatus, DeploymentStatus, Job, JobKey, JobType, NetworkResource, ParameterizedJobConfig,
    PeriodicConfig, ScalingEvent, Task, UnixNanos,
};

use crate::harness::{Harness, SECOND, job, says};

/// A namespace that takes no task of `driver`.
pub(crate) fn without_driver(name: &str, driver: &str) -> Namespace {
    Namespace {
        name: name.to_owned(),
        capabilities: NamespaceCapabilities {
            disabled_task_drivers: vec![driver.to_owned()],
            ..NamespaceCapabilities::default()
        },
        ..Namespace::default()
    }
}

/// A namespace with every field set.
pub(crate) fn restricted() -> Namespace {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Namespace {
        name: "team".to_owned(),
        description: "a team".to_owned(),
        meta: BTreeMap::from([("owner".to_owned(), "ops".to_owned())]),
        capabilities: NamespaceCapabilities {
            enabled_task_drivers: names(&["exec", "mock"]),
            disabled_task_drivers: names(&["raw_exec"]),
            enabled_network_modes: names(&["bridge"]),
            disabled_network_modes: names(&["host"]),
        },
        node_pool_configuration: Some(NamespaceNodePools {
            default: "batch".to_owned(),
            allowed: Some(names(&["b*"])),
            denied: names(&["prod"]),
        }),
        variables_bytes_max: 1 << 20,
        create_index: 0,
        modify_index: 0,
    }
}

fn open(name: &str) -> Namespace {
    Namespace {
        name: name.to_owned(),
        ..Namespace::default()
    }
}

fn put(cluster: &mut Harness, namespace: Namespace) {
    cluster.done(Command::NamespaceUpsert { namespace });
}

/// A job in `dev` whose tasks have these drivers.
fn with_drivers(id: &str, drivers: &[&str]) -> Job {
    let mut job = job(id, JobType::Batch);
    job.namespace = "dev".to_owned();
    let tasks = drivers.iter().enumerate().map(|(number, driver)| Task {
        name: format!("task-{number}"),
        driver: (*driver).to_owned(),
        ..Task::default()
    });
    job.task_groups[0].tasks = tasks.collect();
    job
}

fn with_mode(id: &str, mode: &str) -> Job {
    let mut job = with_drivers(id, &["exec"]);
    job.task_groups[0].networks = vec![NetworkResource {
        mode: mode.to_owned(),
        ..NetworkResource::default()
    }];
    job
}

fn registration(job: &Job) -> JobRegister {
    JobRegister {
        job: Arc::new(job.clone()),
        spec: job.spec_hash(),
        eval: None,
        enforce_index: None,
        submission: None,
    }
}

fn register(cluster: &mut Harness, job: &Job) -> Outcome {
    let command = Command::JobRegister(registration(job));
    cluster.apply(command).outcome
}

fn refusal(cluster: &mut Harness, command: Command) -> String {
    match cluster.apply(command).outcome {
        Outcome::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

fn denied(cluster: &mut Harness, job: &Job) -> String {
    let text = refusal(cluster, Command::JobRegister(registration(job)));
    let shown = cluster.tables().check_job(job, None);
    assert_eq!(shown.map_err(|it| it.to_string()), Err(text.clone()));
    text
}

fn delete(cluster: &mut Harness, name: &str) -> Outcome {
    let command = Command::NamespaceDelete {
        name: name.to_owned(),
        rule: DeletionRule::NothingLive,
    };
    cluster.apply(command).outcome
}

#[test]
fn drivers_are_enabled_and_disabled_wins() {
    let mut cluster = Harness::new();
    let mut namespace = without_driver("dev", "raw_exec");
    put(&mut cluster, namespace.clone());
    let web = with_drivers("web", &["exec", "raw_exec", "raw_exec"]);
    let one = "used task driver \"raw_exec\" is not allowed in namespace \"dev\"";
    assert_eq!(denied(&mut cluster, &web), one);
    let enabled = &mut namespace.capabilities.enabled_task_drivers;
    *enabled = vec!["exec".to_owned(), "raw_exec".to_owned()];
    put(&mut cluster, namespace);
    assert_eq!(denied(&mut cluster, &web), one);
    let other = with_drivers("web", &["exec", "mock", "raw_exec"]);
    let two = "used task drivers [\"mock\" \"raw_exec\"] are not allowed in namespace \"dev\"";
    assert_eq!(denied(&mut cluster, &other), two);
    let allowed = with_drivers("web", &["exec"]);
    let outcome = register(&mut cluster, &allowed);
    assert!(matches!(outcome, Outcome::JobRegistered { .. }));
    // Another namespace has rules of its own.
    let mut elsewhere = web;
    elsewhere.namespace = "default".to_owned();
    let outcome = register(&mut cluster, &elsewhere);
    assert!(matches!(outcome, Outcome::JobRegistered { .. }));
}

#[test]
fn a_group_without_a_network_uses_that_of_its_host() {
    let mut cluster = Harness::new();
    let mut namespace = open("dev");
    namespace.capabilities.disabled_network_modes = vec!["host".to_owned()];
    put(&mut cluster, namespace);
    let text = "used group network mode \"host\" is not allowed in namespace \"dev\"";
    assert_eq!(denied(&mut cluster, &with_mode("a", "host")), text);
    assert_eq!(denied(&mut cluster, &with_mode("a", "")), text);
    assert_eq!(denied(&mut cluster, &with_drivers("a", &["exec"])), text);
    let outcome = register(&mut cluster, &with_mode("a", "bridge"));
    assert!(matches!(outcome, Outcome::JobRegistered { .. }));
    let mut namespace = open("dev");
    namespace.capabilities.enabled_network_modes = vec!["cni/blue".to_owned()];
    put(&mut cluster, namespace);
    let text = "used group network mode \"bridge\" is not allowed in namespace \"dev\"";
    assert_eq!(denied(&mut cluster, &with_mode("b", "bridge")), text);
    let outcome = register(&mut cluster, &with_mode("b", "cni/blue"));
    assert!(matches!(outcome, Outcome::JobRegistered { .. }));
}

#[test]
fn a_node_pool_that_is_not_allowed_is_refused_by_name() {
    let mut cluster = Harness::new();
    cluster.done(Command::NodePoolUpsert {
        pool: crate::pools::batch(),
    });
    let mut namespace = open("dev");
    namespace.node_pool_configuration = Some(NamespaceNodePools {
        denied: vec!["bat*".to_owned()],
        ..NamespaceNodePools::default()
    });
    put(&mut cluster, namespace);
    let mut web = with_drivers("web", &["exec"]);
    web.node_pool = "batch".to_owned();
    let text = "used node pool \"batch\" is not allowed in namespace \"dev\"";
    assert_eq!(denied(&mut cluster, &web), text);
    web.node_pool = "default".to_owned();
    let outcome = register(&mut cluster, &web);
    assert!(matches!(outcome, Outcome::JobRegistered { .. }));
}

#[test]
fn a_version_that_comes_back_is_judged_by_the_namespace_of_now() {
    let mut cluster = Harness::new();
    put(&mut cluster, open("dev"));
    let web = with_drivers("web", &["raw_exec"]);
    register(&mut cluster, &web);
    put(&mut cluster, without_driver("dev", "raw_exec"));
    // Unchanged, scaled, reverted: each registers a version.
    let text = "used task driver \"raw_exec\" is not allowed in namespace \"dev\"";
    assert_eq!(denied(&mut cluster, &web), text);
    let mut scaled = web.clone();
    scaled.task_groups[0].count = Some(3);
    let scale = Command::JobScale(Box::new(JobScale {
        key: web.key(),
        group: "group".to_owned(),
        event: ScalingEvent {
            count: Some(3),
            ..ScalingEvent::default()
        },
        register: Some(registration(&scaled)),
    }));
    assert_eq!(refusal(&mut cluster, scale), text);
    // It runs until it is stopped, which the namespace does not forbid.
    cluster.deregister(&web.key(), Purge::Keep);
    assert!(cluster.tables().job(&web.key()).is_some_and(|job| job.stop));
}

#[test]
fn a_deployment_ends_without_a_revert_that_is_denied() {
    let (mut cluster, _, key, id, _) = crate::deployments::rollout(0);
    let version = cluster.tables().job(&key).expect("the job").version;
    put(&mut cluster, without_driver("default", "raw_exec"));
    let mut earlier = with_drivers("web", &["raw_exec"]);
    earlier.namespace = "default".to_owned();
    earlier.job_type = JobType::Service;
    let update = DeploymentStatusUpdate {
        change: DeploymentChange {
            id,
            status: DeploymentStatus::Failed,
            description: "Failed due to unhealthy allocations - rolling back to job version 0"
                .to_owned(),
            from: None,
        },
        revert: Some(registration(&earlier)),
        eval: None,
    };
    cluster.done(Command::DeploymentStatus(update));
    let tables = cluster.tables();
    assert_eq!(tables.job(&key).expect("the job").version, version);
    let ended = tables.deployment(id).expect("the deployment");
    assert_eq!(ended.status, DeploymentStatus::Failed);
    let text = "Failed due to unhealthy allocations - not rolled back: used task driver \
                \"raw_exec\" is not allowed in namespace \"default\"";
    assert_eq!(ended.status_description, text);
}

/// A child of the template as it is now.
fn child(cluster: &mut Harness, template: &JobKey, id: &str) -> ChildJob {
    let parent = cluster
        .tables()
        .job(template)
        .expect("the template")
        .clone();
    let mut job = Job::clone(&parent);
    job.id = id.to_owned();
    job.parent_id.clone_from(&template.id);
    job.periodic = None;
    let eval = Some(cluster.eval_of(&job));
    ChildJob {
        spec: job.spec_hash(),
        parent_index: parent.job_modify_index,
        job: Arc::new(job),
        eval,
    }
}

#[test]
fn a_dispatch_is_refused_after_its_namespace_changed() {
    let mut cluster = Harness::new();
    put(&mut cluster, open("dev"));
    let mut work = with_drivers("work", &["raw_exec"]);
    work.parameterized_job = Some(ParameterizedJobConfig::default());
    register(&mut cluster, &work);
    let mut dispatch = child(&mut cluster, &work.key(), "work/dispatch-1");
    Arc::make_mut(&mut dispatch.job).dispatched = true;
    put(&mut cluster, without_driver("dev", "raw_exec"));
    let text = "used task driver \"raw_exec\" is not allowed in namespace \"dev\"";
    let command = Command::JobDispatch(dispatch.clone());
    assert_eq!(refusal(&mut cluster, command), text);
    put(&mut cluster, open("dev"));
    cluster.done(Command::JobDispatch(dispatch));
}

#[test]
fn a_periodic_launch_is_skipped_after_its_namespace_changed() {
    let mut cluster = Harness::new();
    put(&mut cluster, open("dev"));
    let mut backup = with_drivers("backup", &["raw_exec"]);
    backup.periodic = Some(PeriodicConfig {
        enabled: Some(true),
        spec: "* * * * *".to_owned(),
        spec_type: "cron".to_owned(),
        time_zone: "UTC".to_owned(),
        ..PeriodicConfig::default()
    });
    register(&mut cluster, &backup);
    put(&mut cluster, without_driver("dev", "raw_exec"));
    let second = cluster.now.0 / SECOND + 60;
    let id = format!("backup/periodic-{second}");
    let launch = Launch {
        child: child(&mut cluster, &backup.key(), &id),
        at: UnixNanos(second * SECOND),
        cause: LaunchCause::Schedule,
    };
    let command = Command::PeriodicLaunch(PeriodicLaunch {
        launches: vec![launch],
    });
    let denied = JobDenied {
        namespace: "dev".to_owned(),
        drivers: vec!["raw_exec".to_owned()],
        network_modes: Vec::new(),
        node_pool: None,
    };
    let expected = Outcome::PeriodicLaunched(vec![LaunchResult::Denied(denied)]);
    assert_eq!(cluster.done(command).outcome, expected);
    // The time is over all the same: the next one is the next of the schedule.
    let last = cluster.tables().last_launch(&backup.key());
    assert_eq!(last, Some(UnixNanos(second * SECOND)));
    assert!(cluster.tables().job(&JobKey::new("dev", id)).is_none());
}

#[test]
fn a_namespace_is_deleted_once_nothing_in_it_is_live() {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    put(&mut cluster, open("dev"));
    put(&mut cluster, open("dev2"));
    let mut other = with_drivers("web", &["exec"]);
    other.namespace = "dev2".to_owned();
    cluster.register(&other);
    let web = with_drivers("web", &["exec"]);
    let eval = cluster.register(&web);
    let alloc = cluster.place(&web.key(), node);
    let holds = |jobs, allocs| {
        let namespace = "dev".to_owned();
        let holds = NamespaceHolds {
            namespace,
            jobs,
            allocs,
            variables: 0,
        };
        Outcome::Refused(Refusal::NamespaceHolds(holds))
    };
    assert_eq!(delete(&mut cluster, "dev"), holds(1, 1));
    // A purged job leaves its allocations for its node to stop.
    let finished = cluster.finished(eval);
    cluster.done(Command::EvalsUpsert {
        evals: vec![finished],
    });
    cluster.deregister(&web.key(), Purge::Forget);
    assert_eq!(delete(&mut cluster, "dev"), holds(0, 1));
    cluster.report(node, vec![says(alloc, 1, ClientStatus::Complete)]);
    assert_eq!(delete(&mut cluster, "dev"), Outcome::Done);
    assert!(cluster.tables().namespace("dev").is_none());
    // It is not there any more, which was asked for.
    assert_eq!(delete(&mut cluster, "dev"), Outcome::NoOp);
    assert!(cluster.tables().namespace("dev2").is_some());
}

#[test]
fn dead_jobs_of_a_deleted_namespace_are_not_evaluated_again() {
    let mut cluster = Harness::new();
    put(&mut cluster, open("dev"));
    let web = with_drivers("web", &["exec"]);
    register(&mut cluster, &web);
    cluster.deregister(&web.key(), Purge::Keep);
    assert_eq!(delete(&mut cluster, "dev"), Outcome::Done);
    let eval = cluster.eval_of(&web);
    let evaluate = Command::JobEvaluate {
        eval,
        force_reschedule: false,
    };
    let unknown = Refusal::UnknownNamespace("dev".to_owned());
    assert_eq!(
        cluster.apply(evaluate).outcome,
        Outcome::Refused(unknown.clone())
    );
    assert_eq!(register(&mut cluster, &web), Outcome::Refused(unknown));
}

#[test]
fn the_default_namespace_is_not_deleted() {
    let mut cluster = Harness::new();
    let outcome = delete(&mut cluster, "default");
    let refusal = Refusal::NamespaceNotDeletable("default".to_owned());
    assert_eq!(refusal.to_string(), "can not delete default namespace");
    assert_eq!(outcome, Outcome::Refused(refusal));
}

#[test]
fn the_deletion_of_level_1_is_applied_as_its_release_did() {
    let mut cluster = Harness::new();
    put(&mut cluster, open("dev"));
    let old = |cluster: &mut Harness, name: &str| {
        let name = name.to_owned();
        let rule = DeletionRule::NoJobs;
        cluster
            .apply(Command::NamespaceDelete { name, rule })
            .outcome
    };
    let web = with_drivers("web", &["exec"]);
    register(&mut cluster, &web);
    cluster.deregister(&web.key(), Purge::Keep);
    // A dead job is a job.
    let in_use = Refusal::NamespaceInUse("dev".to_owned());
    assert_eq!(old(&mut cluster, "dev"), Outcome::Refused(in_use));
    let unknown = Refusal::UnknownNamespace("nope".to_owned());
    assert_eq!(old(&mut cluster, "nope"), Outcome::Refused(unknown));
    cluster.deregister(&web.key(), Purge::Forget);
    assert_eq!(old(&mut cluster, "dev"), Outcome::Done);
}

#[test]
fn only_new_fields_and_rules_need_the_new_level() {
    let level = |namespace| Command::NamespaceUpsert { namespace }.level();
    assert_eq!(level(open("dev")), 1);
    assert_eq!(level(without_driver("dev", "raw_exec")), 3);
    let pools = Some(NamespaceNodePools::default());
    let namespace = Namespace {
        node_pool_configuration: pools,
        ..open("dev")
    };
    assert_eq!(level(namespace), 3);
    let namespace = Namespace {
        variables_bytes_max: 1,
        ..open("dev")
    };
    assert_eq!(level(namespace), 3);
    let delete = |rule| Command::NamespaceDelete {
        name: "dev".to_owned(),
        rule,
    };
    assert_eq!(delete(DeletionRule::NoJobs).level(), 1);
    assert_eq!(delete(DeletionRule::NothingLive).level(), 3);
}
