//! What operators and the leader ask: jobs, evaluations, deployments, garbage, restores.

use controlplane_state::Namespace;
use controlplane_state::command::DeletionRule;

use super::*;

pub(super) fn job_command(cluster: &mut Harness, step: Step) -> Command {
    if step.how.is_multiple_of(5) {
        return crate::periodic::some_command(cluster, step.how / 5);
    }
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

pub(super) fn eval_command(cluster: &mut Harness, step: Step) -> Command {
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

pub(super) fn deployment_command(cluster: &mut Harness, step: Step) -> Command {
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
        from: None,
    };
    match step.how % 5 {
        0 | 1 => Command::DeploymentStatus(DeploymentStatusUpdate {
            change,
            revert: None,
            eval: None,
        }),
        2 | 3 => Command::DeploymentPromote(DeploymentPromote {
            id,
            groups: PromoteGroups::All,
            eval: None,
            from: None,
        }),
        _ => {
            let allocs = cluster
                .tables()
                .allocs_by_deployment(id)
                .map(|alloc| alloc.id);
            let (healthy, unhealthy) = allocs.partition(|_| step.how.is_multiple_of(2));
            Command::DeploymentAllocHealth(Box::new(DeploymentAllocHealth {
                id,
                healthy,
                unhealthy,
                eval: None,
                change: None,
                revert: None,
            }))
        }
    }
}

/// Deletes evaluations: one that was picked, or a few neighbours.
pub(super) fn deletion_command(cluster: &Harness, step: Step) -> Command {
    let picked = pick(cluster.tables().evals(), step.how).map(|eval| eval.id);
    let picked = picked.unwrap_or(EvalId::from_u128(0xdead));
    Command::EvalsDelete(match step.how % 3 {
        0 => EvalsDelete::Ids(vec![picked]),
        _ => EvalsDelete::Page(EvalsPage {
            filter: "Status != failed".to_owned(),
            namespace: None,
            after: cluster.tables().eval_slot(picked),
            up_to: cluster.index,
            rows: u32::from(step.how % 5),
        }),
    })
}

pub(super) fn collect_command(cluster: &Harness, step: Step) -> Command {
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

pub(super) fn odd_command(cluster: &Harness, step: Step) -> Command {
    let incarnation = Incarnation::from_u128(u128::from(step.how) + 1);
    match step.how % 14 {
        0 | 1 => Command::ClusterInit { incarnation },
        2 => Command::NamespaceDelete {
            name: "default".to_owned(),
            rule: rule_of(step),
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
                sealed: None,
                policies: Vec::new(),
                roles: Vec::new(),
                global: true,
                expiration: None,
                ttl: None,
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
        7 => Command::NodePoolUpsert {
            pool: crate::pools::batch(),
        },
        8 => Command::NodePoolDelete {
            name: "batch".to_owned(),
        },
        9 => Command::NodePurge {
            node: node_of(step),
        },
        10 | 11 => Command::NamespaceDelete {
            name: "dev".to_owned(),
            rule: rule_of(step),
        },
        _ => Command::NamespaceUpsert {
            namespace: namespace_of(step),
        },
    }
}

fn rule_of(step: Step) -> DeletionRule {
    match step.which.is_multiple_of(4) {
        true => DeletionRule::NoJobs,
        false => DeletionRule::NothingLive,
    }
}

/// One that forbids a driver, or not.
fn namespace_of(step: Step) -> Namespace {
    let name = match step.who.is_multiple_of(2) {
        true => "default",
        false => "dev",
    };
    match step.which.is_multiple_of(2) {
        true => crate::namespaces::without_driver(name, "raw_exec"),
        false => crate::namespaces::without_driver(name, "docker"),
    }
}

/// The next step of a restore of the state as it was when it began; now and then a wrong one.
pub(super) fn restore_command(cluster: &mut Harness, step: Step) -> Command {
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
