//! `distinct_hosts` and `distinct_property`: constraints about where else the job's allocations
//! are.

use std::collections::{BTreeMap, BTreeSet};

use controlplane_state::Snapshot;
use protocol_model::{AllocId, Allocation, Constraint, Job, Node, NodeId, TaskGroup};

use super::{Reason, target};

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

impl Distinct {
    /// What stands in `snapshot` of `job`, as `group` has to see it, without `leaving`.
    pub(crate) fn new(
        snapshot: &Snapshot,
        job: &Job,
        group: &TaskGroup,
        leaving: &BTreeSet<AllocId>,
    ) -> Self {
        let mut distinct = Self {
            hosts_of_job: wants_hosts(&job.constraints),
            hosts_of_group: wants_hosts(&group.constraints),
            ..Self::default()
        };
        let of_job = properties(&job.constraints, false);
        let of_group = properties(&group.constraints, true);
        let of_tasks = group
            .tasks
            .iter()
            .flat_map(|task| properties(&task.constraints, true));
        distinct.properties = of_job.into_iter().chain(of_group).chain(of_tasks).collect();
        if distinct.is_idle() {
            return distinct;
        }
        let key = job.key();
        let stands = snapshot
            .allocs_by_job(&key)
            .filter(|alloc| !alloc.terminal() && !leaving.contains(&alloc.id));
        for alloc in stands {
            let node = snapshot.node(alloc.node_id).map(|record| &*record.node);
            distinct.take(alloc, alloc.task_group == group.name, node);
        }
        distinct
    }

    /// Whether nothing is asked.
    pub(crate) fn is_idle(&self) -> bool {
        !self.hosts_of_job && !self.hosts_of_group && self.properties.is_empty()
    }

    /// An allocation of this group was just placed.
    pub(crate) fn place(&mut self, alloc: &Allocation, node: &Node) {
        if !self.is_idle() {
            self.take(alloc, true, Some(node));
        }
    }

    /// Why `node` is out of the question, if it is.
    pub(crate) fn check(&self, node: &Node) -> Result<(), Reason> {
        let taken = (self.hosts_of_job && self.hosts.contains_key(&node.id))
            || (self.hosts_of_group && self.group_hosts.contains_key(&node.id));
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
                let text = format!(
                    "distinct_property: {}={value} used by {used} allocs",
                    property.attribute
                );
                return Err(Reason(text));
            }
        }
        Ok(())
    }

    fn take(&mut self, alloc: &Allocation, same_group: bool, node: Option<&Node>) {
        *self.hosts.entry(alloc.node_id).or_default() += 1;
        if same_group {
            *self.group_hosts.entry(alloc.node_id).or_default() += 1;
        }
        let Some(node) = node else { return };
        for property in self
            .properties
            .iter_mut()
            .filter(|one| same_group || !one.of_group)
        {
            if let Some(value) = target::resolve(&property.attribute, node).value() {
                *property.used.entry(value.to_owned()).or_default() += 1;
            }
        }
    }
}

fn wants_hosts(constraints: &[Constraint]) -> bool {
    constraints
        .iter()
        // Written as `distinct_hosts = true`; `false` switches it off.
        .any(|constraint| constraint.operand == "distinct_hosts" && constraint.r_target != "false")
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
