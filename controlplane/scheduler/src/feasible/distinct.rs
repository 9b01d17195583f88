//! `distinct_hosts` and `distinct_property`: constraints about where else the job's allocations
//! are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controlplane_state::Snapshot;
use protocol_model::{AllocId, Allocation, Constraint, Job, Node, NodeId, TaskGroup};

use super::{Reason, target};

/// Values of a property that reasons tell apart. The explanation of every placement holds all
/// reasons: with as many values as nodes it would hold as many texts. Above it, one text is for all
/// of them.
const VALUES_NAMED_MAX: usize = 8;

/// Whether a constraint is one of these.
pub(super) fn is_distinct(constraint: &Constraint) -> bool {
    matches!(
        constraint.operand.as_str(),
        "distinct_hosts" | "distinct_property"
    )
}

/// What the job's allocations take up: hosts, and values of properties.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    group: String,
    hosts_of_job: bool,
    hosts_of_group: bool,
    hosts: BTreeMap<NodeId, u32>,
    group_hosts: BTreeMap<NodeId, u32>,
    properties: Vec<Property>,
}

#[derive(Debug)]
struct Property {
    attribute: String,
    count_max: u32,
    /// Counts this group's allocations only.
    of_group: bool,
    used: BTreeMap<String, u32>,
}

/// The job's allocations as a decision leaves them so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'p> {
    /// Those of the snapshot that leave.
    pub(crate) leaving: &'p BTreeSet<AllocId>,
    /// Those that were placed.
    pub(crate) placed: &'p [Arc<Allocation>],
}

/// Whom it concerns that an allocation came or went, besides its node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ripple {
    /// The nodes that have these in common with it; often none.
    Alike(Vec<Alike>),
    /// Every node: from now on, they are told something else.
    All,
}

/// A property that is to be distinct, by its number, and one of its values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Alike {
    property: usize,
    value: String,
}

impl Distinct {
    /// What stands of `job`, as `group` has to see it.
    pub(crate) fn new(
        snapshot: &Snapshot,
        job: &Job,
        group: &TaskGroup,
        standing: Standing<'_>,
    ) -> Self {
        let of_job = properties(&job.constraints, false);
        let of_group = properties(&group.constraints, true);
        let of_tasks = group
            .tasks
            .iter()
            .flat_map(|task| properties(&task.constraints, true));
        let mut distinct = Self {
            group: group.name.clone(),
            hosts_of_job: wants_hosts(&job.constraints),
            hosts_of_group: wants_hosts(&group.constraints)
                || group
                    .tasks
                    .iter()
                    .any(|task| wants_hosts(&task.constraints)),
            properties: of_job.into_iter().chain(of_group).chain(of_tasks).collect(),
            ..Self::default()
        };
        if distinct.is_idle() {
            return distinct;
        }
        let key = job.key();
        let stands = snapshot
            .allocs_by_job(&key)
            .filter(|alloc| !alloc.terminal() && !standing.leaving.contains(&alloc.id));
        for alloc in stands.chain(standing.placed) {
            if let Some(record) = snapshot.node(alloc.node_id) {
                distinct.take(alloc, &record.node);
            }
        }
        distinct
    }

    /// Whether nothing is asked.
    pub(crate) fn is_idle(&self) -> bool {
        !self.hosts_of_job && !self.hosts_of_group && self.properties.is_empty()
    }

    /// `alloc` is on `node` from now on.
    pub(crate) fn take(&mut self, alloc: &Allocation, node: &Node) -> Ripple {
        self.count(alloc, node, |count| *count = count.saturating_add(1))
    }

    /// `alloc` is not on `node` any more.
    pub(crate) fn leave(&mut self, alloc: &Allocation, node: &Node) -> Ripple {
        self.count(alloc, node, |count| *count = count.saturating_sub(1))
    }

    /// Why `node` is out of the question, if it is.
    pub(crate) fn check(&self, node: &Node) -> Result<(), Reason> {
        let some = |hosts: &BTreeMap<NodeId, u32>| hosts.get(&node.id).is_some_and(|it| *it > 0);
        let taken = (self.hosts_of_job && some(&self.hosts))
            || (self.hosts_of_group && some(&self.group_hosts));
        if taken {
            return Err(Reason("distinct_hosts".to_owned()));
        }
        for property in &self.properties {
            let value = target::resolve(&property.attribute, node);
            let Some(value) = value.value() else {
                return Err(Reason(format!("missing property {}", property.attribute)));
            };
            let used = property.used.get(value).copied().unwrap_or(0);
            if used >= property.count_max {
                let attribute = &property.attribute;
                let text = if property.used.len() > VALUES_NAMED_MAX {
                    format!("distinct_property: {attribute} used up")
                } else {
                    format!("distinct_property: {attribute}={value} used by {used} allocs")
                };
                return Err(Reason(text));
            }
        }
        Ok(())
    }

    /// What `node` may have in common with others.
    pub(crate) fn values_of(&self, node: &Node) -> Vec<Alike> {
        let values = self.properties.iter().enumerate();
        let values = values.filter_map(|(property, it)| {
            let value = target::resolve(&it.attribute, node).value()?.to_owned();
            Some(Alike { property, value })
        });
        values.collect()
    }

    fn count(&mut self, alloc: &Allocation, node: &Node, change: impl Fn(&mut u32)) -> Ripple {
        if self.is_idle() {
            return Ripple::Alike(Vec::new());
        }
        let same_group = alloc.task_group == self.group;
        change(self.hosts.entry(node.id).or_default());
        if same_group {
            change(self.group_hosts.entry(node.id).or_default());
        }
        let mut alike = Vec::new();
        let mut all = false;
        for (number, property) in self.properties.iter_mut().enumerate() {
            if property.of_group && !same_group {
                continue;
            }
            let resolved = target::resolve(&property.attribute, node);
            let Some(value) = resolved.value() else {
                continue;
            };
            let named = property.used.len() <= VALUES_NAMED_MAX;
            let used = property.used.entry(value.to_owned()).or_default();
            let before = *used;
            change(used);
            // Reasons name the number, which may be more than the most that is allowed now.
            if before.max(*used) >= property.count_max {
                alike.push(Alike {
                    property: number,
                    value: value.to_owned(),
                });
            }
            all |= named && property.used.len() > VALUES_NAMED_MAX;
        }
        if all {
            Ripple::All
        } else {
            Ripple::Alike(alike)
        }
    }
}

/// Written as `distinct_hosts = true`; `false`, or what else job files say for it, switches it off.
fn wants_hosts(constraints: &[Constraint]) -> bool {
    let off = |text: &str| matches!(text.to_ascii_lowercase().as_str(), "false" | "f" | "0");
    constraints
        .iter()
        .any(|constraint| constraint.operand == "distinct_hosts" && !off(&constraint.r_target))
}

fn properties(constraints: &[Constraint], of_group: bool) -> Vec<Property> {
    constraints
        .iter()
        .filter(|constraint| constraint.operand == "distinct_property")
        .map(|constraint| Property {
            attribute: constraint.l_target.clone(),
            count_max: constraint.r_target.parse().unwrap_or(1),
            of_group,
            used: BTreeMap::new(),
        })
        .collect()
}
