//! Ordinary jobs.

use std::collections::BTreeMap;

use protocol_model::{Job, JobType, Resources, Task, TaskGroup};

/// A canonical job with one group, `group`, of `count`, with one `raw_exec` task, `task`, that asks
/// for 100 MHz and 100 MiB.
pub fn job(job_type: JobType, name: &str, count: u32) -> Job {
    let mut job = draft(job_type, name, count);
    job.canonicalize();
    job
}

/// The same before defaults are filled in, to be bent first.
pub fn draft(job_type: JobType, name: &str, count: u32) -> Job {
    Job {
        id: name.to_owned(),
        name: name.to_owned(),
        job_type,
        task_groups: vec![group("group", count)],
        ..Job::default()
    }
}

/// A group with one task.
pub fn group(name: &str, count: u32) -> TaskGroup {
    TaskGroup {
        name: name.to_owned(),
        count: Some(count),
        tasks: vec![task("task")],
        ..TaskGroup::default()
    }
}

/// A `raw_exec` task that asks for 100 MHz and 100 MiB.
pub fn task(name: &str) -> Task {
    Task {
        name: name.to_owned(),
        driver: "raw_exec".to_owned(),
        config: BTreeMap::from([("command".to_owned(), "/bin/sleep".into())]),
        resources: Some(Resources {
            cpu: Some(100),
            memory_mb: Some(100),
            ..Resources::default()
        }),
        ..Task::default()
    }
}
