//! Access control decided: which rights the policies of a caller give.
//!
//! - [`capability`]: the rights that a policy can name, one enum per kind of object, with the
//!   levels (`policy = "write"`) that stand for several of them.

pub mod capability;
pub mod need;
mod requirement;

pub use self::capability::{
    Capability, CapabilitySet, HostVolumeCapability, Level, LevelRule, NamespaceCapabilities,
    NamespaceCapability, NodePoolCapability, OperatorCapability, PluginCapability,
    SentinelCapability, VariableCapability,
};
pub use self::requirement::Requirement;
