//! From a credential to a caller with its rights, on one snapshot of the state.

use std::net::IpAddr;
use std::sync::Arc;

use controlplane_state::{AclToken, AclTokenKind, Digest, Snapshot};
use parking_lot::Mutex;
use protocol_access::budget::Limits;
use protocol_access::{Acl, Policy};
use protocol_model::UnixNanos;

use super::budgets::CallerBudgets;
use super::cache::Cache;
use super::measure::Meters;
use super::{Asker, Caller, Credential, SharedBarrier};
use crate::config::Config;
use crate::planted::{Planted, PlantedBug};

/// Parsed policies that are kept.
const POLICIES_MAX: usize = 4096;
/// Compiled rights that are kept.
const RIGHTS_MAX: usize = 1024;
/// Tokens whose rights are kept.
const TOKENS_MAX: usize = 16_384;
/// The policy that callers without a credential have.
const ANONYMOUS: &str = "anonymous";

/// The reason why a credential is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Rejected {
    /// It does not look like one.
    Malformed,
    /// No token has it.
    Unknown,
    /// Its token has expired.
    Expired,
}

impl Rejected {
    /// The reason as metrics, logs and WhoAmI name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
        }
    }
}

/// A policy of the state and the entry that wrote it.
type PolicyVersion = (String, u64);

/// Rights that were found, and the indexes of the tables that they were found in.
#[derive(Clone, Debug)]
struct Found {
    indexes: [u64; 3],
    acl: Arc<Acl>,
}

#[derive(Debug)]
struct Caches {
    policies: Cache<PolicyVersion, Arc<Policy>>,
    rights: Cache<Vec<PolicyVersion>, Arc<Acl>>,
    /// By accessor id; empty for callers without a credential.
    tokens: Cache<String, Found>,
}

/// Finds callers. Clones of an `Arc` of it share the caches.
#[derive(Debug)]
pub(crate) struct Access {
    is_on: bool,
    management: Arc<Acl>,
    caches: Mutex<Caches>,
    meters: Meters,
    budgets: CallerBudgets,
    lookup_barrier: SharedBarrier,
    health_barrier: SharedBarrier,
    planted: Planted,
}

impl Access {
    /// Access control that is on or off.
    #[cfg(test)]
    pub(crate) fn new(is_on: bool) -> Self {
        Self::planted_with(is_on, None)
    }

    /// Access control that is on or off, with the bug that a simulator plants.
    pub(crate) fn planted_with(is_on: bool, bug: Option<PlantedBug>) -> Self {
        let caches = Caches {
            policies: Cache::new(POLICIES_MAX),
            rights: Cache::new(RIGHTS_MAX),
            tokens: Cache::new(TOKENS_MAX),
        };
        Self {
            is_on,
            management: Arc::new(Acl::management()),
            caches: Mutex::new(caches),
            meters: Meters::default(),
            budgets: CallerBudgets::new(Limits::default()),
            lookup_barrier: SharedBarrier::default(),
            health_barrier: SharedBarrier::default(),
            planted: Planted::new(bug),
        }
    }

    /// How often callers asked for what.
    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    /// How much callers may ask.
    pub(crate) fn budgets(&self) -> &CallerBudgets {
        &self.budgets
    }

    /// The barrier of those who ask for this server's health: they are never refused.
    pub(crate) fn health_barrier(&self) -> &SharedBarrier {
        &self.health_barrier
    }

    /// The barrier of credentials that are not known here: this server may lag behind the one that
    /// made the token. That a credential was unknown a moment ago says nothing of now, so none is
    /// remembered; the barrier is shared, and the address has a budget of failures.
    pub(crate) fn lookup_barrier(&self) -> &SharedBarrier {
        &self.lookup_barrier
    }

    /// Takes the settings that may change while a server runs: budgets, and labels of metrics.
    pub(crate) fn configure(&self, config: &Config) {
        self.meters.set_labels(config.telemetry.labels);
        self.budgets.set_limits(config.limits.budgets);
    }

    /// Whether access control is on.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The caller with this credential, as `snapshot` has it.
    ///
    /// # Errors
    /// If the credential is not valid.
    pub(crate) fn resolve(
        &self,
        snapshot: &Snapshot,
        credential: &Credential,
        address: IpAddr,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        if !self.is_on {
            return Ok(self.open(snapshot));
        }
        self.planted.caller(address, || match credential {
            Credential::Absent => Ok(self.anonymous(snapshot, address)),
            Credential::Malformed => Err(Rejected::Malformed),
            Credential::Secret(digest) => {
                let token = by_secret(snapshot, digest).ok_or(Rejected::Unknown)?;
                self.holder(snapshot, token, now)
            }
        })
    }

    /// The bug that a simulator planted here.
    pub(crate) fn planted(&self) -> &Planted {
        &self.planted
    }

    /// The holder of the token with this accessor id.
    ///
    /// # Errors
    /// If no token has it, or it has expired.
    pub(crate) fn by_accessor(
        &self,
        snapshot: &Snapshot,
        accessor_id: &str,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        let token = snapshot.acl_token(accessor_id).ok_or(Rejected::Unknown)?;
        self.holder(snapshot, token, now)
    }

