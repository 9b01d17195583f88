//! The rules of one policy, in the order of its document.

use crate::capability::{
    Capability, CapabilitySet, HostVolumeCapability, LevelRule, NamespaceCapabilities,
    NodePoolCapability, OperatorCapability, PluginCapability, SentinelCapability,
    VariableCapability,
};

/// The rules of one document. Capabilities are those that the document states: levels are already
/// resolved to capabilities, implications are added where the policy is compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    pub namespaces: Vec<NamespaceRule>,
    pub node_pools: Vec<Rule<NodePoolCapability>>,
    pub host_volumes: Vec<Rule<HostVolumeCapability>>,
    pub agent: Option<LevelRule>,
    pub node: Option<LevelRule>,
    pub quota: Option<LevelRule>,
    pub operator: Option<OperatorRule>,
    pub plugin: Option<CapabilitySet<PluginCapability>>,
    pub sentinel: Option<CapabilitySet<SentinelCapability>>,
}

/// Capabilities for a name, or for all names that a glob matches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule<C: Capability> {
    /// A name, or a pattern in which `*` stands for any characters.
    pub name: String,
    pub capabilities: CapabilitySet<C>,
}

/// A `namespace` block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceRule {
    /// A name, or a pattern in which `*` stands for any characters.
    pub name: String,
    pub capabilities: NamespaceCapabilities,
    /// The paths of its `variables` block.
    pub variables: Vec<Rule<VariableCapability>>,
}

/// The `operator` block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OperatorRule {
    /// Its `policy`, if there is one.
    pub level: Option<LevelRule>,
    /// Its capabilities, and those of its level.
    pub capabilities: CapabilitySet<OperatorCapability>,
}

impl Policy {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
