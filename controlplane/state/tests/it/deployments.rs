//! Deployments: what the state counts, and what ends them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{
    DeploymentChange, DeploymentStatusUpdate, PlanApply, PromoteGroups,
};
use controlplane_state::{Command, Outcome, Refusal};
use protocol_model::{
    AllocDeploymentStatus, AllocId, ClientStatus, Deployment, DeploymentId, DeploymentState,
    DeploymentStatus, JobKey, JobType, NodeId, UnixNanos,
};
use protocol_wire::report::{JudgedFor, ReportedHealth};

use crate::harness::{Harness, job, says};

fn rollout(canaries: u32) -> (Harness, NodeId, JobKey, DeploymentId, AllocId) {
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

#[test]
fn canaries_are_promoted_once_they_are_healthy() {
    let (mut cluster, node, _, id, alloc) = rollout(1);
    let promote = || Command::DeploymentPromote {
        id,
        groups: PromoteGroups::All,
        eval: None,
    };
    let refused = Outcome::Refused(Refusal::NotPromotable(id));
    assert_eq!(cluster.apply(promote()).outcome, refused);
    healthy(&mut cluster, node, alloc);
    cluster.done(promote());
    assert!(cluster.tables().deployment(id).expect("it").task_groups["group"].promoted);
    let status = cluster.alloc(alloc).deployment_status.expect("its health");
    assert!(!status.canary);
    assert_eq!(cluster.apply(promote()).outcome, refused);
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
