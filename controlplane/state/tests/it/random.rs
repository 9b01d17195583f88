//! Random command sequences: every command is followed by a check of all invariants, a refusal
//! changes nothing, equal logs make equal states, and a restored state goes on like the one it was
//! written from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::codec::{decode, encode};
use controlplane_state::command::{
    AllocChange, Change, DeploymentChange, DeploymentStatusUpdate, DrainSwitch, GcCollect,
    JobDeregister, NodeBatch, NodeSynced, PlanApply, Preempted, PromoteGroups, Purge,
};
use controlplane_state::{
    AclToken, AclTokenKind, Command, Digest, SchedulerConfig, SessionEpoch, State, UpdateClass,
    invariants,
};
use proptest::prelude::*;
use protocol_model::{
    AllocDeploymentStatus, AllocId, AllocatedPort, Allocation, ClientStatus, Deployment,
    DeploymentId, DeploymentState, DeploymentStatus, DesiredTransition, Eligibility, EvalId,
    EvalStatus, Evaluation, Incarnation, Job, JobKey, JobType, NodeId, NodeStatus, UnixNanos,
};
use protocol_wire::report::{AllocReport, JudgedFor, ReportedHealth};

use crate::harness::{Harness, facts, job, knock, node_id, registration, resources, tolerant_job};

const JOBS: u8 = 4;
const NODES: u128 = 3;

/// One step: which kind of command, about whom, and how. What that means is read off the state as
/// it is then, so that most steps do something.
#[derive(Clone, Copy, Debug)]
struct Step {
    kind: u8,
    who: u8,
    which: u8,
    how: u16,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (0u8..28, any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(kind, who, which, how)| {
            Step {
                kind,
                who,
                which,
                how,
            }
        });
    prop::collection::vec(step, 1..80)
}

fn job_of(step: Step) -> Job {
    let mut job = match step.who % JOBS {
        0 => job("web", JobType::Service),
        1 => job("batch", JobType::Batch),
        2 => job("agent", JobType::System),
        _ => tolerant_job("tolerant", Duration::from_secs(20)),
    };
    job.priority = 50 + i32::from(step.how % 3);
    job
}

fn node_number(step: Step) -> u128 {
    // Now and then one more than there are: unknown nodes are part of the world.
    if step.which > 250 {
        NODES
    } else {
        u128::from(step.which) % NODES
    }
}

fn node_of(step: Step) -> NodeId {
    node_id(node_number(step))
}

fn pick<T>(items: impl Iterator<Item = T>, number: u16) -> Option<T> {
    let mut items: Vec<T> = items.collect();
    if items.is_empty() {
        return None;
    }
    let offset = usize::from(number) % items.len();
    Some(items.swap_remove(offset))
}

fn some_alloc(cluster: &Harness, number: u16) -> AllocId {
    let ids = cluster.tables().allocs().map(|alloc| alloc.id);
    pick(ids, number).unwrap_or(AllocId::from_u128(0xdead))
}

fn some_deployment(cluster: &Harness, number: u16) -> DeploymentId {
    let ids = cluster
        .tables()
        .deployments()
        .map(|deployment| deployment.id);
    pick(ids, number).unwrap_or(DeploymentId::from_u128(0xdead))
}

fn epoch_of(cluster: &Harness, node: NodeId, how: u16) -> SessionEpoch {
    let epoch = cluster
        .tables()
        .node(node)
        .map_or(SessionEpoch(1), |node| node.session.epoch);
    // Now and then a decision made for another session.
    if how % 16 == 15 {
        SessionEpoch(epoch.0.wrapping_sub(1))
    } else {
        epoch
    }
}

fn client_status(how: u16) -> ClientStatus {
    match how % 6 {
        0 => ClientStatus::Pending,
        1 | 2 => ClientStatus::Running,
        3 => ClientStatus::Complete,
        4 => ClientStatus::Failed,
        _ => ClientStatus::Unknown,
    }
}

fn report_of(cluster: &Harness, id: AllocId, how: u16) -> AllocReport {
    let revision = cluster.tables().alloc_report_mark(id).revision + u64::from(how % 3);
    let mut report = AllocReport::new(id, revision, client_status(how >> 2));
    report.health = match how % 5 {
        0 => Some(ReportedHealth {
            healthy: true,
            at: UnixNanos(1),
            judged_for: JudgedFor::Unsaid,
        }),
        1 => Some(ReportedHealth {
            healthy: false,
            at: UnixNanos(2),
            judged_for: JudgedFor::Unsaid,
        }),
        _ => None,
    };
    report
}

