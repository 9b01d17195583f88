//! Commands of level 2, every field set. One function per file of commands.

use super::*;
use controlplane_state::command::{
    ChildJob, JobScale, JobTag, Launch, LaunchCause, PeriodicLaunch, TagChange,
};

pub(super) fn children() -> Vec<(&'static str, Command)> {
    let mut cluster = Harness::new();
    let mut child = job("work/dispatch-nightly-1700000000-0123abcd", JobType::Batch);
    child.parent_id = "work".to_owned();
    child.dispatched = true;
    child.dispatch_idempotency_token = "t".to_owned();
    child.payload = Some("AghoaQ==".to_owned());
    let mut eval = cluster.eval_of(&child);
    eval.id = EvalId::from_u128(0xe1);
    let child = ChildJob {
        job: Arc::new(child),
        spec: protocol_model::SpecHash([5; 32]),
        parent_index: 4,
        eval: Some(eval),
    };
    vec![("job_dispatch", Command::JobDispatch(child))]
}

pub(super) fn periodic() -> Vec<(&'static str, Command)> {
    let mut cluster = Harness::new();
    let mut child = job("backup/periodic-1700000040", JobType::Batch);
    child.parent_id = "backup".to_owned();
    let mut eval = cluster.eval_of(&child);
    eval.id = EvalId::from_u128(0xe1);
    eval.triggered_by = protocol_model::EvalTrigger::PeriodicJob;
    let child = ChildJob {
        job: Arc::new(child),
        spec: protocol_model::SpecHash([5; 32]),
        parent_index: 4,
        eval: Some(eval),
    };
    let launch = |cause| Launch {
        child: child.clone(),
        at: UnixNanos(1_700_000_040_000_000_000),
        cause,
    };
    let launches = vec![launch(LaunchCause::Schedule), launch(LaunchCause::Forced)];
    let command = Command::PeriodicLaunch(PeriodicLaunch { launches });
    vec![("periodic_launch", command)]
}

pub(super) fn drains() -> Vec<(&'static str, Command)> {
    let node = node_id(1);
    let alloc = |number: u128| AllocId::from_u128(0xa0 + number);
    let marks = DrainMarks {
        node,
        drain_index: 40,
        marks: vec![
            (alloc(1), DrainMark::Migrate),
            (alloc(2), DrainMark::End),
            (alloc(3), DrainMark::ForceStop),
        ],
    };
    let set = NodeDrainSet {
        node,
        drain: Some(DrainSpec {
            deadline: 3_600_000_000_000,
            ignore_system_jobs: true,
        }),
        eligibility_after: Eligibility::Ineligible,
        accessor_id: "a".to_owned(),
        meta: Some(BTreeMap::from([(
            "message".to_owned(),
            "new disk".to_owned(),
        )])),
    };
    vec![
        ("node_drain_set", Command::NodeDrainSet(set)),
        (
            "allocs_migrate",
            Command::AllocsMigrate { nodes: vec![marks] },
        ),
        (
            "node_drain_complete",
            Command::NodeDrainComplete {
                node,
                drain_index: 40,
            },
        ),
    ]
}

pub(super) fn pools() -> Vec<(&'static str, Command)> {
    let pool = NodePool {
        name: "batch".to_owned(),
        description: "for the night".to_owned(),
        meta: BTreeMap::from([("owner".to_owned(), "ops".to_owned())]),
        scheduler: Some(PoolScheduler {
            algorithm: Some(SchedulerAlgorithm::Spread),
            memory_oversubscription: Some(true),
        }),
        create_index: 0,
        modify_index: 0,
    };
    let name = "batch".to_owned();
    vec![
        ("node_pool_upsert", Command::NodePoolUpsert { pool }),
        ("node_pool_delete", Command::NodePoolDelete { name }),
    ]
}

pub(super) fn versions() -> Vec<(&'static str, Command)> {
    let web = job("web", JobType::Service);
    let event = protocol_model::ScalingEvent {
        time: UnixNanos(7),
        count: Some(3),
        previous_count: 1,
        message: "more load".to_owned(),
        error: true,
        meta: Some(BTreeMap::from([("a".to_owned(), serde_json::json!([1]))])),
        eval_id: Some("e".to_owned()),
        create_index: 8,
    };
    let scale = JobScale {
        key: web.key(),
        group: "web".to_owned(),
        event,
        register: Some(JobRegister {
            job: Arc::new(web.clone()),
            spec: protocol_model::SpecHash([5; 32]),
            eval: None,
            enforce_index: Some(4),
            submission: None,
        }),
    };
    let apply = TagChange::Apply {
        version: Some(3),
        description: "before the move".to_owned(),
    };
    let tag = |change| {
        Command::JobTag(JobTag {
            key: web.key(),
            name: "golden".to_owned(),
            change,
        })
    };
    vec![
        ("job_scale", Command::JobScale(Box::new(scale))),
        ("job_tag", tag(apply)),
        ("job_tag_unset", tag(TagChange::Unset)),
    ]
}
