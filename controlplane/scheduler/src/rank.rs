//! How good a feasible node is. Every node is looked at; the best one wins, and ties are broken by
//! the seed, so that equal nodes share the load and a run can be repeated.

use std::collections::BTreeMap;

use controlplane_state::{Capacity, SchedulerAlgorithm, Usage};
use protocol_model::{Affinity, Job, Node, TaskGroup};

use crate::feasible::{operand, target};
use crate::scratch::Scratch;

/// A node's score: components, and their mean, which decides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Score {
    fill: f64,
    anti_affinity: Option<f64>,
    reschedule_penalty: Option<f64>,
    affinity: Option<f64>,
    preemption: Option<f64>,
    /// By the node's cell, and so added where nodes are compared.
    spread: f64,
    /// Whether all of `fill` counts where nodes are compared.
    own: bool,
}

/// The most parts that a score has besides its spread.
pub(crate) const PARTS_MAX: usize = 5;

/// Components that every explanation names, 0 where they do not apply: clients take the columns of
/// their tables from the first node.
const ALWAYS_NAMED: [&str; 4] = [
    "binpack",
    "job-anti-affinity",
    "node-affinity",
    "node-reschedule-penalty",
];

/// What part of `fill` counts for a node of another lane. A decision fills the nodes of its own
/// lane first; where they are full, it takes the emptiest ones of the others, which their own
/// decisions come to last.
const FILL_OF_OTHERS: f64 = -0.01;

impl Score {
    /// The same on a node whose spread is `spread`; 0 does not count.
    pub(crate) fn with_spread(self, spread: f64) -> Self {
        Self { spread, ..self }
    }

    /// The components by the names that users know.
    pub(crate) fn components(&self) -> BTreeMap<String, f64> {
        let always = ALWAYS_NAMED.map(|name| (name.to_owned(), 0.0));
        let mut components = BTreeMap::from(always);
        let named = self.named();
        components.extend(named.map(|(name, value)| (name.to_owned(), value)));
        components
    }

    /// The mean of the components that apply.
    pub(crate) fn norm(&self) -> f64 {
        self.parts().mean(self.spread)
    }

    /// The order of nodes, before their spread: with a little against `fill` for nodes of
    /// other lanes.
    pub(crate) fn order(&self) -> Parts {
        if self.own {
            return self.parts();
        }
        let fill = self.fill * FILL_OF_OTHERS;
        Self { fill, ..*self }.parts()
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts { sum: 0.0, count: 0 };
        for (_, value) in self.with_spread(0.0).named() {
            parts.sum += value;
            parts.count += 1;
        }
        parts
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let Self {
            fill,
            anti_affinity,
            reschedule_penalty,
            affinity,
            preemption,
            spread,
            own: _,
        } = *self;
        [
            ("binpack", Some(fill)),
            ("job-anti-affinity", anti_affinity),
            ("node-affinity", affinity),
            ("node-reschedule-penalty", reschedule_penalty),
            ("preemption", preemption),
            ("allocation-spread", (spread != 0.0).then_some(spread)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The components of a score but its spread, together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Parts {
    pub(crate) sum: f64,
    /// How many there are, 1 to [`PARTS_MAX`].
    pub(crate) count: u8,
}

impl Parts {
    /// The mean of all components; a spread of 0 is none.
    pub(crate) fn mean(self, spread: f64) -> f64 {
        if spread == 0.0 {
            self.sum / f64::from(self.count.max(1))
        } else {
            (self.sum + spread) / (f64::from(self.count) + 1.0)
        }
    }
}

/// What a score looks at besides the node itself.
#[derive(Debug)]
pub(crate) struct Ranking<'a> {
    algorithm: SchedulerAlgorithm,
    affinities: Vec<&'a Affinity>,
    weight_sum: f64,
    count: u32,
    /// All of `fill` counts on every node, whatever lane it is in.
    all_own: bool,
}

/// What concerns one placement on one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// What the node has.
    pub(crate) capacity: &'a Capacity,
    /// What will be used of it, this placement included.
    pub(crate) used: &'a Usage,
    /// Allocations of the same group on it.
    pub(crate) siblings: u32,
    /// An earlier attempt failed there.
    pub(crate) penalized: bool,
    /// The node is in the decision's lane.
    pub(crate) own: bool,
    /// The component of the allocations that are evicted for it.
    pub(crate) preemption: Option<f64>,
}

impl<'a> Ranking<'a> {
    pub(crate) fn new(algorithm: SchedulerAlgorithm, job: &'a Job, group: &'a TaskGroup) -> Self {
        let affinities: Vec<&Affinity> = job
            .affinities
            .iter()
            .chain(&group.affinities)
            .chain(group.tasks.iter().flat_map(|task| &task.affinities))
            .collect();
        let weight_sum: f64 = affinities
            .iter()
            .map(|one| f64::from(one.weight().abs()))
            .sum();
        Self {
            algorithm,
            affinities,
            weight_sum,
            count: group.count().max(1),
            // A refusal now and then costs less than a preference of the job that does not count,
            // or allocations that are spread over a part of the nodes only.
            all_own: weight_sum > 0.0
                || algorithm == SchedulerAlgorithm::Spread
                || !(job.spreads.is_empty() && group.spreads.is_empty()),
        }
    }

    /// The score of `node` for one placement.
    ///
    /// Rules (Nomad): bin packing after "best fit v3" (20 − 10^free cpu − 10^free memory, of 18);
    /// `spread` is its mirror; collisions, failed attempts and affinities are components of their
    /// own, and the mean of those that apply decides.
    pub(crate) fn score(&self, node: &Node, asked: &Asked<'_>, scratch: &mut Scratch) -> Score {
        let collisions = || -f64::from(asked.siblings + 1) / f64::from(self.count);
        Score {
            fill: self.fill(asked),
            anti_affinity: (asked.siblings > 0).then(collisions),
            reschedule_penalty: asked.penalized.then_some(-1.0),
            affinity: self.affinity(node, scratch),
            preemption: asked.preemption,
            spread: 0.0,
            own: asked.own || self.all_own,
        }
    }

    /// How well filled the node is, 0 to 1.
    fn fill(&self, asked: &Asked<'_>) -> f64 {
        let free_cpu = 1.0 - share(asked.used.cpu, asked.capacity.cpu);
        let free_memory = 1.0 - share(asked.used.memory_mb, asked.capacity.memory_mb);
        let total = 10f64.powf(free_cpu) + 10f64.powf(free_memory);
        let raw = match self.algorithm {
            SchedulerAlgorithm::Binpack => 20.0 - total,
            SchedulerAlgorithm::Spread => total - 2.0,
        };
        raw.clamp(0.0, 18.0) / 18.0
    }

    fn affinity(&self, node: &Node, scratch: &mut Scratch) -> Option<f64> {
        if self.weight_sum == 0.0 {
            return None;
        }
        let matched: f64 = self
            .affinities
            .iter()
            .filter(|affinity| {
                let left = target::resolve(&affinity.l_target, node);
                let right = target::resolve(&affinity.r_target, node);
                operand::holds(&affinity.operand, &left, &right, scratch)
            })
            .map(|affinity| f64::from(affinity.weight()))
            .sum();
        (matched != 0.0).then_some(matched / self.weight_sum)
    }
}

fn share(used: i64, capacity: i64) -> f64 {
    if capacity <= 0 {
        return 1.0;
    }
    // Clusters stay far below 2^53 MHz or MiB per node.
    #[expect(
        clippy::cast_precision_loss,
        reason = "node capacities are far below 2^53"
    )]
    let share = used as f64 / capacity as f64;
    share.clamp(0.0, 1.0)
}
