//! Deployments: what the state counts, and what ends them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{
    DeploymentAllocHealth, DeploymentChange, DeploymentPromote, DeploymentStatusUpdate, PlanApply,
    PromoteGroups,
};
use controlplane_state::{Command, Outcome, Refusal, ShortOfCanaries};
use protocol_model::{
    AllocDeploymentStatus, AllocId, ClientStatus, Deployment, DeploymentId, DeploymentState,
    DeploymentStatus, JobKey, JobType, NodeId, UnixNanos,
};
use protocol_wire::report::{JudgedFor, ReportedHealth};

use crate::harness::{Harness, job, says};

pub(crate) fn rollout(canaries: u32) -> (Harness, NodeId, JobKey, DeploymentId, AllocId) {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let key = web.key();
    cluster.register(&web);
    let id = DeploymentId::from_u128(0xd1);
    let group = DeploymentState {
        desired_total: 2,
        desired_canaries: canaries,
        progress_deadline: Duration::from_secs(600),
        ..DeploymentState::default()
    };
    let stored = cluster.tables().job(&key).expect("the job").clone();
    let deployment = Deployment {
        id,
        namespace: key.namespace.clone(),
        job_id: key.id.clone(),
        job_version: stored.version,
        job_modify_index: stored.modify_index,
        job_spec_modify_index: stored.job_modify_index,
        job_create_index: stored.create_index,
        is_multiregion: false,
        task_groups: BTreeMap::from([("group".to_owned(), group)]),
        status: DeploymentStatus::Running,
        status_description: String::new(),
        eval_priority: 50,
        create_index: 0,
        modify_index: 0,
        create_time: UnixNanos::ZERO,
        modify_time: UnixNanos::ZERO,
    };
    let mut alloc = cluster.alloc_for(&key, node, 10);
    alloc.deployment_id = Some(id);
    alloc.deployment_status = Some(AllocDeploymentStatus {
        canary: canaries > 0,
        ..AllocDeploymentStatus::default()
    });
    let alloc_id = alloc.id;
    let plan = PlanApply {
        deployment: Some(Arc::new(deployment)),
        placed: vec![Arc::new(alloc)],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    (cluster, node, key, id, alloc_id)
}

fn healthy(cluster: &mut Harness, node: NodeId, alloc: AllocId) {
    let mut report = says(alloc, 1, ClientStatus::Running);
    report.health = Some(ReportedHealth {
        healthy: true,
        at: UnixNanos(5),
        judged_for: JudgedFor::Unsaid,
    });
    cluster.report(node, vec![report]);
}

#[test]
fn placed_and_healthy_allocations_are_counted_as_they_come() {
    let (mut cluster, node, _, id, alloc) = rollout(0);
    let group = |cluster: &Harness| {
        cluster.tables().deployment(id).expect("it").task_groups["group"].clone()
    };
    assert_eq!(
        (
            group(&cluster).placed_allocs,
            group(&cluster).healthy_allocs
        ),
        (1, 0)
    );
    let due = cluster.now.saturating_add(Duration::from_secs(600));
    assert_eq!(group(&cluster).require_progress_by, Some(due));
    healthy(&mut cluster, node, alloc);
    assert_eq!(group(&cluster).healthy_allocs, 1);
    let due = cluster.now.saturating_add(Duration::from_secs(600));
    assert_eq!(group(&cluster).require_progress_by, Some(due));
}

#[test]
fn health_that_was_found_out_for_another_deployment_says_nothing() {
    let (mut cluster, node, _, id, alloc) = rollout(0);
    let known = |cluster: &mut Harness, revision, judged_for| {
        let mut report = says(alloc, revision, ClientStatus::Running);
        report.health = Some(ReportedHealth {
            healthy: true,
            at: UnixNanos(5),
            judged_for,
        });
        cluster.report(node, vec![report]);
        cluster.tables().deployment(id).expect("it").task_groups["group"].healthy_allocs
    };
    let other = JudgedFor::Deployment(DeploymentId::from_u128(0xd2));
    assert_eq!(known(&mut cluster, 1, other), 0);
    assert_eq!(known(&mut cluster, 2, JudgedFor::NoDeployment), 0);
    assert_eq!(known(&mut cluster, 3, JudgedFor::Deployment(id)), 1);
}

fn promote(id: DeploymentId, groups: PromoteGroups) -> Command {
    Command::DeploymentPromote(DeploymentPromote {
        id,
        groups,
        eval: None,
        from: None,
    })
}

#[test]
fn canaries_are_promoted_once_they_are_healthy() {
    let (mut cluster, node, _, id, alloc) = rollout(1);
    let all = || promote(id, PromoteGroups::All);
    let short = ShortOfCanaries {
        group: "group".to_owned(),
        healthy: 0,
        desired: 1,
    };
    assert_eq!(
        short.to_string(),
        "Task group \"group\" has 0/1 healthy allocations"
    );
    let refused = Outcome::Refused(Refusal::NotPromotable(vec![short]));
    assert_eq!(cluster.apply(all()).outcome, refused);
    healthy(&mut cluster, node, alloc);
    cluster.now = cluster.now.saturating_add(Duration::from_secs(3600));
    cluster.apply(all());
    let deployment = cluster.tables().deployment(id).expect("it").clone();
    let group = &deployment.task_groups["group"];
    assert!(group.promoted);
    assert_eq!(deployment.status_description, Deployment::RUNNING);
    // Nomad #7058: the time that a person took is not the rest's.
    let due = cluster.now.saturating_add(Duration::from_secs(600));
    assert!(group.require_progress_by >= Some(due));
    let status = cluster.alloc(alloc).deployment_status.expect("its health");
    assert!(!status.canary);
    let again = cluster.apply(all()).outcome;
    assert_eq!(again, Outcome::Evaluated(Vec::new()), "no error");
}

#[test]
fn a_group_that_a_deployment_does_not_have_is_not_promoted() {
    let (mut cluster, node, _, id, alloc) = rollout(1);
    healthy(&mut cluster, node, alloc);
    let names = vec!["group".to_owned(), "other".to_owned()];
    let refused = Refusal::UnknownDeploymentGroup {
        id,
        group: "other".to_owned(),
    };
    let outcome = cluster
        .apply(promote(id, PromoteGroups::Named(names)))
        .outcome;
    assert_eq!(outcome, Outcome::Refused(refused));
    assert!(!cluster.tables().deployment(id).expect("it").task_groups["group"].promoted);
}

/// A transition of a deployment from a status that was seen.
fn transition(
    id: DeploymentId,
    from: Option<DeploymentStatus>,
    status: DeploymentStatus,
) -> Command {
    Command::DeploymentStatus(DeploymentStatusUpdate {
        change: DeploymentChange {
            id,
            status,
            description: format!("{status:?}"),
            from,
        },
        revert: None,
        eval: None,
    })
}

#[test]
fn every_deployment_status_takes_or_refuses_every_transition() {
    use DeploymentStatus::{
        Blocked, Cancelled, Failed, Initializing, Paused, Pending, Running, Successful, Unblocking,
    };
    let all = [
        Running,
        Paused,
        Failed,
        Successful,
        Cancelled,
        Initializing,
        Pending,
        Blocked,
        Unblocking,
    ];
    for state in all {
        for from in all {
            for to in all {
                let (mut cluster, _, _, id, _) = rollout(1);
                cluster.done(transition(id, None, state));
                let outcome = cluster.apply(transition(id, Some(from), to)).outcome;
                let expected = match (state.is_active(), state == from) {
                    (false, _) => Outcome::Refused(Refusal::DeploymentTerminal(id)),
                    (true, true) => Outcome::Evaluated(Vec::new()),
                    (true, false) => {
                        Outcome::Refused(Refusal::DeploymentMoved { id, found: state })
                    }
                };
                assert_eq!(outcome, expected, "{state:?}: {from:?} -> {to:?}");
                let now = cluster.tables().deployment(id).expect("it").status;
                let moved = state.is_active() && state == from;
                assert_eq!(now, if moved { to } else { state });
            }
        }
    }
}

#[test]
fn a_terminal_deployment_takes_no_promotion_and_no_health() {
    use DeploymentStatus::{Cancelled, Failed, Successful};
    for state in [Failed, Successful, Cancelled] {
        let (mut cluster, node, _, id, alloc) = rollout(1);
        healthy(&mut cluster, node, alloc);
        cluster.done(transition(id, None, state));
        let terminal = Outcome::Refused(Refusal::DeploymentTerminal(id));
        let promoted = cluster.apply(promote(id, PromoteGroups::All)).outcome;
        assert_eq!(promoted, terminal, "{state:?}");
        let marked = cluster.apply(marks(id, vec![], vec![alloc])).outcome;
        assert_eq!(marked, terminal, "{state:?}");
    }
}

/// Nomad #27804.
#[test]
fn a_pause_and_a_resume_set_the_progress_deadline_anew() {
    let (mut cluster, _, _, id, _) = rollout(1);
    let due = |cluster: &Harness| {
        let deployment = cluster.tables().deployment(id).expect("it");
        deployment.task_groups["group"].require_progress_by
    };
    let span = Duration::from_secs(600);
    for status in [DeploymentStatus::Paused, DeploymentStatus::Running] {
        cluster.now = cluster.now.saturating_add(Duration::from_secs(500));
        cluster.done(transition(id, None, status));
        let now = cluster.tables().deployment(id).expect("it").modify_time;
        assert_eq!(due(&cluster), Some(now.saturating_add(span)), "{status:?}");
    }
}

#[test]
fn a_plan_with_new_numbers_undoes_no_pause_and_no_promotion() {
    let (mut cluster, node, _, id, alloc) = rollout(1);
    let seen = cluster.tables().deployment(id).expect("it").clone();
    healthy(&mut cluster, node, alloc);
    cluster.done(promote(id, PromoteGroups::All));
    cluster.done(transition(id, None, DeploymentStatus::Paused));
    let mut numbers = Deployment::clone(&seen);
    if let Some(group) = numbers.task_groups.get_mut("group") {
        group.desired_total = 5;
    }
    let plan = PlanApply {
        deployment: Some(Arc::new(numbers)),
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    let now = cluster.tables().deployment(id).expect("it");
    let group = &now.task_groups["group"];
    assert_eq!(now.status, DeploymentStatus::Paused);
    assert_eq!(now.status_description, "Paused");
    assert!(group.promoted);
    assert_eq!((group.desired_total, group.healthy_allocs), (5, 1));
}

fn marks(id: DeploymentId, healthy: Vec<AllocId>, unhealthy: Vec<AllocId>) -> Command {
    Command::DeploymentAllocHealth(Box::new(DeploymentAllocHealth {
        id,
        healthy,
        unhealthy,
        eval: None,
        change: None,
        revert: None,
    }))
}

#[test]
fn health_of_an_alloc_that_is_not_the_deployment_s_marks_none() {
    let (mut cluster, node, key, id, alloc) = rollout(1);
    let other = cluster.alloc_for(&key, node, 11);
    let stranger = other.id;
    let plan = PlanApply {
        placed: vec![Arc::new(other)],
        ..PlanApply::default()
    };
    assert_eq!(cluster.plan(plan).outcome, Outcome::PlanApplied);
    let unknown = AllocId::from_u128(0xabc);
    let outcome = cluster
        .apply(marks(id, vec![alloc, unknown], vec![]))
        .outcome;
    assert_eq!(outcome, Outcome::Refused(Refusal::UnknownAlloc(unknown)));
    let outcome = cluster
        .apply(marks(id, vec![alloc], vec![stranger]))
        .outcome;
    let refused = Refusal::NotOfDeployment {
        alloc: stranger,
        deployment: id,
    };
    assert_eq!(outcome, Outcome::Refused(refused));
    let status = cluster.alloc(alloc).deployment_status.expect("a canary's");
    assert_eq!(status.healthy, None);
    cluster.apply(marks(id, vec![alloc], vec![]));
    let status = cluster.alloc(alloc).deployment_status.expect("a canary's");
    assert!(status.healthy == Some(true) && status.canary);
}

#[test]
fn a_successful_deployment_makes_its_version_stable() {
    let (mut cluster, _, key, id, _) = rollout(0);
    let update = |status| {
        let description = String::new();
        Command::DeploymentStatus(DeploymentStatusUpdate {
            change: DeploymentChange {
                id,
                status,
                description,
                from: None,
            },
            revert: None,
            eval: None,
        })
    };
    cluster.done(update(DeploymentStatus::Successful));
    assert!(cluster.tables().job(&key).expect("the job").stable);
    assert!(
        cluster
            .tables()
            .job_version(&key, 0)
            .expect("the version")
            .stable
    );
    let again = cluster.apply(update(DeploymentStatus::Failed)).outcome;
    assert_eq!(again, Outcome::Refused(Refusal::DeploymentTerminal(id)));
}
