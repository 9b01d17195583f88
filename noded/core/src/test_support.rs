//! Jobs, allocations and times for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocId, Allocation, Job, RestartPolicy, SpecHash, Task, TaskGroup, UnixNanos,
};

use crate::alloc_spec::AllocSpec;
use crate::effect::PrepareTask;
use crate::key::RunKey;
use crate::time::{Moment, Now};

/// The present, so many milliseconds after the beginning of the test.
pub(crate) fn at(millis: u64) -> Now {
    let wall = i64::try_from(millis)
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000);
    Now::new(
        Moment(Duration::from_millis(millis)),
        UnixNanos(1_000_000_000 + wall),
    )
}

/// The preparation of an attempt, with nothing to do.
pub(crate) fn prepare_task(run: RunKey) -> PrepareTask {
    let job = job_with_tasks("web", vec![task(&run.task)]);
    let alloc = alloc_of(&job, run.alloc);
    PrepareTask {
        identities: Vec::new(),
        spec: Arc::new(AllocSpec::new(alloc, Arc::new(job)).expect("the group is the job's")),
        run,
        user: String::new(),
        hooks: Vec::new(),
        environment: BTreeMap::new(),
        templates: Vec::new(),
        artifacts: Vec::new(),
        dispatch_payload_file: None,
    }
}

/// A `raw_exec` task without restarts.
pub(crate) fn task(name: &str) -> Task {
    Task {
        name: name.to_owned(),
        driver: "raw_exec".to_owned(),
        kill_timeout: Some(Duration::from_secs(5)),
        restart_policy: Some(RestartPolicy {
            attempts: Some(0),
            mode: Some("fail".to_owned()),
            ..RestartPolicy::default()
        }),
        ..Task::default()
    }
}

/// A service job with one group, `group`.
pub(crate) fn job_with_tasks(id: &str, tasks: Vec<Task>) -> Job {
    let group = TaskGroup {
        name: "group".to_owned(),
        tasks,
        ..TaskGroup::default()
    };
    Job {
        id: id.to_owned(),
        name: id.to_owned(),
        namespace: "default".to_owned(),
        task_groups: vec![group],
        ..Job::default()
    }
}

/// An allocation of that job's group, wanted at version 1.
pub(crate) fn alloc_of(job: &Job, id: AllocId) -> Allocation {
    let json = serde_json::json!({
        "ID": id, "Namespace": "default", "EvalID": uuid::Uuid::nil(),
        "Name": format!("{}.group[0]", job.id), "NodeID": uuid::Uuid::nil(), "JobID": job.id,
        "TaskGroup": "group", "AllocModifyIndex": 1, "SpecHash": SpecHash([1; 32]),
    });
    serde_json::from_value(json).expect("the fields of an allocation")
}
