//! The tables of access control and what is derived from them.

mod put;
mod read;
mod seals;

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use protocol_model::{JobKey, UnixNanos};

use crate::access::{
    AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, OneTimeToken, RootKey,
    SealedCounts,
};
use crate::record::Digest;
pub use read::KeptPolicies;

/// The tables of access control.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessTables {
    /// By accessor.
    pub(crate) tokens: OrdMap<String, Arc<AclToken>>,
    /// By name.
    pub(crate) policies: OrdMap<String, Arc<AclPolicy>>,
    /// By id.
    pub(crate) roles: OrdMap<String, Arc<AclRole>>,
    /// By name.
    pub(crate) auth_methods: OrdMap<String, Arc<AclAuthMethod>>,
    /// By id.
    pub(crate) binding_rules: OrdMap<String, Arc<AclBindingRule>>,
    /// By the digest of their secret.
    pub(crate) one_time_tokens: OrdMap<Digest, Arc<OneTimeToken>>,
    /// By number.
    pub(crate) root_keys: OrdMap<u32, Arc<RootKey>>,
    /// The number that the newest root key got, which may be gone.
    pub(crate) root_keys_numbered: u32,
    /// Whether placements are stamped with the active root key.
    pub(crate) identities_begun: bool,

    // Derived.
    /// By digest and create index: older releases let two bootstraps use one secret.
    pub(crate) tokens_by_secret: OrdMap<(Digest, u64), Arc<AclToken>>,
    /// Tokens that expire.
    pub(crate) tokens_by_expiry: OrdSet<(UnixNanos, String)>,
    /// Policies that join workloads. An empty job id stands for all jobs of the namespace.
    pub(crate) policies_by_job: OrdMap<JobKey, OrdSet<String>>,
    pub(crate) roles_by_name: OrdMap<String, String>,
    pub(crate) rules_by_method: OrdMap<String, OrdSet<String>>,
    /// By the access token that they stand for.
    pub(crate) one_time_by_accessor: OrdMap<String, Digest>,
    pub(crate) one_time_by_expiry: OrdSet<(UnixNanos, Digest)>,
    /// By root key; no row without a value.
    pub(crate) sealed_by_key: OrdMap<u32, SealedCounts>,
}
