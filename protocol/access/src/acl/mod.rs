//! Compiled rights: the policies of a caller united, and the questions that routes ask of them.
//!
//! ```text
//! policies --unite by name--> deny clears, implications added --> RuleTable per kind
//! name --> exact rule, else nearest glob --> capability in its set?
//! ```

mod glob;
mod own_paths;
mod table;

use self::glob::matches;
pub use self::own_paths::OwnPaths;
use self::table::{RuleTable, Rules};
use crate::capability::{
    Capability, CapabilitySet, HostVolumeCapability, Level, LevelRule, NamespaceCapability,
    NodePoolCapability, OperatorCapability, PluginCapability, SentinelCapability,
    VariableCapability,
};
use crate::policy::{Policy, Rule};

/// The name that stands for all namespaces in a request.
const ALL_NAMESPACES: &str = "*";

/// The rights of a caller. Every question is answered by `true` where the right is there.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    is_management: bool,
    namespaces: RuleTable<NamespaceCapability>,
    /// By namespace, NUL and path.
    variables: RuleTable<VariableCapability>,
    node_pools: RuleTable<NodePoolCapability>,
    host_volumes: RuleTable<HostVolumeCapability>,
    agent: Option<LevelRule>,
    node: Option<LevelRule>,
    quota: Option<LevelRule>,
    operator_level: Option<LevelRule>,
    operator: CapabilitySet<OperatorCapability>,
    plugin: CapabilitySet<PluginCapability>,
    sentinel: CapabilitySet<SentinelCapability>,
    /// Of a workload.
    own: Option<OwnPaths>,
}

impl Acl {
    /// Every right.
    pub fn management() -> Self {
        Self {
            is_management: true,
            ..Self::default()
        }
    }

    /// No right.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// The rights of policies together. Their order does not matter; rules of one name unite, and
    /// `deny` takes away all that other rules of this name give.
    pub fn compile<'p>(policies: impl IntoIterator<Item = &'p Policy>) -> Self {
        let mut united = United::default();
        for policy in policies {
            united.add(policy);
        }
        united.compiled()
    }

    /// These rights, and those that a workload has on its own variables.
    pub fn of_workload(&self, own: OwnPaths) -> Self {
        Self {
            own: Some(own),
            ..self.clone()
        }
    }

    pub fn is_management(&self) -> bool {
        self.is_management
    }

    /// A right in a namespace; in `*` it is there where any rule gives it.
    pub fn namespace(&self, name: &str, capability: NamespaceCapability) -> bool {
        if name == ALL_NAMESPACES {
            return self.in_some_namespace(capability);
        }
        self.is_management || self.namespaces.rights(name).contains(capability)
    }

    /// Any right in a namespace; in `*` any right at all in namespaces. Rights on its variables
    /// do not count.
    pub fn namespace_some(&self, name: &str) -> bool {
        if name == ALL_NAMESPACES {
            let mut rules = self.namespaces.iter();
            return self.is_management || rules.any(|(_, rights)| gives_any(rights));
        }
        self.is_management || gives_any(self.namespaces.rights(name))
    }

    /// Whether any rule gives the right in a namespace, be it one that does not exist.
    pub fn in_some_namespace(&self, capability: NamespaceCapability) -> bool {
        let mut rules = self.namespaces.iter();
        self.is_management || rules.any(|(_, rights)| rights.contains(capability))
    }

    /// A right on a variable: the rule of exactly this path, else a workload's own paths, else the
    /// nearest glob. A `deny` of the namespace has no effect here.
    pub fn variable(&self, namespace: &str, path: &str, capability: VariableCapability) -> bool {
        if self.is_management {
            return true;
        }
        // A NUL could shift the border between namespace and path.
        if namespace.contains('\0') || path.contains('\0') {
            return false;
        }
        let name = variable_name(namespace, path);
        if let Some(rights) = self.variables.exact(&name) {
            return rights.contains(capability);
        }
        let own = self.own.as_ref();
        own.is_some_and(|own| own.allow(namespace, path, capability))
            || self.variables.rights(&name).contains(capability)
    }

    /// Whether any rule gives a right on variables of a namespace; of `*`, on any variable.
    pub fn variables_some(&self, namespace: &str) -> bool {
        let gives = |(name, rights): (&str, _)| {
            let pattern = name.split('\0').next().unwrap_or_default();
            let concerns = namespace == ALL_NAMESPACES || matches(pattern, namespace);
            concerns && gives_any(rights)
        };
        let own = self.own.as_ref();
        let own = own.is_some_and(|own| [ALL_NAMESPACES, own.namespace()].contains(&namespace));
        self.is_management || own || self.variables.iter().any(gives)
    }

    /// Whether any rule gives the right on a variable, be it one that does not exist.
    pub fn in_some_variable(&self, capability: VariableCapability) -> bool {
        let mut rules = self.variables.iter();
        let own = self.own.is_some() && OwnPaths::gives(capability);
        self.is_management || own || rules.any(|(_, rights)| rights.contains(capability))
    }

    /// A right on a node pool.
    pub fn node_pool(&self, name: &str, capability: NodePoolCapability) -> bool {
        self.is_management || self.node_pools.rights(name).contains(capability)
    }

    /// Whether any rule gives the right on a node pool, be it one that does not exist.
    pub fn in_some_node_pool(&self, capability: NodePoolCapability) -> bool {
        let mut rules = self.node_pools.iter();
        self.is_management || rules.any(|(_, rights)| rights.contains(capability))
    }

    /// A right on the host volumes of a name.
    pub fn host_volume(&self, name: &str, capability: HostVolumeCapability) -> bool {
        self.is_management || self.host_volumes.rights(name).contains(capability)
    }

    /// A right on nodes.
    pub fn node(&self, level: Level) -> bool {
        self.level(self.node, level)
    }

    /// A right on agents.
    pub fn agent(&self, level: Level) -> bool {
        self.level(self.agent, level)
    }

    /// A right on quotas.
    pub fn quota(&self, level: Level) -> bool {
        self.level(self.quota, level)
    }

    /// A right on the operator's routes that have no capability of their own.
    pub fn operator_level(&self, level: Level) -> bool {
        self.level(self.operator_level, level)
    }

    /// A right of operators with a name of its own.
    pub fn operator(&self, capability: OperatorCapability) -> bool {
        self.is_management || self.operator.contains(capability)
    }

    /// A right on CSI plugins.
    pub fn plugin(&self, capability: PluginCapability) -> bool {
        self.is_management || self.plugin.contains(capability)
    }

    /// A right on Sentinel policies.
    pub fn sentinel(&self, capability: SentinelCapability) -> bool {
        self.is_management || self.sentinel.contains(capability)
    }

    fn level(&self, rule: Option<LevelRule>, level: Level) -> bool {
        self.is_management || rule.is_some_and(|rule| rule.allows(level))
    }
}