fn command(cluster: &mut Harness, step: Step) -> Command {
    match step.kind {
        0..=2 => job_command(cluster, step),
        3..=5 => session_command(cluster, step),
        6..=9 => liveness_command(cluster, step),
        10..=14 => plan_command(cluster, step),
        15..=17 => reports_command(cluster, step),
        18 | 19 => node_command(cluster, step),
        20 | 21 => eval_command(cluster, step),
        22 => deployment_command(cluster, step),
        23 | 24 => collect_command(cluster, step),
        25 => odd_command(cluster, step),
        _ => restore_command(cluster, step),
    }
}

fn job_command(cluster: &mut Harness, step: Step) -> Command {
    let job = job_of(step);
    let key = job.key();
    if step.kind < 2 {
        let eval = cluster.eval_of(&job);
        return Command::JobRegister(controlplane_state::command::JobRegister {
            spec: job.spec_hash(),
            job: Arc::new(job),
            eval: (!step.how.is_multiple_of(4)).then_some(eval),
            enforce_index: None,
            submission: None,
        });
    }
    let eval = cluster.eval_of(&job);
    Command::JobDeregister(JobDeregister {
        key,
        purge: if step.how.is_multiple_of(2) {
            Purge::Keep
        } else {
            Purge::Forget
        },
        eval: Some(eval),
        no_shutdown_delay: step.how.is_multiple_of(3),
    })
}

fn session_command(cluster: &Harness, step: Step) -> Command {
    let node = node_of(step);
    let number = node_number(step);
    let owes = cluster
        .tables()
        .node(node)
        .is_some_and(|record| record.node.status == NodeStatus::Initializing);
    // A report that is not owed is tried too, but mostly the node knocks first.
    if step.kind == 3 || (!owes && step.how % 8 != 7) {
        return Command::NodeHello(Box::new(if step.how.is_multiple_of(3) {
            let mut hello = registration(number);
            hello.nonce = [(step.how >> 8) as u8; 16];
            hello
        } else {
            knock(
                number,
                (step.how >> 8) as u8,
                epoch_of(cluster, node, step.how),
            )
        }));
    }
    let mut synced = NodeSynced {
        node,
        epoch: epoch_of(cluster, node, step.how),
        watch_index: if step.how.is_multiple_of(4) {
            cluster.index / 2
        } else {
            cluster.index
        },
        changed: Vec::new(),
        unchanged: Vec::new(),
        facts: None,
    };
    for (number, alloc) in (0u16..).zip(cluster.tables().allocs_on_node(node)) {
        match (step.how >> (number % 16)) % 4 {
            0 => synced
                .changed
                .push(report_of(cluster, alloc.id, step.how ^ number)),
            1 => {}
            _ => synced.unchanged.push(alloc.id),
        }
    }
    if step.how % 8 == 1 {
        synced
            .changed
            .push(report_of(cluster, some_alloc(cluster, step.how), step.how));
    }
    Command::NodeSynced(Box::new(synced))
}

fn liveness_command(cluster: &mut Harness, step: Step) -> Command {
    let node = node_of(step);
    let epoch = epoch_of(cluster, node, step.how);
    let all = |cluster: &Harness| {
        (0..=NODES)
            .map(node_id)
            .map(|node| (node, epoch_of(cluster, node, 0)))
            .collect()
    };
    match (step.kind, step.how % 8) {
        (6, 0) => Command::HeartbeatMissed {
            nodes: all(cluster),
        },
        (6, _) => Command::HeartbeatMissed {
            nodes: vec![(node, epoch)],
        },
        (7, _) => {
            cluster.pass(Duration::from_secs(u64::from(step.how % 40)));
            Command::WindowExpired {
                nodes: vec![(node, epoch)],
            }
        }
        (8, 0..4) => Command::SyncRejected { node, epoch },
        (8, _) => Command::SyncDeadline {
            nodes: vec![(node, epoch)],
        },
        (_, _) => {
            let mut facts = facts(node_number(step));
            // Facts may shrink below what is placed: that is the host's doing.
            facts.node_resources.cpu.cpu_shares = i64::from(step.how % 1500);
            facts.computed_class = format!("v1:{}", step.how % 3);
            Command::NodeFacts {
                node,
                epoch,
                facts: Arc::new(facts),
            }
        }
    }
}