    /// Any caller where access control is off.
    pub(super) fn open(&self, snapshot: &Snapshot) -> Asker {
        Asker {
            caller: Caller::Open,
            acl: Arc::clone(&self.management),
            expires: None,
            acl_index: snapshot.acl_index(),
        }
    }

    /// A caller without a credential.
    pub(crate) fn anonymous(&self, snapshot: &Snapshot, address: IpAddr) -> Asker {
        let names = || vec![ANONYMOUS.to_owned()];
        Asker {
            caller: Caller::Anonymous { address },
            acl: self.rights(snapshot, "", names),
            expires: None,
            acl_index: snapshot.acl_index(),
        }
    }

    fn holder(
        &self,
        snapshot: &Snapshot,
        token: &AclToken,
        now: UnixNanos,
    ) -> Result<Asker, Rejected> {
        // The later clock counts, so that a clock that was set back revives no token.
        let now = now.max(snapshot.now());
        if token.expiration.is_some_and(|expiration| expiration <= now) {
            return Err(Rejected::Expired);
        }
        let acl = match token.kind {
            AclTokenKind::Management => Arc::clone(&self.management),
            AclTokenKind::Client => {
                let names = || policies_of(snapshot, token);
                self.rights(snapshot, &token.accessor_id, names)
            }
        };
        Ok(Asker {
            caller: Caller::Token {
                accessor_id: token.accessor_id.as_str().into(),
                kind: token.kind,
            },
            acl,
            expires: token.expiration,
            acl_index: snapshot.acl_index(),
        })
    }

    /// The rights of a token, compiled from the policies that `names` lists.
    fn rights(
        &self,
        snapshot: &Snapshot,
        accessor_id: &str,
        names: impl FnOnce() -> Vec<String>,
    ) -> Arc<Acl> {
        let indexes = indexes(snapshot, accessor_id);
        let mut caches = self.caches.lock();
        let found = caches.tokens.find(&accessor_id.to_owned());
        if let Some(found) = found.filter(|found| found.indexes == indexes) {
            return found.acl;
        }
        let acl = caches.compiled(snapshot, names());
        let found = Found {
            indexes,
            acl: Arc::clone(&acl),
        };
        caches.tokens.insert(accessor_id.to_owned(), found);
        acl
    }
}

impl Caches {
    fn compiled(&mut self, snapshot: &Snapshot, names: Vec<String>) -> Arc<Acl> {
        let version = |name: String| {
            let policy = snapshot.acl_policy(&name)?;
            Some((name, policy.modify_index))
        };
        let mut versions: Vec<PolicyVersion> = names.into_iter().filter_map(version).collect();
        versions.sort_unstable();
        versions.dedup();
        if let Some(acl) = self.rights.find(&versions) {
            return acl;
        }
        let policies = versions
            .iter()
            .map(|version| self.policy(snapshot, version));
        // A policy that cannot be read may hold a `deny`: without it no right is certain.
        let acl = match policies.collect::<Option<Vec<Arc<Policy>>>>() {
            Some(policies) => Acl::compile(policies.iter().map(AsRef::as_ref)),
            None => Acl::nothing(),
        };
        let acl = Arc::new(acl);
        self.rights.insert(versions, Arc::clone(&acl));
        acl
    }

    fn policy(&mut self, snapshot: &Snapshot, version: &PolicyVersion) -> Option<Arc<Policy>> {
        if let Some(policy) = self.policies.find(version) {
            return Some(policy);
        }
        let rules = snapshot.acl_policy(&version.0).map(|it| it.rules.as_str());
        let parsed = Policy::parse_leniently(rules.unwrap_or_default());
        let policy = match parsed {
            Ok(policy) => Arc::new(policy),
            Err(error) => {
                let name = &version.0;
                tracing::warn!(policy = %name, %error, "policy unreadable: no rights with it");
                return None;
            }
        };
        self.policies.insert(version.clone(), Arc::clone(&policy));
        Some(policy)
    }
}

/// The indexes that rights depend on: the token's own, those of all policies, those of all roles.
fn indexes(snapshot: &Snapshot, accessor_id: &str) -> [u64; 3] {
    use controlplane_state::Table;
    let token = snapshot.acl_token(accessor_id);
    [
        token.map_or(0, |token| token.modify_index),
        snapshot.table_index(&[Table::AclPolicies]),
        snapshot.table_index(&[Table::AclRoles]),
    ]
}

fn by_secret<'a>(snapshot: &'a Snapshot, digest: &Digest) -> Option<&'a Arc<AclToken>> {
    snapshot.token_by_secret(digest)
}

/// The policies of a token: its own, and those of its roles.
fn policies_of(snapshot: &Snapshot, token: &AclToken) -> Vec<String> {
    let mut names = token.policies.clone();
    for role in token.roles.iter().filter_map(|id| snapshot.acl_role(id)) {
        names.extend(role.policies.iter().cloned());
    }
    names
}
