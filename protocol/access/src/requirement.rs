//! Rights at a known place: servers exchange them, so that the leader judges a write again.

use crate::acl::Acl;
use crate::capability::{
    HostVolumeCapability, Level, NamespaceCapability, NodePoolCapability, OperatorCapability,
    VariableCapability,
};

/// A right that a write needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Requirement {
    /// A management token.
    Management,
    /// In a namespace, all capabilities of one of these sets.
    Namespace {
        /// The namespace.
        namespace: String,
        /// The sets.
        any: Vec<Vec<NamespaceCapability>>,
    },
    /// A capability on a node pool.
    NodePool {
        /// The pool.
        node_pool: String,
        /// The capability.
        capability: NodePoolCapability,
    },
    /// One of these capabilities on a host volume.
    HostVolume {
        /// The volume.
        volume: String,
        /// The capabilities.
        any: Vec<HostVolumeCapability>,
    },
    /// A capability on a variable.
    Variable {
        /// Its namespace.
        namespace: String,
        /// Its path.
        path: String,
        /// The capability.
        capability: VariableCapability,
    },
    /// A level on nodes.
    Node(Level),
    /// A level on agents.
    Agent(Level),
    /// A level on the routes of operators.
    OperatorLevel(Level),
    /// A capability of operators.
    Operator(OperatorCapability),
}

impl Requirement {
    /// Whether a caller with these rights has it.
    pub fn holds(&self, acl: &Acl) -> bool {
        match self {
            Self::Management => acl.is_management(),
            Self::Namespace { namespace, any } => {
                let here = |it: &NamespaceCapability| acl.namespace(namespace, *it);
                any.iter().any(|all| all.iter().all(here))
            }
            Self::NodePool {
                node_pool,
                capability,
            } => acl.node_pool(node_pool, *capability),
            Self::HostVolume { volume, any } => any.iter().any(|it| acl.host_volume(volume, *it)),
            Self::Variable {
                namespace,
                path,
                capability,
            } => acl.variable(namespace, path, *capability),
            Self::Node(level) => acl.node(*level),
            Self::Agent(level) => acl.agent(*level),
            Self::OperatorLevel(level) => acl.operator_level(*level),
            Self::Operator(capability) => acl.operator(*capability),
        }
    }
}
