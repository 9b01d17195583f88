//! One command of each kind, every field set.

use controlplane_state::ClientTokens;

use super::*;

fn report() -> AllocReport {
    let mut task = TaskState {
        state: TaskRunState::Dead,
        failed: true,
        restarts: 2,
        last_restart: Some(UnixNanos(40)),
        started_at: Some(UnixNanos(30)),
        finished_at: Some(UnixNanos(50)),
        events: Vec::new(),
    };
    task.push_event(
        TaskEvent::new(TaskEventKind::Terminated, "Exit Code: 1", UnixNanos(50))
            .with_detail("exit_code", 1),
    );
    let mut report = says(AllocId::from_u128(0xa1), 3, ClientStatus::Failed);
    report.client_description = "Failed tasks".to_owned();
    report.task_states = BTreeMap::from([("main".to_owned(), task)]);
    report.health = Some(ReportedHealth {
        healthy: false,
        at: UnixNanos(51),
        judged_for: JudgedFor::Unsaid,
    });
    report.desired_version = 12;
    report
}

fn job_commands() -> Vec<(&'static str, Command)> {
    let mut cluster = Harness::new();
    let web = job("web", JobType::Service);
    let mut eval = cluster.eval_of(&web);
    eval.id = EvalId::from_u128(0xe1);
    let register = JobRegister {
        job: Arc::new(web.clone()),
        spec: protocol_model::SpecHash([5; 32]),
        eval: Some(eval.clone()),
        enforce_index: Some(4),
        submission: None,
    };
    let submission = JobSubmission {
        source: "job \"web\" {}".to_owned(),
        format: "hcl2".to_owned(),
        variable_flags: BTreeMap::from([("count".to_owned(), "3".to_owned())]),
        variables: "region = \"north\"".to_owned(),
    };
    let with_source = JobRegister {
        submission: Some(Arc::new(submission)),
        ..register.clone()
    };
    let deregister = JobDeregister {
        key: web.key(),
        purge: Purge::Forget,
        eval: Some(eval.clone()),
        no_shutdown_delay: true,
    };
    let wish = DesiredTransition {
        migrate: Some(true),
        ..DesiredTransition::default()
    };
    vec![
        ("job_register", Command::JobRegister(register)),
        ("job_register_source", Command::JobRegister(with_source)),
        ("job_deregister", Command::JobDeregister(deregister)),
        (
            "job_stability",
            Command::JobStability {
                key: web.key(),
                version: 3,
                stable: true,
            },
        ),
        (
            "job_evaluate",
            Command::JobEvaluate {
                eval: eval.clone(),
                force_reschedule: true,
            },
        ),
        (
            "evals_upsert",
            Command::EvalsUpsert {
                evals: vec![eval.clone()],
            },
        ),
        (
            "allocs_stop",
            Command::AllocsStop {
                allocs: vec![(AllocId::from_u128(9), wish)],
                evals: vec![eval],
            },
        ),
    ]
}

fn plan() -> PlanApply {
    let mut cluster = Harness::new();
    let node = cluster.join(1);
    let web = job("web", JobType::Service);
    let eval = cluster.register(&web);
    let placed = cluster.alloc_for(&web.key(), node, 100);
    let mut updated = placed.clone();
    updated.id = AllocId::from_u128(0xa2);
    let stop = Change::Stop {
        description: "alloc is lost".to_owned(),
        client_status: Some(ClientStatus::Lost),
        followup_eval: Some(EvalId::from_u128(0xe2)),
    };
    PlanApply {
        eval_id: Some(eval),
        snapshot_index: 7,
        placed: vec![Arc::new(placed)],
        updated: vec![Arc::new(updated)],
        changed: vec![
            AllocChange {
                id: AllocId::from_u128(0xa3),
                change: stop,
            },
            AllocChange {
                id: AllocId::from_u128(0xa4),
                change: Change::Reconnect,
            },
        ],
        preempted: vec![Preempted {
            id: AllocId::from_u128(0xa5),
            by: AllocId::from_u128(0xa1),
        }],
        deployment: None,
        deployment_changes: vec![DeploymentChange {
            id: DeploymentId::from_u128(0xd1),
            status: DeploymentStatus::Cancelled,
            description: "newer".to_owned(),
            from: None,
        }],
        evals: vec![cluster.finished(eval)],
    }
}

