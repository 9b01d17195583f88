//! Access control decided: which rights the policies of a caller give.
//!
//! ```text
//! document --policy--> Policy --acl--> Acl <-- questions of routes
//! ```
//!
//! - [`capability`]: the rights that a policy can name, one enum per kind of object, with the
//!   levels (`policy = "write"`) that stand for several of them.
//! - [`policy`]: the rules of one document.
//! - [`names`]: names and descriptions of policies, roles and tokens.
//! - [`acl`]: the policies of a caller compiled, and the questions that routes ask.

pub mod acl;
pub mod capability;
pub mod names;
pub mod policy;

pub use self::acl::Acl;
pub use self::capability::{
    Capability, CapabilitySet, HostVolumeCapability, Level, LevelRule, NamespaceCapabilities,
    NamespaceCapability, NodePoolCapability, OperatorCapability, PluginCapability,
    SentinelCapability, VariableCapability,
};
pub use self::policy::{Policy, PolicyError, PolicyErrors};
