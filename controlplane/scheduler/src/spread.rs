//! Spread: how far a group's allocations are from being distributed as its job asks.
//!
//! Each attribute gives a node a boost, by the node's value `v` and the number `u(v)` of the
//! group's live allocations on nodes with that value. Their sum is the score's component
//! `allocation-spread`.
//!
//! ```text
//!   no value on the node                   -1
//!   targets, d(v) > 0 wanted allocations   (d(v) - u(v) - 1) / d(v) * weight / sum of weights
//!   targets, d(v) = 0                      the lowest of -1 and the boosts of the named values
//!   targets, v shares in no target         -1
//!   even, nothing placed                   0
//!   even, u(v) != m                        (m - u(v)) / m     m, M: least and most used, of the
//!   even, u(v) = m = M                     -1                 values that are used at all
//!   even, u(v) = m < M                     (M - m) / m
//! ```
//!
//! `d(v)` is the target's share of the group's count; values that are not named have the rest of
//! 100 percent. Nodes with the same values form a cell: a placement changes the boosts of cells,
//! and no order within one.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::Snapshot;
use protocol_model::canonical::defaults;
use protocol_model::{Allocation, Job, Node, Spread, TaskGroup};

use crate::feasible::{Standing, target};
use crate::place::in_scope;

/// The number of a node's value of each attribute; `None` where the node has none.
pub(crate) type Cell = Vec<Option<usize>>;

/// The spread blocks of a group, and where its allocations are.
#[derive(Debug, Default)]
pub(crate) struct Spreads {
    group: String,
    axes: Vec<Axis>,
}

/// One attribute. Values have numbers, in the order in which they were met.
#[derive(Debug)]
struct Axis {
    attribute: String,
    /// This spread's share of the sum of weights.
    share: f64,
    wanted: Wanted,
    numbers: BTreeMap<String, usize>,
    used: Vec<u32>,
    /// By number, as long as nothing changes.
    boosts: Option<Vec<f64>>,
}

#[derive(Debug)]
enum Wanted {
    Even,
    /// So many allocations per named value, and per value that is not named.
    Targets {
        named: BTreeMap<String, f64>,
        rest: Option<f64>,
    },
}

impl Spreads {
    /// The spread blocks of `group` and of its job, and what `standing` leaves of the group.
    pub(crate) fn new(
        snapshot: &Snapshot,
        job: &Job,
        group: &TaskGroup,
        standing: Standing<'_>,
    ) -> Self {
        let mut seen = BTreeSet::new();
        // The group's block wins over the job's about the same attribute.
        let blocks = group.spreads.iter().chain(&job.spreads);
        let blocks: Vec<&Spread> = blocks.filter(|it| seen.insert(&it.attribute)).collect();
        let sum: f64 = blocks.iter().map(|it| f64::from(weight(it))).sum();
        let sum = sum.max(1.0);
        let count = f64::from(group.count());
        let axis = |spread: &&Spread| Axis::new(spread, f64::from(weight(spread)) / sum, count);
        let mut spreads = Self {
            group: group.name.clone(),
            axes: blocks.iter().map(axis).collect(),
        };
        if spreads.is_idle() {
            return spreads;
        }
        let key = job.key();
        let stands = snapshot
            .allocs_by_job(&key)
            .filter(|alloc| !alloc.terminal() && !standing.leaving.contains(&alloc.id));
        for alloc in stands.chain(standing.placed) {
            if let Some(record) = snapshot.node(alloc.node_id) {
                spreads.take(alloc, &record.node);
            }
        }
        spreads
    }

    /// Whether nothing is asked.
    pub(crate) fn is_idle(&self) -> bool {
        self.axes.is_empty()
    }

    /// `alloc` is on `node` from now on.
    pub(crate) fn take(&mut self, alloc: &Allocation, node: &Node) {
        self.count(alloc, node, |used| *used = used.saturating_add(1));
    }

    /// `alloc` is not on `node` any more.
    pub(crate) fn leave(&mut self, alloc: &Allocation, node: &Node) {
        self.count(alloc, node, |used| *used = used.saturating_sub(1));
    }

    fn count(&mut self, alloc: &Allocation, node: &Node, change: impl Fn(&mut u32)) {
        if alloc.task_group != self.group {
            return;
        }
        for axis in &mut self.axes {
            if let Some(number) = axis.number_of(node) {
                axis.boosts = None;
                if let Some(used) = axis.used.get_mut(number) {
                    change(used);
                }
            }
        }
    }

    /// The cell of `node`.
    pub(crate) fn cell_of(&mut self, node: &Node) -> Cell {
        let axes = self.axes.iter_mut();
        axes.map(|axis| axis.number_of(node)).collect()
    }

    /// The component of a placement on a node of `cell`; 0 where it does not apply.
    pub(crate) fn score(&mut self, cell: &Cell) -> f64 {
        let values = self.axes.iter_mut().zip(cell);
        values.map(|(axis, number)| axis.boost(*number)).sum()
    }
}