fn plan_command(cluster: &mut Harness, step: Step) -> Command {
    let mut plan = PlanApply::default();
    let key = job_of(step).key();
    let node = node_of(step);
    if cluster.tables().job(&key).is_some() {
        for number in 0..step.how % 3 {
            let alloc = placement(cluster, &key, node, step, number);
            plan.placed.push(Arc::new(alloc));
        }
        let active = cluster
            .tables()
            .deployments_by_job(&key)
            .any(|deployment| deployment.status.is_active());
        if !active && step.how.is_multiple_of(2) {
            plan.deployment = Some(Arc::new(deployment(cluster, &key)));
        }
    }
    if step.kind == 11
        && let Some(alloc) = pick(cluster.tables().allocs_by_job(&key), step.how).cloned()
    {
        let mut alloc = Allocation::clone(&alloc);
        alloc.allocated_resources = resources(i64::from(step.how % 600));
        plan.updated.push(Arc::new(alloc));
    }
    if step.kind >= 12 && (cluster.tables().allocs().count() > 0 || step.how.is_multiple_of(16)) {
        let id = some_alloc(cluster, step.how);
        plan.changed.push(AllocChange {
            id,
            change: change(step.how),
        });
    }
    if step.kind == 14 && step.how.is_multiple_of(4) {
        let by = plan
            .placed
            .first()
            .map_or(AllocId::from_u128(1), |alloc| alloc.id);
        plan.preempted.push(Preempted {
            id: some_alloc(cluster, step.how / 2),
            by,
        });
    }
    let open = |eval: &&Arc<Evaluation>| !eval.status.is_terminal();
    if let Some(eval) = pick(cluster.tables().evals_by_job(&key).filter(open), step.how).cloned() {
        let mut eval = Evaluation::clone(&eval);
        eval.status = EvalStatus::Complete;
        eval.queued_allocations
            .insert("group".to_owned(), i64::from(step.how % 3));
        plan.eval_id = Some(eval.id);
        plan.evals.push(eval);
    }
    Command::PlanApply(Box::new(plan))
}

fn placement(
    cluster: &mut Harness,
    key: &JobKey,
    node: NodeId,
    step: Step,
    number: u16,
) -> Allocation {
    let mut alloc = cluster.alloc_for(key, node, i64::from(step.how % 500));
    if step.how.is_multiple_of(4) {
        let port = AllocatedPort {
            value: 8000 + step.how % 3,
            ..AllocatedPort::default()
        };
        alloc.allocated_resources.shared.ports.push(port);
    }
    if step.how.is_multiple_of(5) {
        let previous = some_alloc(cluster, step.how + number);
        alloc.previous_allocation = cluster.tables().alloc(previous).map(|alloc| alloc.id);
    }
    let deployment = cluster
        .tables()
        .latest_deployment(key)
        .map(|deployment| deployment.id);
    if !step.how.is_multiple_of(3) && deployment.is_some() {
        alloc.deployment_id = deployment;
        let canary = step.how.is_multiple_of(2);
        alloc.deployment_status = Some(AllocDeploymentStatus {
            canary,
            ..AllocDeploymentStatus::default()
        });
    }
    alloc
}

fn change(how: u16) -> Change {
    let description = String::new();
    match how % 6 {
        0 | 1 => Change::Stop {
            description,
            client_status: None,
            followup_eval: None,
        },
        2 => {
            let client_status = Some(ClientStatus::Lost);
            Change::Stop {
                description,
                client_status,
                followup_eval: None,
            }
        }
        3 => Change::Disconnect {
            description,
            followup_eval: None,
        },
        4 => Change::Reconnect,
        _ => Change::FollowUp {
            eval: EvalId::from_u128(5),
        },
    }
}

fn deployment(cluster: &mut Harness, key: &JobKey) -> Deployment {
    let id = DeploymentId::from_u128(cluster.draw());
    let job = cluster.tables().job(key).expect("the job");
    let group = DeploymentState {
        desired_total: 2,
        desired_canaries: 1,
        progress_deadline: Duration::from_secs(60),
        ..DeploymentState::default()
    };
    Deployment {
        id,
        namespace: key.namespace.clone(),
        job_id: key.id.clone(),
        job_version: job.version,
        job_modify_index: job.modify_index,
        job_spec_modify_index: job.job_modify_index,
        job_create_index: job.create_index,
        is_multiregion: false,
        task_groups: BTreeMap::from([("group".to_owned(), group)]),
        status: DeploymentStatus::Running,
        status_description: String::new(),
        eval_priority: job.priority,
        create_index: 0,
        modify_index: 0,
        create_time: UnixNanos::ZERO,
        modify_time: UnixNanos::ZERO,
    }
}

