//! The jobs of a run: small, and each of a kind that says how its tasks behave.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol_model::{
    DisconnectStrategy, Job, JobType, MigrateStrategy, ParameterizedJobConfig, PeriodicConfig,
    ReconcileStrategy, ReschedulePolicy, Resources, RestartPolicy, Task, TaskGroup, UpdateStrategy,
};

use super::Scenario;
use crate::rng::Rng;
use crate::time::{MILLI, Nanos, SECOND};

/// What a job is, and how its tasks behave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Runs until it is stopped.
    Service,
    /// As a service, and tolerated for a while on a silent node; replaced meanwhile.
    Window,
    /// As a service, tolerated on a silent node and not replaced meanwhile.
    Patient,
    /// As a service, and stopped by the node itself when it hears nothing.
    Leased,
    /// As a service, and its tasks fail now and then.
    Frail,
    /// As a service whose versions are rolled out, a few allocations at a time, and rolled back
    /// where they fail.
    Rolling,
    /// As a service whose versions are rolled out and stay where they fail, tolerated for a while
    /// on a silent node.
    RollingWindow,
    /// As a service whose versions are tried by canaries, which are promoted once all are healthy.
    Canary,
    /// The same, promoted by an operator; the generation that is wanted in the end by itself.
    CanaryByHand,
    /// Ends by itself after a while.
    Batch,
    /// A batch job that is launched every few seconds; the kind of its launches, too.
    Periodic,
    /// The same, and no launch beside another one.
    PeriodicAlone,
    /// A batch job that is launched by dispatches; the kind of its launches, too.
    Parameterized,
    /// As a service that leaves draining nodes in turns, each after the health of the one before.
    Movable,
    /// As a service of low priority, with a quarter of a node's memory.
    Filler,
    /// The same, of a priority that is higher, and too near to evict a filler.
    Neighbour,
    /// As a service whose priority evicts both, with more than a third of a node's memory.
    Urgent,
    /// Once on every node.
    System,
    /// Once on every node, and tolerated for a while on a silent one.
    SystemWindow,
}

/// How long a silent node's allocations are tolerated.
pub const WINDOW: Duration = Duration::from_secs(15);
/// How long a node runs a leased group without being heard.
pub const LEASE: Duration = Duration::from_secs(6);
/// How long a task may take to end once it is asked to.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// How many allocations a rollout replaces at once.
pub(crate) const MAX_PARALLEL: u32 = 2;
/// How many canaries try a new version.
pub(crate) const CANARIES: u32 = 2;
/// How long an allocation of a rollout has to run before it counts as healthy.
const MIN_HEALTHY_TIME: Duration = Duration::from_secs(2);
/// When one that is not healthy yet counts as unhealthy.
const HEALTHY_DEADLINE: Duration = Duration::from_secs(10);
/// When a rollout fails that makes no progress.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(20);
/// The generation of a rolled out job whose tasks fail as soon as they run.
const BROKEN_GENERATION: u32 = 3;
/// The generation of a rolled out job that is wanted in the end: none before is the same, so that
/// it is rolled out when everything is healed.
const LAST_GENERATION: u32 = 4;
/// The variable that tells a task its generation.
const GENERATION: &str = "GENERATION";

/// How many allocations of a movable job leave draining nodes at once.
pub(crate) const MOVES_AT_ONCE: u32 = 1;

/// From one launch of a periodic job to the next.
pub(crate) const PERIOD_S: u64 = 6;

/// Nodes beyond which the services of a run would fill some of them.
const LARGE: u32 = 60;

pub(super) fn of(scenario: Scenario, rng: &mut Rng) -> Vec<Kind> {
    match scenario {
        Scenario::Partition | Scenario::Shutdown => {
            vec![Kind::Service, Kind::Service, Kind::System]
        }
        Scenario::PartitionWindow | Scenario::ShutdownWindow => {
            vec![Kind::Window, Kind::Patient, Kind::SystemWindow]
        }
        Scenario::SessionStorm | Scenario::Locks => vec![Kind::Service],
        Scenario::Offline => vec![Kind::Service, Kind::System, Kind::Window],
        Scenario::Leased => vec![Kind::Leased, Kind::Service],
        Scenario::Operators => vec![
            Kind::Leased,
            Kind::Patient,
            Kind::Window,
            Kind::SystemWindow,
        ],
        Scenario::Periodic => vec![Kind::Periodic, Kind::PeriodicAlone, Kind::Service],
        Scenario::Canary => vec![Kind::Canary, Kind::CanaryByHand],
        Scenario::Drain => vec![Kind::Movable, Kind::System, Kind::Batch],
        Scenario::Dispatch => vec![Kind::Parameterized, Kind::Service],
        Scenario::Preempt => vec![Kind::Filler, Kind::Neighbour, Kind::Urgent],
        Scenario::Keys => vec![Kind::Window, Kind::Service, Kind::Batch],
        Scenario::Rolling => vec![Kind::Rolling, Kind::RollingWindow, Kind::Service],
        _ => {
            let mut kinds = vec![Kind::Service];
            let others = [
                Kind::Window,
                Kind::Patient,
                Kind::Frail,
                Kind::Batch,
                Kind::System,
                Kind::SystemWindow,
            ];
            kinds.extend(others.into_iter().filter(|_| rng.chance(500)));
            // Where leases go on although something is wrong.
            let goes_on = matches!(
                scenario,
                Scenario::Calm | Scenario::Lossy | Scenario::OneServer | Scenario::Stuck
            );
            if goes_on && rng.chance(500) {
                kinds.push(Kind::Leased);
            }
            kinds
        }
    }
}