impl Axis {
    fn new(spread: &Spread, share: f64, count: f64) -> Self {
        let targets = &spread.spread_target;
        let wanted = if targets.is_empty() {
            Wanted::Even
        } else {
            let of = |percent: i32| f64::from(percent) / 100.0 * count;
            let left = 100 - targets.iter().map(|target| target.percent).sum::<i32>();
            Wanted::Targets {
                named: targets
                    .iter()
                    .map(|target| (target.value.clone(), of(target.percent)))
                    .collect(),
                rest: (left > 0).then(|| of(left)),
            }
        };
        let mut axis = Self {
            attribute: spread.attribute.clone(),
            share,
            wanted,
            numbers: BTreeMap::new(),
            used: Vec::new(),
            boosts: None,
        };
        // Named values count for the lowest boost even where no node has them.
        for target in targets {
            axis.number(&target.value);
        }
        axis
    }

    fn number_of(&mut self, node: &Node) -> Option<usize> {
        let resolved = target::resolve(&self.attribute, node);
        // Found first: the text is copied only for a value that is new.
        let value = resolved.value()?;
        match self.numbers.get(value) {
            Some(number) => Some(*number),
            None => {
                let value = value.to_owned();
                Some(self.number(&value))
            }
        }
    }

    fn number(&mut self, value: &str) -> usize {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.used.len();
        self.numbers.insert(value.to_owned(), number);
        self.used.push(0);
        self.boosts = None;
        number
    }

    fn boost(&mut self, number: Option<usize>) -> f64 {
        let Some(number) = number else {
            return -1.0;
        };
        if self.boosts.is_none() {
            self.boosts = Some(match &self.wanted {
                Wanted::Even => even(&self.used),
                Wanted::Targets { named, rest } => self.towards(named, *rest),
            });
        }
        let boosts = self.boosts.as_ref();
        boosts.and_then(|it| it.get(number)).copied().unwrap_or(0.0)
    }

    /// The boost of each value with targets.
    fn towards(&self, named: &BTreeMap<String, f64>, rest: Option<f64>) -> Vec<f64> {
        let boost = |wanted: f64, used: u32| {
            let used = f64::from(used) + 1.0;
            (wanted > 0.0).then(|| (wanted - used) / wanted * self.share)
        };
        let used_of = |number: usize| self.used.get(number).copied().unwrap_or(0);
        let of_named = named.iter().filter_map(|(value, wanted)| {
            let number = *self.numbers.get(value)?;
            boost(*wanted, used_of(number))
        });
        let lowest = of_named.fold(-1.0, f64::min);
        let mut boosts = vec![0.0; self.used.len()];
        for (value, number) in &self.numbers {
            let wanted = named.get(value).copied().or(rest);
            let found = match wanted {
                Some(wanted) => boost(wanted, used_of(*number)).unwrap_or(lowest),
                None => -1.0,
            };
            if let Some(place) = boosts.get_mut(*number) {
                *place = found;
            }
        }
        boosts
    }
}

/// The boost of each value where all are to have as many.
fn even(used: &[u32]) -> Vec<f64> {
    let in_use = || used.iter().copied().filter(|used| *used > 0);
    let (Some(least), Some(most)) = (in_use().min(), in_use().max()) else {
        return vec![0.0; used.len()];
    };
    let (low, high) = (f64::from(least), f64::from(most));
    let boost = |used: &u32| match *used {
        used if used != least => (low - f64::from(used)) / low,
        _ if least == most => -1.0,
        _ => (high - low) / low,
    };
    used.iter().map(boost).collect()
}

/// A sentence for each target of `job` whose value no ready node of its pool and datacenters has.
pub fn spread_warnings(snapshot: &Snapshot, job: &Job) -> Vec<String> {
    let nodes = snapshot.nodes().map(|record| -> &Node { &record.node });
    let nodes: Vec<&Node> = nodes
        .filter(|node| node.ready() && in_scope(job, node))
        .collect();
    let mut warnings = Vec::new();
    let mut warn = |place: &str, spreads: &[Spread]| {
        for (offset, spread) in spreads.iter().enumerate() {
            let values = nodes.iter().filter_map(|node| {
                let resolved = target::resolve(&spread.attribute, node);
                resolved.value().map(str::to_owned)
            });
            let values: BTreeSet<String> = values.collect();
            let missing = spread.spread_target.iter();
            let missing = missing.filter(|target| !values.contains(&target.value));
            warnings.extend(missing.map(|target| {
                format!(
                    "{place}spread {} > target {:?}: no node of the job's pool and datacenters has \
                     this value of {}",
                    offset + 1,
                    target.value,
                    spread.attribute
                )
            }));
        }
    };
    warn("", &job.spreads);
    for group in &job.task_groups {
        warn(&format!("group {:?} > ", group.name), &group.spreads);
    }
    warnings
}

fn weight(spread: &Spread) -> i32 {
    spread.weight.unwrap_or(defaults::SPREAD_WEIGHT)
}