fn reports_command(cluster: &Harness, step: Step) -> Command {
    let node = node_of(step);
    let class = if step.kind == 15 {
        UpdateClass::Typical
    } else {
        UpdateClass::Urgent
    };
    let session = cluster
        .tables()
        .node(node)
        .map(|node| node.session)
        .unwrap_or_default();
    let applied = match class {
        UpdateClass::Urgent => session.applied_urgent_seq,
        UpdateClass::Typical => session.applied_typical_seq,
    };
    let on_node = cluster.tables().allocs_on_node(node);
    let mut reports: Vec<AllocReport> = (0u16..)
        .zip(on_node)
        .filter(|(number, _)| (step.how >> (number % 16)).is_multiple_of(2))
        .map(|(number, alloc)| report_of(cluster, alloc.id, step.how.wrapping_add(number)))
        .collect();
    if step.how.is_multiple_of(7) {
        reports.push(report_of(cluster, some_alloc(cluster, step.how), step.how));
    }
    let batch = NodeBatch {
        node,
        epoch: epoch_of(cluster, node, step.how),
        class,
        seq: applied + u64::from(step.how % 3),
        reports,
    };
    Command::AllocUpdates {
        batches: vec![batch.clone(), batch],
    }
}

fn node_command(cluster: &Harness, step: Step) -> Command {
    let node = node_of(step);
    let eligibility = if step.how.is_multiple_of(2) {
        Eligibility::Eligible
    } else {
        Eligibility::Ineligible
    };
    match step.how % 7 {
        0..=2 => Command::NodeEligibility { node, eligibility },
        3 => Command::NodeDrain {
            node,
            drain: DrainSwitch::Begin,
            eligibility_after: Eligibility::Ineligible,
        },
        4 => Command::NodeDrain {
            node,
            drain: DrainSwitch::End,
            eligibility_after: eligibility,
        },
        5 if step.how.is_multiple_of(3) => Command::NodePurge { node },
        _ => {
            let wish = DesiredTransition {
                migrate: Some(true),
                ..DesiredTransition::default()
            };
            let allocs = vec![(some_alloc(cluster, step.how), wish)];
            Command::AllocsStop {
                allocs,
                evals: Vec::new(),
            }
        }
    }
}

fn eval_command(cluster: &mut Harness, step: Step) -> Command {
    let existing = pick(cluster.tables().evals(), step.how).cloned();
    let mut eval = match existing {
        Some(eval) if step.kind == 20 => Evaluation::clone(&eval),
        Some(_) | None => cluster.eval_of(&job_of(step)),
    };
    eval.status = match step.how % 5 {
        0 => EvalStatus::Pending,
        1 => EvalStatus::Blocked,
        2 => EvalStatus::Complete,
        3 => EvalStatus::Failed,
        _ => EvalStatus::Cancelled,
    };
    if step.how.is_multiple_of(9) {
        return Command::JobEvaluate {
            eval,
            force_reschedule: step.how.is_multiple_of(2),
        };
    }
    Command::EvalsUpsert { evals: vec![eval] }
}

fn deployment_command(cluster: &mut Harness, step: Step) -> Command {
    let id = some_deployment(cluster, step.how);
    let status = match step.how % 3 {
        0 => DeploymentStatus::Successful,
        1 => DeploymentStatus::Failed,
        _ => DeploymentStatus::Paused,
    };
    let change = DeploymentChange {
        id,
        status,
        description: String::new(),
    };
    match step.how % 5 {
        0 | 1 => Command::DeploymentStatus(DeploymentStatusUpdate {
            change,
            revert: None,
            eval: None,
        }),
        2 | 3 => Command::DeploymentPromote {
            id,
            groups: PromoteGroups::All,
            eval: None,
        },
        _ => {
            let allocs = cluster
                .tables()
                .allocs_by_deployment(id)
                .map(|alloc| alloc.id);
            let (healthy, unhealthy) = allocs.partition(|_| step.how.is_multiple_of(2));
            Command::DeploymentAllocHealth {
                id,
                healthy,
                unhealthy,
                eval: None,
                change: None,
            }
        }
    }
}

