//! The chosen node is the best of all: each placement against a second computation, which looks
//! at every node with the formulas as they are documented.

use std::collections::BTreeMap;

use controlplane_state::{Command, SchedulerAlgorithm, SchedulerConfig, Snapshot};
use hack_testkit::{World, jobs, nodes};
use proptest::prelude::*;
use protocol_model::{
    Affinity, Allocation, Constraint, Evaluation, Job, JobType, Node, NodeId, Spread, SpreadTarget,
};

use crate::scene::Scene;

const NODES: u8 = 12;
/// Scores are sums of a few parts in another order here.
const EQUAL: f64 = 1e-9;

/// The nodes of a test and its job.
#[derive(Clone, Debug)]
struct Case {
    /// Rack and zone by number, 0 for none, and MHz.
    nodes: Vec<(u8, u8, i64)>,
    algorithm: SchedulerAlgorithm,
    counts: [u32; 2],
    affinity: Option<i32>,
    linux_only: bool,
    of_job: Vec<Spread>,
    of_group: Vec<Spread>,
}

fn spread() -> impl Strategy<Value = Spread> {
    let targets = prop::collection::btree_map(1..5u8, 0..26i32, 0..4);
    ("rack|zone", 1..101i32, targets).prop_map(|(property, weight, targets)| Spread {
        attribute: format!("${{meta.{property}}}"),
        weight: Some(weight),
        spread_target: targets
            .into_iter()
            .map(|(value, percent)| SpreadTarget {
                value: format!("v{value}"),
                percent,
            })
            .collect(),
    })
}

fn case() -> impl Strategy<Value = Case> {
    let node = (0..4u8, 0..3u8, 300..3000i64);
    let algorithm = prop_oneof![
        Just(SchedulerAlgorithm::Binpack),
        Just(SchedulerAlgorithm::Spread)
    ];
    let count = 0..9u32;
    (
        prop::collection::vec(node, usize::from(NODES)),
        algorithm,
        [count.clone(), count],
        prop::option::of(prop_oneof![-100..0i32, 1..101i32]),
        any::<bool>(),
        prop::collection::vec(spread(), 0..3),
        prop::collection::vec(spread(), 0..3),
    )
        .prop_map(
            |(nodes, algorithm, counts, affinity, linux_only, of_job, of_group)| Case {
                nodes,
                algorithm,
                counts,
                affinity,
                linux_only,
                of_job,
                of_group,
            },
        )
}

fn scene(case: &Case) -> Scene {
    let mut scene = Scene::new(0);
    for (number, (rack, zone, cpu)) in (1..).zip(&case.nodes) {
        let mut node = nodes::node(number);
        for (key, value) in [("rack", *rack), ("zone", *zone)] {
            if value > 0 {
                node.meta.insert(key.to_owned(), format!("v{value}"));
            }
        }
        if number % 5 == 0 {
            let name = node.attributes.get_mut("kernel.name");
            "plan9".clone_into(name.expect("the fixture has a kernel"));
        }
        node.node_resources.cpu.cpu_shares = *cpu;
        node.computed_class = format!("{rack}-{zone}-{cpu}-{}", number % 5 == 0);
        scene.world.add_node(node);
    }
    let config = SchedulerConfig {
        algorithm: case.algorithm,
        ..SchedulerConfig::default()
    };
    set_config(&mut scene.world, config);
    scene
}

pub(crate) fn set_config(world: &mut World, config: SchedulerConfig) {
    world.expect(Command::SchedulerConfigSet {
        config,
        enforce_index: None,
    });
}

fn job(case: &Case, count: u32) -> Job {
    let mut job = jobs::draft(JobType::Service, "web", count);
    if case.linux_only {
        job.constraints.push(Constraint {
            l_target: "${attr.kernel.name}".to_owned(),
            operand: "=".to_owned(),
            r_target: "linux".to_owned(),
        });
    }
    job.affinities.extend(case.affinity.map(|weight| Affinity {
        l_target: "${meta.rack}".to_owned(),
        r_target: "v1".to_owned(),
        operand: "=".to_owned(),
        weight: Some(weight),
    }));
    job.spreads.clone_from(&case.of_job);
    job.task_groups[0].spreads.clone_from(&case.of_group);
    job.canonicalize();
    job
}

/// The formulas, one node and one attribute at a time.
struct Brute<'a> {
    job: &'a Job,
    algorithm: SchedulerAlgorithm,
    snapshot: &'a Snapshot,
    /// The nodes of the group's live allocations.
    standing: Vec<NodeId>,
    cpu_used: BTreeMap<NodeId, i64>,
    memory_used: BTreeMap<NodeId, i64>,
}

