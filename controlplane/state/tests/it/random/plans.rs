//! What schedulers decide, sense or not.

use super::*;

pub(super) fn plan_command(cluster: &mut Harness, step: Step) -> Command {
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
        alloc.allocated_resources = resources(i64::from(step.how % 600)).into();
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
        Arc::make_mut(&mut alloc.allocated_resources)
            .shared
            .ports
            .push(port);
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