/// How many allocations a job of this kind wants at first.
pub fn count(kind: Kind, nodes: u32) -> u32 {
    match kind {
        Kind::System
        | Kind::SystemWindow
        | Kind::Periodic
        | Kind::PeriodicAlone
        | Kind::Parameterized => 1,
        Kind::Batch | Kind::Leased => nodes / 2 + 1,
        // All three of them have room at once, however they lie.
        Kind::Filler => nodes,
        Kind::Neighbour | Kind::Urgent => nodes / 2,
        Kind::Service
        | Kind::Movable
        | Kind::Window
        | Kind::Patient
        | Kind::Frail
        | Kind::Rolling
        | Kind::RollingWindow
        | Kind::Canary
        | Kind::CanaryByHand => nodes / 2 + 2,
    }
}

/// The generation that is wanted when everything is healed.
pub fn last_generation(kind: Kind) -> u32 {
    if is_rolled_out(kind) {
        LAST_GENERATION
    } else {
        0
    }
}

/// Whether the tasks of this version of a job fail as soon as they run.
pub fn is_broken(kind: Kind, job: &Job) -> bool {
    let tasks = job.task_groups.iter().flat_map(|group| &group.tasks);
    let mut generations = tasks.filter_map(|task| task.env.get(GENERATION));
    is_rolled_out(kind) && generations.any(|it| *it == BROKEN_GENERATION.to_string())
}

/// Whether versions of it are rolled out a few allocations at a time.
pub fn is_rolled_out(kind: Kind) -> bool {
    matches!(kind, Kind::Rolling | Kind::RollingWindow) || has_canaries(kind)
}

/// Whether new versions of it are tried by canaries.
pub fn has_canaries(kind: Kind) -> bool {
    matches!(kind, Kind::Canary | Kind::CanaryByHand)
}

/// Whether it is launched by the clock.
pub fn is_periodic(kind: Kind) -> bool {
    matches!(kind, Kind::Periodic | Kind::PeriodicAlone)
}

/// Whether it runs nothing itself.
pub fn is_template(kind: Kind) -> bool {
    is_periodic(kind) || kind == Kind::Parameterized
}

/// The payload of dispatches with this token: a repeated one brings the same.
pub fn payload(token: u32) -> String {
    format!("payload of {token}")
}

/// The idempotency token of a dispatch.
pub fn token(token: u32) -> String {
    format!("token-{token}")
}

/// The name of the job at `offset` of a run.
pub fn name(offset: usize) -> String {
    format!("job-{offset}")
}

/// The job at `offset` in its `generation`, which changes its tasks: an update of another
/// generation replaces them.
pub fn job(offset: usize, kind: Kind, count: u32, generation: u32) -> Job {
    let job_type = match kind {
        Kind::Batch | Kind::Periodic | Kind::PeriodicAlone | Kind::Parameterized => JobType::Batch,
        Kind::System | Kind::SystemWindow => JobType::System,
        _ => JobType::Service,
    };
    let mut group = TaskGroup {
        name: "g".to_owned(),
        count: Some(count),
        tasks: vec![task(kind, generation)],
        restart_policy: Some(RestartPolicy {
            attempts: Some(2),
            interval: Some(Duration::from_secs(60)),
            delay: Some(Duration::from_secs(1)),
            ..RestartPolicy::default()
        }),
        ..TaskGroup::default()
    };
    if matches!(job_type, JobType::Service | JobType::Batch) {
        group.reschedule_policy = Some(ReschedulePolicy {
            unlimited: Some(true),
            delay: Some(Duration::from_secs(5)),
            delay_function: Some("constant".to_owned()),
            ..ReschedulePolicy::default()
        });
    }
    if job_type == JobType::Service {
        group.update = Some(update(kind, generation));
    }
    if kind == Kind::Movable {
        group.migrate = Some(MigrateStrategy {
            max_parallel: Some(MOVES_AT_ONCE),
            health_check: Some("task_states".to_owned()),
            min_healthy_time: Some(MIN_HEALTHY_TIME),
            healthy_deadline: Some(HEALTHY_DEADLINE),
        });
    }
    group.disconnect = disconnect(offset, kind, generation);
    let periodic = is_periodic(kind).then(|| PeriodicConfig {
        spec: format!("*/{PERIOD_S} * * * * * *"),
        prohibit_overlap: kind == Kind::PeriodicAlone,
        ..PeriodicConfig::default()
    });
    let parameterized_job = (kind == Kind::Parameterized).then(ParameterizedJobConfig::default);
    let mut job = Job {
        periodic,
        parameterized_job,
        id: name(offset),
        name: name(offset),
        job_type,
        priority: priority(kind),
        task_groups: vec![group],
        ..Job::default()
    };
    job.canonicalize();
    job
}

