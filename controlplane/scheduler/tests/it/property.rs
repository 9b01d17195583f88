//! What holds for every cluster and every job.

use controlplane_state::Usage;
use hack_testkit::{jobs, nodes};
use proptest::prelude::*;
use protocol_model::{ClientStatus, JobType, UpdateStrategy};

use crate::scene::{Scene, key};

#[derive(Clone, Debug)]
enum Step {
    Register {
        job: u8,
        count: u32,
        cpu: u64,
        max_parallel: u32,
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
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3u8, 0..12u32, 50..3000u64, 0..4u32).prop_map(|(job, count, cpu, max_parallel)| {
            Step::Register {
                job,
                count,
                cpu,
                max_parallel,
            }
        }),
        (0..10usize).prop_map(|pick| Step::Fail { pick }),
        Just(Step::Start),
        (1..5u8).prop_map(|node| Step::Silence { node }),
        (1..5u8).prop_map(|node| Step::Return { node }),
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
        steps in prop::collection::vec(step(), 1..25)
    ) {
        let mut scene = Scene::new(4);
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
        } => {
            let mut job = jobs::draft(JobType::Service, &name(*job), *count);
            job.task_groups[0].update = Some(UpdateStrategy {
                max_parallel: Some(*max_parallel),
                ..UpdateStrategy::default()
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
        let count = job.task_groups[0].count() as usize;
        prop_assert!(
            scene.live_count(&key) <= count,
            "{key}: {}",
            scene.live_count(&key)
        );
        prop_assert_eq!(
            scene.live(&key).len(),
            scene.live_count(&key),
            "names repeat"
        );
    }
    Ok(())
}