/// A plan with placements that are alike, with everything that may be each one's own, and with some
/// that are not.
pub(super) fn plan_of_many(count: u128) -> PlanApply {
    let mut plan = plan();
    let first = Arc::clone(&plan.placed[0]);
    let scores = |number: u128| NodeScoreMeta {
        node_id: NodeId::from_u128(number),
        scores: BTreeMap::from([
            ("binpack".to_owned(), 0.1),
            ("node-affinity".to_owned(), -1.0),
        ]),
        norm_score: 1.0 / 3.0,
    };
    let counted = |of: &str, count| BTreeMap::from([(of.to_owned(), count)]);
    let others = (1..count).map(|number| {
        let mut alloc = Allocation::clone(&first);
        alloc.id = AllocId::from_u128(0xb00 + number);
        alloc.node_id = NodeId::from_u128(0xc00 + number);
        alloc.name = format!("web.front[{number}]");
        alloc.node_name = format!("node-{number}");
        match number % 4 {
            0 => Arc::make_mut(&mut alloc.allocated_resources).shared.disk_mb = 300,
            1 => {
                alloc.metrics = Arc::new(AllocMetric {
                    nodes_evaluated: 1,
                    nodes_filtered: 2,
                    nodes_in_pool: 3,
                    nodes_available: counted("dc1", 4),
                    class_filtered: counted("small", 5),
                    constraint_filtered: counted("${attr.kernel.name} = linux", 6),
                    nodes_exhausted: 7,
                    class_exhausted: counted("large", 8),
                    dimension_exhausted: counted("memory", 9),
                    quota_exhausted: vec!["all".to_owned()],
                    score_meta_data: vec![scores(number), scores(number + 1)],
                    allocation_time: Duration::from_nanos(10),
                    coalesced_failures: 11,
                    ..AllocMetric::default()
                });
            }
            2 => {}
            _ => alloc.desired_description = format!("of its own {number}"),
        }
        Arc::new(alloc)
    });
    plan.placed.extend(others.collect::<Vec<_>>());
    plan
}

fn pending_expired(node: protocol_model::NodeId, epoch: SessionEpoch) -> Command {
    let one = Unaccepted {
        node,
        epoch,
        allocs: vec![AllocId::from_u128(7)],
    };
    Command::PendingExpired { nodes: vec![one] }
}

fn node_commands() -> Vec<(&'static str, Command)> {
    let (node, epoch) = (node_id(1), SessionEpoch(8));
    let synced = NodeSynced {
        node,
        epoch,
        watch_index: 6,
        changed: vec![report()],
        unchanged: vec![AllocId::from_u128(0xa6), AllocId::from_u128(0xa7)],
        facts: Some(Arc::new(facts(1))),
    };
    let batch = NodeBatch {
        node,
        epoch,
        class: UpdateClass::Typical,
        seq: 4,
        reports: vec![report()],
    };
    let nodes = vec![(node, epoch), (node_id(2), SessionEpoch(9))];
    let eligibility = Eligibility::Ineligible;
    vec![
        ("node_hello", Command::NodeHello(Box::new(registration(1)))),
        ("node_synced", Command::NodeSynced(Box::new(synced))),
        ("sync_rejected", Command::SyncRejected { node, epoch }),
        (
            "sync_deadline",
            Command::SyncDeadline {
                nodes: nodes.clone(),
            },
        ),
        (
            "alloc_updates",
            Command::AllocUpdates {
                batches: vec![batch],
            },
        ),
        (
            "heartbeat_missed",
            Command::HeartbeatMissed {
                nodes: nodes.clone(),
            },
        ),
        ("window_expired", Command::WindowExpired { nodes }),
        ("pending_expired", pending_expired(node, epoch)),
        (
            "node_facts",
            Command::NodeFacts {
                node,
                epoch,
                facts: Arc::new(facts(1)),
            },
        ),
        (
            "node_eligibility",
            Command::NodeEligibility { node, eligibility },
        ),
        ("node_purge", Command::NodePurge { node }),
    ]
}

