//! The jobs of a run: small, and each of a kind that says how its tasks behave.

use std::time::Duration;

use hack_sim::schedule::jobs::{self, KILL_TIMEOUT, Kind, LEASE, WINDOW};
use protocol_model::{
    DisconnectStrategy, Job, JobType, ReschedulePolicy, Resources, Task, TaskGroup, UpdateStrategy,
};

/// How long a task of a batch job takes.
const BATCH_TAKES: &str = "6s";

/// The job at `offset` in its `generation`: another one replaces its tasks.
pub fn job(offset: usize, kind: Kind, count: u32, generation: u32) -> Job {
    let job_type = match kind {
        Kind::Batch => JobType::Batch,
        Kind::System | Kind::SystemWindow => JobType::System,
        _ => JobType::Service,
    };
    let mut group = TaskGroup {
        name: "g".to_owned(),
        // A system job runs once on each node.
        count: (job_type != JobType::System).then_some(count),
        tasks: vec![task(kind, generation)],
        ..TaskGroup::default()
    };
    if job_type != JobType::System {
        group.reschedule_policy = Some(ReschedulePolicy {
            unlimited: Some(true),
            attempts: Some(0),
            delay: Some(Duration::from_secs(5)),
            delay_function: Some("constant".to_owned()),
            ..ReschedulePolicy::default()
        });
    }
    if job_type == JobType::Service {
        group.update = Some(UpdateStrategy {
            max_parallel: Some(0),
            ..UpdateStrategy::default()
        });
    }
    if matches!(kind, Kind::Window | Kind::Patient | Kind::SystemWindow) {
        group.disconnect = Some(DisconnectStrategy {
            lost_after: Some(WINDOW),
            replace: Some(kind != Kind::Patient),
            ..DisconnectStrategy::default()
        });
    }
    if kind == Kind::Leased {
        group.disconnect = Some(DisconnectStrategy {
            stop_on_client_after: Some(LEASE),
            ..DisconnectStrategy::default()
        });
    }
    let mut job = Job {
        id: jobs::name(offset),
        name: jobs::name(offset),
        job_type,
        task_groups: vec![group],
        ..Job::default()
    };
    job.canonicalize();
    job
}

fn task(kind: Kind, generation: u32) -> Task {
    let (driver, config) = match kind {
        Kind::Batch => ("mock_driver", ("run_for", BATCH_TAKES)),
        _ => ("raw_exec", ("command", "/bin/run")),
    };
    Task {
        name: "t".to_owned(),
        driver: driver.to_owned(),
        config: [(config.0.to_owned(), config.1.into())].into(),
        env: [("GENERATION".to_owned(), generation.to_string())].into(),
        kill_timeout: Some(KILL_TIMEOUT),
        resources: Some(Resources {
            cpu: Some(50),
            memory_mb: Some(64),
            ..Resources::default()
        }),
        ..Task::default()
    }
}
