//! Access control decided: which rights the policies of a caller give, and how much it may ask.
//!
//! ```text
//! document --policy--> Policy --acl--> Acl <-- questions of routes
//!                      request, now --budget--> taken, or when to try again
//! ```
//!
//! - [`capability`]: the rights that a policy can name, one enum per kind of object, with the
//!   levels (`policy = "write"`) that stand for several of them.
//! - [`policy`]: the rules of one document.
//! - [`names`]: names and descriptions of policies, roles and tokens.
//! - [`need`]: the rights that a route asks, as data, and the verdict on them.
//! - [`acl`]: the policies of a caller compiled, and the questions that routes ask.
//! - [`budget`]: how many requests a caller may make, and how many places it may occupy.
//! - [`method`]: auth methods: which are stored, their secrets, the names of their tokens.
//! - [`jwt`], [`jwks`]: signed tokens and the keys that verify them.
//! - [`published_keys`]: the key set of this cluster's own keys.
//! - [`identity`]: what a signed workload identity says of its task.
//! - [`published_keys`]: the key set of this cluster's own keys.
//! - [`claims`], [`binding`]: what a login says about its user, and the rights that follow.
//! - [`oidc`]: logins through an OpenID provider, without memory on the servers.

pub mod acl;
pub mod binding;
pub mod budget;
pub mod capability;
pub mod claims;
pub mod identity;
pub mod jwks;
pub mod jwt;
pub mod method;
pub mod names;
pub mod need;
pub mod oidc;
pub mod policy;
pub mod published_keys;
mod requirement;
mod unique_json;

pub use self::acl::{Acl, OwnPaths};
pub use self::capability::{
    Capability, CapabilitySet, HostVolumeCapability, Level, LevelRule, NamespaceCapabilities,
    NamespaceCapability, NodePoolCapability, OperatorCapability, PluginCapability,
    SentinelCapability, VariableCapability,
};
pub use self::policy::{Policy, PolicyError, PolicyErrors};
pub use self::requirement::Requirement;