/// Jobs that may evict others are beside jobs that they may evict and jobs that they may not.
fn priority(kind: Kind) -> i32 {
    match kind {
        Kind::Filler => 20,
        Kind::Neighbour => 25,
        Kind::Urgent => 60,
        _ => 50,
    }
}

fn memory_mb(kind: Kind) -> u64 {
    match kind {
        Kind::Filler | Kind::Neighbour => 2000,
        Kind::Urgent => 3000,
        _ => 64,
    }
}

fn disconnect(offset: usize, kind: Kind, generation: u32) -> Option<DisconnectStrategy> {
    match kind {
        Kind::Window | Kind::Patient | Kind::RollingWindow | Kind::SystemWindow => {
            Some(DisconnectStrategy {
                lost_after: Some(WINDOW),
                replace: Some(kind != Kind::Patient),
                reconcile: Some(reconcile(offset, generation).to_string()),
                ..DisconnectStrategy::default()
            })
        }
        Kind::Leased => Some(DisconnectStrategy {
            stop_on_client_after: Some(LEASE),
            ..DisconnectStrategy::default()
        }),
        _ => None,
    }
}

/// All at once, unless rollouts are what the job is for.
fn update(kind: Kind, generation: u32) -> UpdateStrategy {
    if !is_rolled_out(kind) {
        return UpdateStrategy {
            max_parallel: Some(0),
            ..UpdateStrategy::default()
        };
    }
    UpdateStrategy {
        max_parallel: Some(MAX_PARALLEL),
        min_healthy_time: Some(MIN_HEALTHY_TIME),
        healthy_deadline: Some(HEALTHY_DEADLINE),
        progress_deadline: Some(PROGRESS_DEADLINE),
        auto_revert: Some(matches!(kind, Kind::Rolling | Kind::Canary)),
        canary: Some(if has_canaries(kind) { CANARIES } else { 0 }),
        auto_promote: Some(promotes_itself(kind, generation)),
        ..UpdateStrategy::default()
    }
}

/// No operator promotes anything when everything is healed.
fn promotes_itself(kind: Kind, generation: u32) -> bool {
    kind == Kind::Canary || (kind == Kind::CanaryByHand && generation == LAST_GENERATION)
}

/// Which of a pair stays: each strategy has its turn.
fn reconcile(offset: usize, generation: u32) -> ReconcileStrategy {
    match (offset + generation as usize) % 4 {
        0 => ReconcileStrategy::BestScore,
        1 => ReconcileStrategy::KeepOriginal,
        2 => ReconcileStrategy::KeepReplacement,
        _ => ReconcileStrategy::LongestRunning,
    }
}

/// In a large cluster services take a third of a node each: where they filled a few nodes, there
/// would be no room for what runs on every one.
pub fn fit_to_size(job: &mut Job, nodes: u32) {
    if nodes <= LARGE || job.job_type == JobType::System {
        return;
    }
    let tasks = job
        .task_groups
        .iter_mut()
        .flat_map(|group| &mut group.tasks);
    for task in tasks {
        let resources = task.resources.get_or_insert_default();
        resources.cpu = Some(1200);
    }
}

fn task(kind: Kind, generation: u32) -> Task {
    Task {
        name: "t".to_owned(),
        driver: "raw_exec".to_owned(),
        config: BTreeMap::from([("command".to_owned(), "/bin/run".into())]),
        env: BTreeMap::from([(GENERATION.to_owned(), generation.to_string())]),
        kill_timeout: Some(KILL_TIMEOUT),
        resources: Some(Resources {
            cpu: Some(50),
            memory_mb: Some(memory_mb(kind)),
            ..Resources::default()
        }),
        ..Task::default()
    }
}

/// After how long a task ends by itself; `None` = never.
pub fn end_of_task(kind: Kind, broken: bool, rng: &mut Rng) -> Option<Nanos> {
    if broken {
        return Some(rng.between(50 * MILLI, SECOND));
    }
    match kind {
        Kind::Batch | Kind::Parameterized => Some(rng.between(SECOND, 25 * SECOND)),
        // Some last for longer than it takes until the next launch.
        Kind::Periodic | Kind::PeriodicAlone => Some(rng.between(SECOND, 9 * SECOND)),
        Kind::Frail => Some(rng.between(500 * MILLI, 40 * SECOND)),
        Kind::Service
        | Kind::Window
        | Kind::Patient
        | Kind::Leased
        | Kind::Rolling
        | Kind::RollingWindow
        | Kind::Canary
        | Kind::CanaryByHand
        | Kind::Movable
        | Kind::Filler
        | Kind::Neighbour
        | Kind::Urgent
        | Kind::System
        | Kind::SystemWindow => None,
    }
}