fn collect_command(cluster: &Harness, step: Step) -> Command {
    let tables = cluster.tables();
    let jobs = tables.jobs().map(|(key, _)| key.clone()).collect();
    let mut names = GcCollect {
        evals: tables.evals().map(|eval| eval.id).collect(),
        allocs: tables.allocs().map(|alloc| alloc.id).collect(),
        deployments: tables
            .deployments()
            .map(|deployment| deployment.id)
            .collect(),
        ..GcCollect::default()
    };
    if step.how.is_multiple_of(2) {
        names.jobs = jobs;
    }
    if step.how.is_multiple_of(3) {
        names.nodes = tables.nodes().map(|record| record.node.id).collect();
    }
    Command::GcCollect(names)
}

fn odd_command(cluster: &Harness, step: Step) -> Command {
    let incarnation = Incarnation::from_u128(u128::from(step.how) + 1);
    match step.how % 8 {
        0 | 1 => Command::ClusterInit { incarnation },
        2 => Command::NamespaceDelete {
            name: "default".to_owned(),
        },
        3 => Command::SchedulerConfigSet {
            config: SchedulerConfig::default(),
            enforce_index: (step.how % 16 == 3).then_some(99),
        },
        4 => Command::AclBootstrap {
            token: AclToken {
                accessor_id: step.who.to_string(),
                secret_hash: Digest([step.which; 32]),
                name: String::new(),
                kind: AclTokenKind::Management,
                create_time: UnixNanos::ZERO,
                create_index: 0,
                modify_index: 0,
            },
            reset_index: 0,
        },
        5 => {
            let key = job_of(step).key();
            let version = cluster.tables().job(&key).map_or(0, |job| job.version);
            Command::JobStability {
                key,
                version,
                stable: step.who.is_multiple_of(2),
            }
        }
        6 => Command::Barrier,
        _ => Command::NodePurge {
            node: node_of(step),
        },
    }
}

/// The next step of a restore of the state as it was when it began; now and then a wrong one.
fn restore_command(cluster: &mut Harness, step: Step) -> Command {
    let pending = cluster.tables().pending_restore().cloned();
    let Some(pending) = pending else {
        let incarnation = Incarnation::from_u128(cluster.draw());
        return cluster.begin_of_restore(incarnation);
    };
    let incarnation = pending.incarnation;
    if step.how.is_multiple_of(32) {
        return Command::RestoreDrop { incarnation };
    }
    if step.how.is_multiple_of(31) {
        return cluster.begin_of_restore(Incarnation::from_u128(1));
    }
    if pending.received == pending.bytes {
        return Command::RestoreCommit { incarnation };
    }
    let offset = usize::try_from(pending.received).expect("small");
    let saved = &cluster.saved;
    let end = saved.len().min(offset + saved.len() / 2 + 1);
    Command::RestoreChunk {
        incarnation,
        offset: pending.received,
        bytes: saved[offset..end].to_vec().into(),
    }
}

/// The state that a checkpoint of `state` is read back as.
fn through_a_checkpoint(state: &State) -> State {
    let mut bytes = Vec::new();
    state
        .snapshot()
        .write_checkpoint(&mut bytes)
        .expect("a checkpoint");
    State::restore(bytes.as_slice()).expect("a state")
}

proptest! {
    // A third of the default number: each case is dozens of commands. `PROPTEST_CASES` scales it.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 3,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_asked_the_invariants_hold(steps in steps()) {
        let mut cluster = Harness::new();
        for number in 0..NODES {
            cluster.join(number);
        }
        for who in 0..JOBS {
            cluster.register(&job_of(Step { kind: 0, who, which: 0, how: 0 }));
        }
        let half = steps.len() / 2;
        let mut restored = None;
        for (number, step) in steps.into_iter().enumerate() {
            if number == half {
                restored = Some(through_a_checkpoint(&cluster.state));
            }
            let command = command(&mut cluster, step);
            let applied = cluster.apply(command);
            if let (Some(restored), Some((index, stamped))) = (&mut restored, cluster.log.last()) {
                prop_assert_eq!(restored.apply(*index, stamped.clone()), applied);
            }
        }
        if let Some(restored) = restored {
            prop_assert_eq!(invariants::difference(cluster.tables(), restored.tables()), None);
        }
        // The log as it is on disk makes the same state again.
        let mut replica = State::new();
        for (index, stamped) in &cluster.log {
            let bytes = encode(stamped).expect("bytes");
            replica.apply(*index, decode(&bytes).expect("the command"));
        }
        prop_assert_eq!(invariants::difference(cluster.tables(), replica.tables()), None);
    }
}
