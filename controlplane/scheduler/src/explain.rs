//! Explanations for `plan`: what rules nodes out for each group, and which nodes come nearest to
//! taking another allocation of it.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::{NodeRow, Readiness, Snapshot};
use protocol_model::{Job, Node, NodeId, TaskGroup};

use crate::ask::Ask;
use crate::feasible::{Distinct, Feasibility, Standing};
use crate::place::{in_datacenters, in_pool};
use crate::scratch::Scratch;

/// Near misses that are kept of each group.
pub const MISSES_MAX: usize = 3;

/// The weight of a rule that rules a node out: more than any lack of room.
const RULED_OUT: u64 = 1_000_000;
/// The weight of a lack that has no amount, such as a taken port: as if all of it were missing.
const WHOLE: u64 = 1_000;

/// One group's explanation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupExplanation {
    /// Reasons with the number of nodes that each rules out: readiness, pool and datacenter first,
    /// then by number. A node counts for the first reason that applies to it.
    pub filtered: Vec<(String, u64)>,
    /// The nodes that come nearest, at most [`MISSES_MAX`]; none for a group that is placed whole.
    pub misses: Vec<Miss>,
}

/// A node on which another allocation of a group finds no place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Miss {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Everything that is missing: `memory 256 MiB short of 512`.
    pub missing: Vec<String>,
}

/// Explains every group of `job` on `snapshot`, in which its plan is applied already. `unplaced`
/// names the groups that are not placed whole.
pub fn explain(
    snapshot: &Snapshot,
    job: &Job,
    unplaced: &BTreeSet<String>,
    scratch: &mut Scratch,
) -> BTreeMap<String, GroupExplanation> {
    let explained = job.task_groups.iter().map(|group| {
        let mut explanation = GroupExplanation {
            filtered: filtered(snapshot, job, group, scratch),
            misses: Vec::new(),
        };
        if unplaced.contains(&group.name) {
            explanation.misses = misses(snapshot, job, group, scratch);
        }
        (group.name.clone(), explanation)
    });
    explained.collect()
}

fn filtered(
    snapshot: &Snapshot,
    job: &Job,
    group: &TaskGroup,
    scratch: &mut Scratch,
) -> Vec<(String, u64)> {
    let mut feasibility = Feasibility::new(job, group);
    let (mut not_ready, mut other_pool, mut other_datacenter) = (0, 0, 0);
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for record in snapshot.nodes() {
        let node = &record.node;
        if row(snapshot, node).is_none() {
            not_ready += 1;
        } else if !in_pool(job, node) {
            other_pool += 1;
        } else if !in_datacenters(job, node) {
            other_datacenter += 1;
        } else if let Err(reason) = feasibility.check(node, None, scratch) {
            *reasons.entry(reason.0).or_default() += 1;
        }
    }
    let mut reasons: Vec<(String, u64)> = reasons.into_iter().collect();
    // Equal numbers stay in the order of their texts.
    reasons.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
    let datacenters = job.datacenters.join(", ");
    let scope = [
        ("not ready, draining or not eligible".to_owned(), not_ready),
        (format!("not in node pool {:?}", job.node_pool), other_pool),
        (
            format!("not in datacenters {datacenters}"),
            other_datacenter,
        ),
    ];
    let scope = scope.into_iter().filter(|(_, nodes)| *nodes > 0);
    scope.chain(reasons).collect()
}

/// The columns of a node that may be placed on.
fn row<'s>(snapshot: &'s Snapshot, node: &Node) -> Option<&'s NodeRow> {
    let row = snapshot.node_columns().row(node.id);
    row.filter(|row| row.readiness == Readiness::Ready)
}

fn misses(snapshot: &Snapshot, job: &Job, group: &TaskGroup, scratch: &mut Scratch) -> Vec<Miss> {
    let feasibility = Feasibility::new(job, group);
    let leaving = BTreeSet::new();
    let standing = Standing {
        leaving: &leaving,
        placed: &[],
    };
    let distinct = Distinct::new(snapshot, job, group, standing);
    let ask = Ask::new(group);
    let mut nearest: Vec<(u64, &str, Miss)> = Vec::new();
    for record in snapshot.nodes() {
        let node = &record.node;
        let scope = in_pool(job, node) && in_datacenters(job, node);
        let Some(row) = row(snapshot, node).filter(|_| scope) else {
            continue;
        };
        let mut lacks = Lacks::of_room(&ask, node, row);
        let apart = distinct.check(node).err();
        for reason in feasibility.reasons(node, scratch).into_iter().chain(apart) {
            lacks.add(RULED_OUT, reason.0);
        }
        if lacks.missing.is_empty() {
            continue;
        }
        let miss = Miss {
            node: node.id,
            name: node.name.clone(),
            missing: lacks.missing,
        };
        nearest.push((lacks.weight, &node.name, miss));
        nearest.sort_by(|a, b| (a.0, a.1, a.2.node).cmp(&(b.0, b.1, b.2.node)));
        nearest.truncate(MISSES_MAX);
    }
    nearest.into_iter().map(|(_, _, miss)| miss).collect()
}

/// Everything that a node lacks, with its weight.
#[derive(Default)]
struct Lacks {
    weight: u64,
    missing: Vec<String>,
}

impl Lacks {
    /// Room that is missing for another allocation of the group.
    fn of_room(ask: &Ask<'_>, node: &Node, row: &NodeRow) -> Self {
        let mut lacks = Self::default();
        let (capacity, used) = (&row.capacity, &row.used);
        let amounts = ask.amounts(node);
        lacks.amount("cpu", "MHz", amounts.cpu, capacity.cpu - used.cpu);
        let memory = capacity.memory_mb - used.memory_mb;
        lacks.amount("memory", "MiB", amounts.memory_mb, memory);
        let disk = capacity.disk_mb - used.disk_mb;
        lacks.amount("disk", "MiB", amounts.disk_mb, disk);
        let cores = ask.cores_on(capacity, used);
        let ports = ask.ports_on(node, capacity, &used.claims);
        for lack in cores.err().into_iter().chain(ports.err()) {
            lacks.add(WHOLE, lack.into_owned());
        }
        lacks
    }

    fn amount(&mut self, dimension: &str, unit: &str, asked: i64, free: i64) {
        let short = asked.saturating_sub(free.max(0));
        if short <= 0 || asked <= 0 {
            return;
        }
        let share = short.saturating_mul(1_000) / asked;
        let words = format!("{dimension} {short} {unit} short of {asked}");
        self.add(u64::try_from(share).unwrap_or(WHOLE), words);
    }

    fn add(&mut self, weight: u64, words: String) {
        self.weight = self.weight.saturating_add(weight);
        // A missing host network rules a node out and leaves no room for ports.
        if !self.missing.contains(&words) {
            self.missing.push(words);
        }
    }
}
