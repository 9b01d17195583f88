//! Random command sequences: every command is followed by a check of all invariants, a refusal
//! changes nothing, equal logs make equal states, and a restored state goes on like the one it was
//! written from.

mod jobs;
mod nodes;
mod plans;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::codec::{decode, encode};
use controlplane_state::command::{
    AllocChange, Change, DeploymentAllocHealth, DeploymentChange, DeploymentPromote,
    DeploymentStatusUpdate, DrainMark, DrainMarks, EvalsDelete, EvalsPage, GcCollect,
    JobDeregister, NodeBatch, NodeDrainSet, NodeSynced, PlanApply, Preempted, PromoteGroups, Purge,
};
use controlplane_state::{
    AclToken, AclTokenKind, Command, Digest, Outcome, SchedulerConfig, SessionEpoch, State,
    UpdateClass, invariants,
};
use proptest::prelude::*;
use protocol_model::{
    AllocDeploymentStatus, AllocId, AllocatedPort, Allocation, ClientStatus, Deployment,
    DeploymentId, DeploymentState, DeploymentStatus, DesiredTransition, DrainSpec, Eligibility,
    EvalId, EvalStatus, Evaluation, Incarnation, Job, JobKey, JobType, NodeId, NodeStatus, Task,
    UnixNanos,
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
        (0u8..30, any::<u8>(), any::<u8>(), any::<u16>()).prop_map(|(kind, who, which, how)| {
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
    if step.how % 7 == 3 {
        // It may be unknown.
        job.node_pool = "batch".to_owned();
    }
    if step.how % 11 == 4 {
        // It may be forbidden.
        job.task_groups[0].tasks = vec![Task {
            driver: "raw_exec".to_owned(),
            ..Task::default()
        }];
    }
    if step.how % 13 == 5 {
        // It may be unknown.
        job.namespace = "dev".to_owned();
    }
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
        0..=2 => jobs::job_command(cluster, step),
        3..=5 => nodes::session_command(cluster, step),
        6..=9 => nodes::liveness_command(cluster, step),
        10..=14 => plans::plan_command(cluster, step),
        15..=17 => nodes::reports_command(cluster, step),
        18 | 19 => nodes::node_command(cluster, step),
        20 | 21 => jobs::eval_command(cluster, step),
        22 => jobs::deployment_command(cluster, step),
        23 => jobs::collect_command(cluster, step),
        24 => jobs::deletion_command(cluster, step),
        25 => jobs::odd_command(cluster, step),
        26 | 27 => jobs::restore_command(cluster, step),
        28 if step.how.is_multiple_of(3) => {
            let active = cluster.tables().active_root_key();
            let active = active.map_or(1, |key| key.number);
            crate::access::resign(active, &[some_alloc(cluster, step.how)])
        }
        _ => crate::access::some_command(step.which, step.how),
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
            let registered = match &command {
                Command::JobRegister(command) => Some(command.job.clone()),
                _ => None,
            };
            let applied = cluster.apply(command);
            if let (Some(job), Outcome::JobRegistered { .. }) = (registered, &applied.outcome) {
                // The namespace of the entry decides, not that of the proposal.
                let namespace = cluster.tables().namespace(&job.namespace);
                prop_assert!(namespace.is_some_and(|it| it.check(&job).is_ok()));
            }
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
