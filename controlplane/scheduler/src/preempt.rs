//! Preemption: which allocations of less important jobs have to leave a node for one that fits
//! nowhere.
//!
//! ```text
//!   1. holders of a static port that is asked for
//!   2. by priority upwards, within one by distance, until the ask fits      (as Nomad)
//!   3. of these, by distance to the whole ask downwards, as many as needed  (as Nomad)
//!   4. each that can be left out is left out, highest priority first
//! ```
//!
//! Step 4 makes the choice minimal: what fits without some allocations fits without more of them,
//! so that one pass finds a set of which none can be left out.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::{Snapshot, Usage};
use protocol_model::{AllocId, Allocation, Job, JobKey, MigrateStrategy, NodeId};

/// How much lower the priority of a victim's job is, at least (Nomad's rule).
const PRIORITY_DELTA: i32 = 10;
/// How much farther a victim is for each allocation by which its group's `migrate.max_parallel` is
/// exceeded.
const CROWDED_PENALTY: f64 = 50.0;
/// The net priority at which the component is a half, and how steeply it falls around that.
const NET_MIDDLE: f64 = 2048.0;
const NET_RATE: f64 = 0.0048;

/// An allocation that may have to go.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) alloc: Arc<Allocation>,
    pub(crate) usage: Usage,
    priority: i32,
    /// The addition to its distance by its group's `max_parallel`.
    penalty: f64,
}

/// The allocations that a decision has evicted so far, in all groups.
#[derive(Debug, Default)]
pub(crate) struct Evicted {
    by_node: BTreeMap<NodeId, BTreeMap<AllocId, Usage>>,
    of_group: BTreeMap<(JobKey, String), u32>,
}

impl Evicted {
    /// The allocations that were evicted from `node`.
    pub(crate) fn from(&self, node: NodeId) -> impl Iterator<Item = (AllocId, &Usage)> {
        let of_node = self.by_node.get(&node).into_iter().flatten();
        of_node.map(|(id, usage)| (*id, usage))
    }

    /// Notes one more. Whether other nodes have to be judged again because of it: its group is as
    /// small now as `max_parallel` wants it to be, at most.
    pub(crate) fn note(&mut self, snapshot: &Snapshot, victim: &Victim) -> bool {
        let Victim { alloc, usage, .. } = victim;
        let of_node = self.by_node.entry(alloc.node_id).or_default();
        of_node.insert(alloc.id, usage.clone());
        let key = (alloc.job_key(), alloc.task_group.clone());
        let count = self.of_group.entry(key).or_default();
        *count = count.saturating_add(1);
        let max = max_parallel(snapshot, alloc);
        max.is_some_and(|max| *count >= max)
    }

    fn penalty(&self, snapshot: &Snapshot, alloc: &Allocation) -> f64 {
        // Most decisions evict nothing: no job is looked up for it.
        if self.of_group.is_empty() {
            return 0.0;
        }
        let key = (alloc.job_key(), alloc.task_group.clone());
        let Some(count) = self.of_group.get(&key) else {
            return 0.0;
        };
        match max_parallel(snapshot, alloc) {
            Some(max) if *count >= max => CROWDED_PENALTY * f64::from(count + 1 - max),
            Some(_) | None => 0.0,
        }
    }
}

/// `None` where the group sets none.
fn max_parallel(snapshot: &Snapshot, alloc: &Allocation) -> Option<u32> {
    let migrate = snapshot.group_of_alloc(alloc)?.migrate.as_ref()?;
    Some(MigrateStrategy::max_parallel(migrate)).filter(|max| *max > 0)
}

/// Those on `node` that may have to go for an allocation of `job`, in the order of their ids.
pub(crate) fn eligible(
    snapshot: &Snapshot,
    job: &Job,
    node: NodeId,
    evicted: &Evicted,
) -> Vec<Victim> {
    let gone: BTreeSet<AllocId> = evicted.from(node).map(|(id, _)| id).collect();
    let highest = job.priority.saturating_sub(PRIORITY_DELTA);
    let on_node = snapshot
        .allocs_on_node(node)
        .filter(|alloc| !alloc.terminal() && !gone.contains(&alloc.id))
        .filter(|alloc| alloc.job_id != job.id || alloc.namespace != job.namespace);
    let victims = on_node.filter_map(|alloc| {
        let priority = snapshot.spec(alloc.spec)?.priority;
        (priority <= highest).then(|| Victim {
            alloc: Arc::clone(alloc),
            usage: Usage::of(&alloc.allocated_resources),
            priority,
            penalty: evicted.penalty(snapshot, alloc),
        })
    });
    let mut victims: Vec<Victim> = victims.collect();
    victims.sort_by_key(|victim| victim.alloc.id);
    victims
}