impl Brute<'_> {
    fn value<'n>(&self, node: &'n Node, attribute: &str) -> Option<&'n String> {
        let key = attribute.strip_prefix("${meta.")?.strip_suffix('}')?;
        node.meta.get(key)
    }

    /// How many of the group are on nodes with each value.
    fn used(&self, attribute: &str) -> BTreeMap<&str, f64> {
        let mut used = BTreeMap::new();
        for id in &self.standing {
            let record = self.snapshot.node(*id).expect("the node is known");
            if let Some(value) = self.value(&record.node, attribute) {
                *used.entry(value.as_str()).or_insert(0.0) += 1.0;
            }
        }
        used
    }

    fn spread(&self, node: &Node) -> f64 {
        let group = &self.job.task_groups[0];
        let mut blocks: Vec<&Spread> = Vec::new();
        for spread in group.spreads.iter().chain(&self.job.spreads) {
            if blocks.iter().all(|it| it.attribute != spread.attribute) {
                blocks.push(spread);
            }
        }
        let weights: f64 = blocks.iter().map(|it| f64::from(it.weight.unwrap())).sum();
        let boost = |spread: &&Spread| {
            let used = self.used(&spread.attribute);
            let Some(value) = self.value(node, &spread.attribute) else {
                return -1.0;
            };
            let of = |value: &str| used.get(value).copied().unwrap_or(0.0);
            if spread.spread_target.is_empty() {
                return even(&used, of(value));
            }
            let share = f64::from(spread.weight.unwrap()) / weights;
            let count = f64::from(group.count());
            let named = |target: &SpreadTarget| f64::from(target.percent) / 100.0 * count;
            let to = |wanted: f64, value: &str| (wanted - of(value) - 1.0) / wanted * share;
            let total: i32 = spread.spread_target.iter().map(|it| it.percent).sum();
            let target = spread.spread_target.iter().find(|it| it.value == *value);
            let wanted = match target {
                Some(target) => named(target),
                None if total < 100 => f64::from(100 - total) / 100.0 * count,
                None => return -1.0,
            };
            if wanted > 0.0 {
                return to(wanted, value);
            }
            let others = spread.spread_target.iter().filter(|it| named(it) > 0.0);
            others
                .map(|it| to(named(it), &it.value))
                .fold(-1.0, f64::min)
        };
        blocks.iter().map(boost).sum()
    }

    /// `None` where the node is no candidate or has no room.
    fn score(&self, node: &Node) -> Option<f64> {
        let linux = node.attributes["kernel.name"] == "linux";
        if !(linux || self.job.constraints.is_empty()) {
            return None;
        }
        let room = &node.node_resources;
        let cpu = self.cpu_used.get(&node.id).unwrap_or(&0) + 100;
        let memory = self.memory_used.get(&node.id).unwrap_or(&0) + 100;
        if cpu > room.cpu.cpu_shares || memory > room.memory.memory_mb {
            return None;
        }
        let free = |used: i64, of: i64| 1.0 - used as f64 / of as f64;
        let total = 10f64.powf(free(cpu, room.cpu.cpu_shares))
            + 10f64.powf(free(memory, room.memory.memory_mb));
        let raw = match self.algorithm {
            SchedulerAlgorithm::Binpack => 20.0 - total,
            SchedulerAlgorithm::Spread => total - 2.0,
        };
        let mut parts = vec![raw.clamp(0.0, 18.0) / 18.0];
        let here = self.standing.iter().filter(|id| **id == node.id).count();
        if here > 0 {
            let count = f64::from(self.job.task_groups[0].count().max(1));
            parts.push(-(here as f64 + 1.0) / count);
        }
        let affinity = self.job.affinities.first();
        if let Some(affinity) = affinity
            && node.meta.get("rack").is_some_and(|rack| rack == "v1")
        {
            let weight = f64::from(affinity.weight());
            parts.push(weight / weight.abs());
        }
        let spread = self.spread(node);
        if spread != 0.0 {
            parts.push(spread);
        }
        Some(parts.iter().sum::<f64>() / parts.len() as f64)
    }

    fn place(&mut self, alloc: &Allocation) {
        self.standing.push(alloc.node_id);
        *self.cpu_used.entry(alloc.node_id).or_default() += 100;
        *self.memory_used.entry(alloc.node_id).or_default() += 100;
    }
}

fn even(used: &BTreeMap<&str, f64>, here: f64) -> f64 {
    if used.is_empty() {
        return 0.0;
    }
    let least = used.values().copied().fold(f64::INFINITY, f64::min);
    let most = used.values().copied().fold(0.0, f64::max);
    if here != least {
        (least - here) / least
    } else if least == most {
        -1.0
    } else {
        (most - least) / least
    }
}

fn check(scene: &mut Scene, case: &Case, eval: &Evaluation) -> Result<(), TestCaseError> {
    let before = scene.world.snapshot();
    let key = eval.job_key();
    let job = before.job(&key).cloned().expect("the job is registered");
    let decision = scene.run(eval);
    let mut brute = Brute {
        job: &job,
        algorithm: case.algorithm,
        snapshot: &before,
        standing: Vec::new(),
        cpu_used: BTreeMap::new(),
        memory_used: BTreeMap::new(),
    };
    for alloc in before.allocs_by_job(&key).filter(|it| !it.terminal()) {
        let stays = decision
            .plan
            .changed
            .iter()
            .all(|change| change.id != alloc.id);
        if stays {
            brute.place(alloc);
        }
    }
    for alloc in &decision.plan.placed {
        let scores = before
            .nodes()
            .filter_map(|record| Some((record.node.id, brute.score(&record.node)?)));
        let scores: BTreeMap<NodeId, f64> = scores.collect();
        let best = scores.values().copied().fold(f64::NEG_INFINITY, f64::max);
        let chosen = scores.get(&alloc.node_id).copied();
        let chosen = chosen.expect("the chosen node is a candidate with room");
        prop_assert!(chosen > best - EQUAL, "{chosen} is not {best}: {scores:?}");
        for meta in &alloc.metrics.score_meta_data {
            let expected = scores[&meta.node_id];
            prop_assert!(
                (meta.norm_score - expected).abs() < EQUAL,
                "{expected} is explained as {meta:?}"
            );
        }
        brute.place(alloc);
    }
    let left = before
        .nodes()
        .any(|record| brute.score(&record.node).is_some());
    prop_assert!(decision.failed.is_empty() || !left, "room was left unused");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn chosen_node_is_the_best_of_all_by_brute_force(case in case()) {
        let mut scene = scene(&case);
        // The second version has more or fewer, beside what the first one placed.
        for count in case.counts {
            let eval = scene.world.register(job(&case, count));
            check(&mut scene, &case, &eval)?;
        }
    }
}
