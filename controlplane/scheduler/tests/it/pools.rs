//! Settings of a node pool: the algorithm, and memory beyond the reserved.

use controlplane_scheduler::{Decision, memory_warnings};
use controlplane_state::{Command, NodePool, PoolScheduler, SchedulerAlgorithm, SchedulerConfig};
use hack_testkit::{jobs, nodes};
use protocol_model::{Job, JobType, NodeId};

use crate::scene::{Scene, key};

/// Three nodes in the pool `batch` and three in `default`.
fn two_pools() -> Scene {
    let mut scene = Scene::new(3);
    for number in 11..=13 {
        let mut node = nodes::node(number);
        node.node_pool = "batch".to_owned();
        node.computed_class = "batch".to_owned();
        scene.world.add_node(node);
    }
    scene
}

fn set_pool(scene: &mut Scene, scheduler: PoolScheduler) {
    let pool = NodePool {
        name: "batch".to_owned(),
        scheduler: Some(scheduler),
        ..NodePool::default()
    };
    scene.world.expect(Command::NodePoolUpsert { pool });
}

fn set_cluster(scene: &mut Scene, algorithm: SchedulerAlgorithm, memory_oversubscription: bool) {
    let config = SchedulerConfig {
        algorithm,
        memory_oversubscription,
        ..SchedulerConfig::default()
    };
    scene.world.expect(Command::SchedulerConfigSet {
        config,
        enforce_index: None,
    });
}

fn job_in(pool: &str, id: &str, memory_max_mb: i64) -> Job {
    let mut job = jobs::draft(JobType::Service, id, 3);
    job.node_pool = pool.to_owned();
    let resources = job.task_groups[0].tasks[0].resources.as_mut();
    resources.expect("resources").memory_max_mb = Some(memory_max_mb);
    // Siblings keep their distance otherwise, whatever the algorithm.
    job.task_groups[0].count = Some(1);
    job.canonicalize();
    job
}

fn node_of(decision: &Decision) -> NodeId {
    decision.plan.placed[0].node_id
}

/// Places two jobs in a pool, and says whether they share a node.
fn packs(scene: &mut Scene, pool: &str) -> bool {
    let mut place = |id: &str| {
        let eval = scene.world.register(job_in(pool, id, 0));
        node_of(&scene.run(&eval))
    };
    place(&format!("{pool}-first")) == place(&format!("{pool}-second"))
}

#[test]
fn the_algorithm_of_a_pool_replaces_the_cluster_s() {
    let mut scene = two_pools();
    let spread = PoolScheduler {
        algorithm: Some(SchedulerAlgorithm::Spread),
        memory_oversubscription: None,
    };
    set_pool(&mut scene, spread);
    assert!(!packs(&mut scene, "batch"));
    assert!(packs(&mut scene, "default"));

    let mut scene = two_pools();
    set_cluster(&mut scene, SchedulerAlgorithm::Spread, false);
    let binpack = PoolScheduler {
        algorithm: Some(SchedulerAlgorithm::Binpack),
        memory_oversubscription: None,
    };
    set_pool(&mut scene, binpack);
    assert!(packs(&mut scene, "batch"));
    assert!(!packs(&mut scene, "default"));
}

/// The `memory_max` that a job's task is given in a pool, and how many warnings there are.
fn given(scene: &mut Scene, pool: &str, memory_max_mb: i64) -> (i64, usize) {
    let id = format!("{pool}{memory_max_mb}");
    let job = job_in(pool, &id, memory_max_mb);
    let warnings = memory_warnings(&scene.world.snapshot(), &job);
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let task = &decision.plan.placed[0].allocated_resources.tasks["task"];
    assert_eq!(task.memory.memory_mb, 100);
    (task.memory.memory_max_mb, warnings.len())
}

#[test]
fn memory_max_is_given_where_the_cluster_or_the_pool_allows_it() {
    let mut scene = two_pools();
    assert_eq!(given(&mut scene, "default", 300), (0, 1));
    let allowed = |on| PoolScheduler {
        algorithm: None,
        memory_oversubscription: Some(on),
    };
    set_pool(&mut scene, allowed(true));
    assert_eq!(given(&mut scene, "batch", 300), (300, 0));
    assert_eq!(given(&mut scene, "batch", -1), (-1, 0), "no limit");
    assert_eq!(given(&mut scene, "batch", 0), (0, 0));
    set_cluster(&mut scene, SchedulerAlgorithm::Binpack, true);
    set_pool(&mut scene, allowed(false));
    assert_eq!(given(&mut scene, "default", 400), (400, 0));
    assert_eq!(given(&mut scene, "batch", 400), (0, 1));
    let job = job_in("batch", "x", 400);
    let warnings = memory_warnings(&scene.world.snapshot(), &job);
    let words = "Memory oversubscription is not enabled; Task \"group.task\" memory_max value will \
                 be ignored. Update the Scheduler Configuration to allow oversubscription.";
    assert_eq!(warnings, [words]);
}

#[test]
fn placement_counts_the_reserved_memory_and_not_memory_max() {
    let mut scene = Scene::new(1);
    set_cluster(&mut scene, SchedulerAlgorithm::Binpack, true);
    // Each may use all of the node; 39 fit by what they reserve: the node's MHz are the limit.
    let mut job = job_in("default", "web", 8192);
    job.task_groups[0].count = Some(39);
    let eval = scene.world.register(job);
    scene.run(&eval);
    assert_eq!(scene.live_count(&key("web")), 39);
}

#[test]
fn an_update_in_place_keeps_the_limit_that_the_task_runs_under() {
    let mut scene = Scene::new(1);
    set_cluster(&mut scene, SchedulerAlgorithm::Binpack, true);
    let mut job = job_in("default", "web", 300);
    let eval = scene.world.register(job.clone());
    scene.run(&eval);
    set_cluster(&mut scene, SchedulerAlgorithm::Binpack, false);
    job.priority = 60;
    let eval = scene.world.register(job);
    let decision = scene.run(&eval);
    let task = &decision.plan.updated[0].allocated_resources.tasks["task"];
    assert_eq!(task.memory.memory_max_mb, 300);
}
