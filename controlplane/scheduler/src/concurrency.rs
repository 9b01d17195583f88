//! Decisions that are made at the same time.
//!
//! Decisions on equal snapshots choose the same best nodes, and the log would refuse all of their
//! plans but one. So a decision counts what plans in flight will take as used, and prefers other
//! nodes than the decisions that other threads are making now:
//!
//! ```text
//!   used, as the snapshot has it + what plans in flight will take
//!   nodes: | lane 0: thread 0 | lane 1: thread 1 | lane 2: thread 2 | lane 3: thread 3 |
//! ```
//!
//! Room that a plan in flight frees does not count before the state has it: no decision depends on
//! the success of another.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::{Snapshot, Usage};
use protocol_model::{Evaluation, JobType, NodeId, TaskGroup};

/// A job of at most this many allocations is decided in about a millisecond: the next decision
/// waits for it, so that it can choose among all nodes.
const SMALL_JOB_MAX: u32 = 64;

/// What a decision has to know about other decisions.
#[derive(Clone, Debug)]
pub struct Concurrency {
    /// What plans in flight will take of each node, beyond what the snapshot shows.
    pub planned: BTreeMap<NodeId, Usage>,
    /// The nodes that this decision prefers.
    pub lane: Lane,
}

impl Concurrency {
    /// There are no other decisions.
    pub const NONE: Self = Self {
        planned: BTreeMap::new(),
        lane: Lane::ALL,
    };
}

/// A share of all nodes: those whose id is `number` modulo `of`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lane {
    number: u32,
    of: u32,
}

impl Default for Lane {
    fn default() -> Self {
        Self::ALL
    }
}

impl Lane {
    /// Every node.
    pub const ALL: Self = Self { number: 0, of: 1 };

    /// Whether a node is in this lane.
    pub fn has(self, node: NodeId) -> bool {
        node.0.as_u128() % u128::from(self.of.max(1)) == u128::from(self.number)
    }
}

/// The lanes of the decisions that are being made.
#[derive(Debug)]
pub struct Lanes {
    of: u32,
    taken: BTreeSet<Lane>,
    /// Where the search for a free lane begins: each in turn, so that all fill alike.
    next: u32,
}

impl Lanes {
    /// Lanes for at most `of` decisions at a time.
    pub fn new(of: usize) -> Self {
        Self {
            of: u32::try_from(of).unwrap_or(u32::MAX),
            taken: BTreeSet::new(),
            next: 0,
        }
    }

    /// Whether another decision may begin now.
    pub fn is_open(&self) -> bool {
        let all_taken = self.of > 1 && self.taken.contains(&Lane::ALL);
        !all_taken && self.taken.len() < self.of as usize
    }

    /// The lane of the next decision, to be given back after it; `None` where none may begin. A
    /// small job gets all nodes where no other decision is being made and no other evaluation is
    /// ready (`ready`: their number).
    pub fn take(&mut self, snapshot: &Snapshot, eval: &Evaluation, ready: usize) -> Option<Lane> {
        if !self.is_open() {
            return None;
        }
        let alone = self.taken.is_empty() && ready == 0 && is_small(snapshot, eval);
        let mut lanes = (0..self.of).map(|turn| Lane {
            number: (self.next + turn) % self.of,
            of: self.of,
        });
        let lane = if alone {
            Lane::ALL
        } else {
            let lane = lanes.find(|lane| !self.taken.contains(lane))?;
            self.next = lane.number + 1;
            lane
        };
        self.taken.insert(lane);
        Some(lane)
    }

    /// The decision with this lane was made.
    pub fn give_back(&mut self, lane: Lane) {
        self.taken.remove(&lane);
    }
}

fn is_small(snapshot: &Snapshot, eval: &Evaluation) -> bool {
    match eval.job_type {
        // They run on every node: no choice.
        JobType::System | JobType::Sysbatch => false,
        JobType::Service | JobType::Batch => snapshot.job(&eval.job_key()).is_none_or(|job| {
            let counts = job.task_groups.iter().map(TaskGroup::count);
            counts.fold(0, u32::saturating_add) <= SMALL_JOB_MAX
        }),
    }
}

#[cfg(test)]
mod tests {
    use hack_testkit::{World, jobs};

    use super::*;

    fn world() -> (World, Evaluation, Evaluation) {
        let mut world = World::new();
        let small = world.register(jobs::job(JobType::Service, "small", 3));
        let large = world.register(jobs::job(JobType::Service, "large", 1000));
        (world, small, large)
    }

    #[test]
    fn lanes_of_concurrent_decisions_share_no_node() {
        let (world, small, large) = world();
        let mut lanes = Lanes::new(3);
        let snapshot = world.snapshot();
        let taken: Vec<Lane> = [&large, &small, &large]
            .into_iter()
            .map(|eval| lanes.take(&snapshot, eval, 0).expect("one is free"))
            .collect();
        assert!(!lanes.is_open() && lanes.take(&snapshot, &small, 0).is_none());
        for number in 1..100 {
            let node = NodeId::from_u128(number);
            let owners = taken.iter().filter(|lane| lane.has(node)).count();
            assert_eq!(owners, 1, "node {number}");
        }
        lanes.give_back(taken[1]);
        assert_eq!(lanes.take(&snapshot, &large, 0), Some(taken[1]));
    }

    #[test]
    fn a_small_job_alone_gets_all_nodes_and_the_next_waits() {
        let (world, small, large) = world();
        let snapshot = world.snapshot();
        let mut lanes = Lanes::new(2);
        let all = lanes.take(&snapshot, &small, 0).expect("free");
        assert_eq!(all, Lane::ALL);
        assert!(!lanes.is_open());
        lanes.give_back(all);
        let shared = lanes.take(&snapshot, &small, 1).expect("free");
        assert_ne!(shared, Lane::ALL, "another one is ready");
        lanes.give_back(shared);
        assert_ne!(lanes.take(&snapshot, &large, 0), Some(Lane::ALL));
    }

    #[test]
    fn one_decision_at_a_time_gets_all_nodes() {
        let (world, _, large) = world();
        let mut lanes = Lanes::new(1);
        let lane = lanes.take(&world.snapshot(), &large, 5);
        assert_eq!(lane, Some(Lane::ALL));
        assert!(!lanes.is_open());
    }
}