/// The victims among `eligible` so that `ask` fits; `fits` says whether it does without these, and
/// `holds` whether one has a static port that is asked for. `None` where it does not fit without
/// all of them.
pub(crate) fn choose(
    mut eligible: Vec<Victim>,
    ask: &Usage,
    holds: impl Fn(&Victim) -> bool,
    fits: impl Fn(&[Victim]) -> bool,
) -> Option<Vec<Victim>> {
    if !fits(&eligible) {
        return None;
    }
    let holders = eligible.extract_if(.., |victim| holds(victim));
    let mut chosen: Vec<Victim> = holders.collect();
    let mut need = Need::of(ask);
    for victim in &chosen {
        need.subtract(&victim.usage);
    }
    while !fits(&chosen) {
        let distance = |victim: &Victim| need.distance(&victim.usage) + victim.penalty;
        let nearest = eligible.iter().enumerate().min_by(|(_, one), (_, other)| {
            let by_priority = one.priority.cmp(&other.priority);
            by_priority.then_with(|| distance(one).total_cmp(&distance(other)))
        });
        let (offset, _) = nearest?;
        let victim = eligible.remove(offset);
        need.subtract(&victim.usage);
        chosen.push(victim);
    }
    Some(leave_out(as_many_as_needed(chosen, ask, &fits), &fits))
}

fn as_many_as_needed(
    mut chosen: Vec<Victim>,
    ask: &Usage,
    fits: impl Fn(&[Victim]) -> bool,
) -> Vec<Victim> {
    let need = Need::of(ask);
    let far = |victim: &Victim| need.distance(&victim.usage);
    chosen.sort_by(|one, other| far(other).total_cmp(&far(one)));
    let enough = (0..=chosen.len()).find(|count| chosen.get(..*count).is_some_and(&fits));
    chosen.truncate(enough.unwrap_or(chosen.len()));
    chosen
}

fn leave_out(mut chosen: Vec<Victim>, fits: impl Fn(&[Victim]) -> bool) -> Vec<Victim> {
    let order = |one: &Victim, other: &Victim| -> Ordering {
        let by_priority = other.priority.cmp(&one.priority);
        by_priority.then(one.alloc.id.cmp(&other.alloc.id))
    };
    chosen.sort_by(order);
    let mut offset = 0;
    while offset < chosen.len() {
        let left_out = chosen.remove(offset);
        if !fits(&chosen) {
            chosen.insert(offset, left_out);
            offset += 1;
        }
    }
    chosen
}

/// The score's component `preemption`, 0 to 1: the fewer and the less important the victims are,
/// the better.
pub(crate) fn component(victims: &[Victim]) -> f64 {
    let priorities = victims.iter().map(|victim| f64::from(victim.priority));
    let (max, sum) = priorities.fold((0.0, 0.0), |(max, sum), priority| {
        (f64::max(max, priority), sum + priority)
    });
    let net = if max > 0.0 { max + sum / max } else { 0.0 };
    1.0 / (1.0 + (NET_RATE * (net - NET_MIDDLE)).exp())
}

/// The room that is still to be freed: processor time, memory, disk.
struct Need([f64; 3]);

impl Need {
    fn of(usage: &Usage) -> Self {
        Self(dimensions(usage))
    }

    fn subtract(&mut self, usage: &Usage) {
        for (need, has) in self.0.iter_mut().zip(dimensions(usage)) {
            *need -= has;
        }
    }

    /// How far these are from what is needed; what is not needed is left out.
    fn distance(&self, usage: &Usage) -> f64 {
        let parts = self.0.iter().zip(dimensions(usage));
        let needed = parts.filter(|(need, _)| **need > 0.0);
        let squares = needed.map(|(need, has)| ((need - has) / need).powi(2));
        squares.sum::<f64>().sqrt()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "node capacities are far below 2^53"
)]
fn dimensions(usage: &Usage) -> [f64; 3] {
    [
        usage.cpu as f64,
        usage.memory_mb as f64,
        usage.disk_mb as f64,
    ]
}