fn settings_commands() -> Vec<(&'static str, Command)> {
    let incarnation = Incarnation::from_u128(0xc1);
    let token = AclToken {
        accessor_id: "a".to_owned(),
        secret_hash: Digest([9; 32]),
        name: "Bootstrap Token".to_owned(),
        kind: AclTokenKind::Management,
        sealed: None,
        policies: Vec::new(),
        roles: Vec::new(),
        global: true,
        expiration: None,
        ttl: None,
        create_time: UnixNanos(1),
        create_index: 0,
        modify_index: 0,
    };
    let namespace = Namespace {
        name: "team".to_owned(),
        description: "a team".to_owned(),
        meta: BTreeMap::new(),
        ..Namespace::default()
    };
    let config = SchedulerConfig {
        algorithm: SchedulerAlgorithm::Spread,
        ..SchedulerConfig::default()
    };
    vec![
        ("barrier", Command::Barrier),
        ("cluster_init", Command::ClusterInit { incarnation }),
        (
            "acl_bootstrap",
            Command::AclBootstrap {
                token,
                reset_index: 3,
            },
        ),
        ("namespace_upsert", Command::NamespaceUpsert { namespace }),
        (
            "namespace_delete",
            Command::NamespaceDelete {
                name: "team".to_owned(),
                rule: DeletionRule::NoJobs,
            },
        ),
        (
            "scheduler_config_set",
            Command::SchedulerConfigSet {
                config,
                enforce_index: Some(1),
            },
        ),
    ]
}

fn restore_commands() -> Vec<(&'static str, Command)> {
    let incarnation = Incarnation::from_u128(0xc2);
    let begin = Command::RestoreBegin {
        incarnation,
        bytes: 10,
        sha256: Digest([4; 32]),
        client_tokens: ClientTokens::Restored,
    };
    let without_tokens = Command::RestoreBegin {
        incarnation,
        bytes: 10,
        sha256: Digest([4; 32]),
        client_tokens: ClientTokens::LeftOut,
    };
    let chunk = Command::RestoreChunk {
        incarnation,
        offset: 7,
        bytes: vec![1, 2, 3].into(),
    };
    vec![
        ("restore_begin", begin),
        ("restore_begin_without_tokens", without_tokens),
        ("restore_chunk", chunk),
        ("restore_commit", Command::RestoreCommit { incarnation }),
        ("restore_drop", Command::RestoreDrop { incarnation }),
    ]
}

fn decision_commands() -> Vec<(&'static str, Command)> {
    let id = DeploymentId::from_u128(0xd1);
    let change = DeploymentChange {
        id,
        status: DeploymentStatus::Failed,
        description: "deadline".to_owned(),
        from: None,
    };
    let collect = GcCollect {
        evals: vec![EvalId::from_u128(1)],
        allocs: vec![AllocId::from_u128(2)],
        jobs: vec![JobKey::new("default", "web")],
        deployments: vec![id],
        nodes: vec![node_id(1)],
    };
    let update = DeploymentStatusUpdate {
        change: change.clone(),
        revert: None,
        eval: None,
    };
    let groups = PromoteGroups::Named(vec!["group".to_owned()]);
    let health = Command::DeploymentAllocHealth(Box::new(DeploymentAllocHealth {
        id,
        healthy: vec![AllocId::from_u128(1)],
        unhealthy: vec![AllocId::from_u128(2)],
        eval: None,
        change: Some(change),
        revert: None,
    }));
    vec![
        // Frozen as a single document, which is no longer written.
        ("plan_apply", Command::PlanApply(Box::new(plan()))),
        ("plan", Command::PlanApply(Box::new(plan_of_many(9)))),
        ("deployment_status", Command::DeploymentStatus(update)),
        (
            "deployment_promote",
            Command::DeploymentPromote(DeploymentPromote {
                id,
                groups,
                eval: None,
                from: None,
            }),
        ),
        ("deployment_alloc_health", health),
        ("gc_collect", Command::GcCollect(collect)),
    ]
}

pub(super) fn commands() -> Vec<(&'static str, Command)> {
    [
        job_commands(),
        node_commands(),
        settings_commands(),
        restore_commands(),
        decision_commands(),
        super::eval_deletes::commands(),
        super::level_2::children(),
        super::level_2::versions(),
        super::level_2::periodic(),
        super::level_2::drains(),
        super::level_2::pools(),
        super::level_3::namespaces(),
        super::level_4::variables(),
        crate::access::commands(),
    ]
    .concat()
}
