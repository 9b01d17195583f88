//! What holds for every cluster and every job.

use std::collections::BTreeSet;
use std::time::Duration;

use controlplane_state::{SchedulerConfig, Snapshot, Usage};
use hack_testkit::{jobs, nodes};
use proptest::prelude::*;
use protocol_model::{ClientStatus, DisconnectStrategy, Job, JobType, UpdateStrategy};

use crate::oracle::set_config;
use crate::scene::{Scene, key};

#[derive(Clone, Debug)]
enum Step {
    Register {
        job: u8,
        count: u32,
        cpu: u64,
        max_parallel: u32,
        silence: Silence,
    },
    Fail {
        pick: usize,
    },
    Start,
    Silence {
        node: u8,
    },
    Return {
        node: u8,
    },
    Wait {
        seconds: u64,
    },
    Collect,
}

/// What a job says about silent nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Silence {
    Lost,
    Replaced,
    WaitedFor,
}

const WINDOW: Duration = Duration::from_secs(60);

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3u8, 0..12u32, 50..3000u64, 0..4u32, silence()).prop_map(
            |(job, count, cpu, max_parallel, silence)| {
                Step::Register {
                    job,
                    count,
                    cpu,
                    max_parallel,
                    silence,
                }
            }
        ),
        (0..10usize).prop_map(|pick| Step::Fail { pick }),
        Just(Step::Start),
        (1..5u8).prop_map(|node| Step::Silence { node }),
        (1..5u8).prop_map(|node| Step::Return { node }),
        (1..90u64).prop_map(|seconds| Step::Wait { seconds }),
        Just(Step::Collect),
    ]
}

fn silence() -> impl Strategy<Value = Silence> {
    prop_oneof![
        Just(Silence::Lost),
        Just(Silence::Replaced),
        Just(Silence::WaitedFor),
    ]
}

fn name(job: u8) -> String {
    format!("job-{job}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// No node is ever given more than it has, no job has more than it wants, and a plan always
    /// holds on the state that it was computed on: the scene commits it unchecked, and the state
    /// refuses what does not fit.
    #[test]
    fn nodes_are_never_overcommitted_and_counts_are_kept(
        steps in prop::collection::vec(step(), 1..25),
        preempts in any::<bool>(),
    ) {
        let mut scene = Scene::new(4);
        let mut config = SchedulerConfig::default();
        config.preemption.service = preempts;
        set_config(&mut scene.world, config);
        for step in steps {
            carry_out(&mut scene, &step);
            for job in 0..3 {
                scene.settle(&key(&name(job)));
            }
            check(&scene)?;
        }
    }
}

fn carry_out(scene: &mut Scene, step: &Step) {
    match step {
        Step::Register {
            job,
            count,
            cpu,
            max_parallel,
            silence,
        } => {
            let priority = 30 + 20 * i32::from(*job);
            let mut job = jobs::draft(JobType::Service, &name(*job), *count);
            job.priority = priority;
            job.task_groups[0].update = Some(UpdateStrategy {
                max_parallel: Some(*max_parallel),
                ..UpdateStrategy::default()
            });
            job.task_groups[0].disconnect =
                (*silence != Silence::Lost).then(|| DisconnectStrategy {
                    lost_after: Some(WINDOW),
                    replace: Some(*silence == Silence::Replaced),
                    ..DisconnectStrategy::default()
                });
            let resources = job.task_groups[0].tasks[0].resources.as_mut();
            resources.expect("the fixture has resources").cpu = Some(*cpu);
            job.canonicalize();
            scene.world.register(job);
        }
        Step::Fail { pick } => {
            let live: Vec<_> = (0..3)
                .flat_map(|job| scene.live(&key(&name(job))))
                .collect();
            if let Some((_, alloc)) = live.get(pick % live.len().max(1))
                && reachable(scene, alloc.node_id)
            {
                scene.world.report(alloc.id, ClientStatus::Failed);
            }
        }
        Step::Start => {
            for job in 0..3 {
                for alloc in scene.live(&key(&name(job))).into_values() {
                    if reachable(scene, alloc.node_id) {
                        scene.world.report(alloc.id, ClientStatus::Running);
                    }
                }
            }
        }
        Step::Silence { node } => {
            let id = nodes::node(*node).id;
            if reachable(scene, id) {
                scene.world.silence(id);
            }
        }
        Step::Return { node } => {
            if !reachable(scene, nodes::node(*node).id) {
                scene.world.add_node(nodes::node(*node));
            }
        }
        Step::Wait { seconds } => scene.world.wait(Duration::from_secs(*seconds)),
        Step::Collect => scene.collect(),
    }
}

fn reachable(scene: &Scene, node: protocol_model::NodeId) -> bool {
    scene
        .world
        .snapshot()
        .node(node)
        .is_some_and(|record| record.node.ready())
}

fn check(scene: &Scene) -> Result<(), TestCaseError> {
    let snapshot = scene.world.snapshot();
    for (_, row) in snapshot.node_columns().rows() {
        let mut used = Usage::default();
        for alloc in snapshot
            .allocs_on_node(row.node)
            .filter(|alloc| !alloc.terminal())
        {
            used.add(&Usage::of(&alloc.allocated_resources));
        }
        prop_assert!(
            used.cpu <= row.capacity.cpu,
            "{} of {}",
            used.cpu,
            row.capacity.cpu
        );
        prop_assert!(used.memory_mb <= row.capacity.memory_mb);
    }
    for job in 0..3 {
        let key = key(&name(job));
        let Some(job) = snapshot.job(&key) else {
            continue;
        };
        check_counts(&snapshot, job)?;
    }
    Ok(())
}

/// Whoever is there is wanted, and each has a number of its own.
fn check_counts(snapshot: &Snapshot, job: &Job) -> Result<(), TestCaseError> {
    let key = job.key();
    let count = job.task_groups[0].count() as usize;
    let live: Vec<_> = snapshot
        .allocs_by_job(&key)
        .filter(|alloc| !alloc.terminal())
        .collect();
    let (silent, present): (Vec<_>, Vec<_>) = live
        .into_iter()
        .partition(|alloc| alloc.client_status == ClientStatus::Unknown);
    prop_assert!(present.len() <= count, "{key}: {}", present.len());
    let mut names: BTreeSet<_> = present.iter().map(|alloc| &alloc.name).collect();
    prop_assert_eq!(names.len(), present.len(), "names repeat");
    // Whoever is waited for, as the version says that it runs, counts, unless somebody has its
    // number.
    let waited_for = silent.iter().filter(|alloc| {
        let group = snapshot.group_of_alloc(alloc);
        group.is_some_and(|group| !group.replaces_on_disconnect())
    });
    if !present.is_empty() {
        names.extend(waited_for.map(|alloc| &alloc.name));
        prop_assert!(names.len() <= count, "{key}: {names:?}");
    }
    Ok(())
}