/// Whether a set that was compiled gives a right.
fn gives_any<C: Capability>(rights: CapabilitySet<C>) -> bool {
    !rights.is_empty() && !rights.is_denied()
}

/// The name that rules of variables are kept by.
fn variable_name(namespace: &str, path: &str) -> String {
    [namespace, path].join("\0")
}

/// Policies while they are united.
#[derive(Default)]
struct United {
    namespaces: Rules<NamespaceCapability>,
    variables: Rules<VariableCapability>,
    node_pools: Rules<NodePoolCapability>,
    host_volumes: Rules<HostVolumeCapability>,
    /// Everything that has no names.
    rest: Acl,
}

impl United {
    fn add(&mut self, policy: &Policy) {
        let Policy {
            namespaces,
            node_pools,
            host_volumes,
            agent,
            node,
            quota,
            operator,
            plugin,
            sentinel,
        } = policy;
        for rule in namespaces {
            unite(&mut self.namespaces, &rule.name, rule.capabilities);
            for path in &rule.variables {
                let name = variable_name(&rule.name, &path.name);
                unite(&mut self.variables, &name, path.capabilities);
            }
        }
        unite_all(&mut self.node_pools, node_pools);
        unite_all(&mut self.host_volumes, host_volumes);
        // Deny is the largest, no rule the smallest.
        let rest = &mut self.rest;
        rest.agent = rest.agent.max(*agent);
        rest.node = rest.node.max(*node);
        rest.quota = rest.quota.max(*quota);
        if let Some(rule) = operator {
            rest.operator_level = rest.operator_level.max(rule.level);
            rest.operator = rest.operator.union(rule.capabilities);
        }
        rest.plugin = rest.plugin.union(plugin.unwrap_or_default());
        rest.sentinel = rest.sentinel.union(sentinel.unwrap_or_default());
    }

    fn compiled(self) -> Acl {
        let mut operator = self.rest.operator;
        let mut operator_level = self.rest.operator_level;
        if operator_level == Some(LevelRule::Deny) || operator.is_denied() {
            operator_level = Some(LevelRule::Deny);
            operator.insert(OperatorCapability::Deny);
        }
        Acl {
            namespaces: RuleTable::new(self.namespaces),
            variables: RuleTable::new(self.variables),
            node_pools: RuleTable::new(self.node_pools),
            host_volumes: RuleTable::new(self.host_volumes),
            operator_level,
            operator: operator.effective(),
            plugin: self.rest.plugin.effective(),
            sentinel: self.rest.sentinel.effective(),
            ..self.rest
        }
    }
}

fn unite<C: Capability>(rules: &mut Rules<C>, name: &str, capabilities: CapabilitySet<C>) {
    match rules.get_mut(name) {
        Some(set) => *set = set.union(capabilities),
        None => {
            rules.insert(name.to_owned(), capabilities);
        }
    }
}

fn unite_all<C: Capability>(rules: &mut Rules<C>, added: &[Rule<C>]) {
    for Rule { name, capabilities } in added {
        unite(rules, name, *capabilities);
    }
}
