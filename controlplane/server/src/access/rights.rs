//! Compiled rights, kept under what they were compiled from.
//!
//! ```text
//!  accessor ─► Found{indexes, compiled}   no table has moved: these
//!                  │ only policies moved, none of its own (PolicyChanges): these
//!                  └─► versions of its policies ─► compiled rights ─► parsed policies
//! ```

use std::sync::Arc;

use controlplane_state::{AclToken, Snapshot, Table};
use protocol_access::{Acl, Policy};

use super::Workload;
use super::cache::Cache;
use super::policy_changes::PolicyChanges;

/// Parsed policies that are kept.
const POLICIES_MAX: usize = 4096;
/// Compiled rights that are kept.
const RIGHTS_MAX: usize = 1024;
/// Tokens whose rights are kept.
const TOKENS_MAX: usize = 16_384;
/// Workloads whose rights are kept. All allocations of a task share them.
const WORKLOADS_MAX: usize = 4096;

/// A policy's name and the entry that wrote it; `None` where there is no such policy.
type PolicyVersion = (String, Option<u64>);

/// Rights and the policies that they come from, by name. A policy that is missing is among them:
/// the rights change when it is made.
#[derive(Clone, Debug)]
struct Compiled {
    versions: Arc<[PolicyVersion]>,
    acl: Arc<Acl>,
}

/// Rights that were found, and the indexes of what they were found in.
#[derive(Clone, Debug)]
struct Found {
    /// Of the token.
    token: u64,
    /// Of the table of policies.
    policies: u64,
    /// Of the table of roles.
    roles: u64,
    compiled: Compiled,
}

/// See the top of this file.
#[derive(Debug)]
pub(super) struct Rights {
    policies: Cache<(String, u64), Arc<Policy>>,
    compiled: Cache<Arc<[PolicyVersion]>, Arc<Acl>>,
    /// By accessor id; empty for callers without a credential.
    tokens: Cache<Arc<str>, Found>,
    changes: PolicyChanges,
    workloads: Cache<WorkloadKey, FoundWorkload>,
}

/// Namespace, job, group and task.
type WorkloadKey = [Arc<str>; 4];

/// Rights of a workload, and the index of the policies that they were found in. A policy may join
/// it at any time, so each change of the table has its policies looked up again.
#[derive(Clone, Debug)]
struct FoundWorkload {
    policies: u64,
    versions: Arc<[PolicyVersion]>,
    acl: Arc<Acl>,
}

impl Rights {
    pub(super) fn new() -> Self {
        Self {
            policies: Cache::new(POLICIES_MAX),
            compiled: Cache::new(RIGHTS_MAX),
            tokens: Cache::new(TOKENS_MAX),
            changes: PolicyChanges::default(),
            workloads: Cache::new(WORKLOADS_MAX),
        }
    }

    /// The rights of a client token.
    pub(super) fn of_token(
        &mut self,
        snapshot: &Snapshot,
        token: &AclToken,
        accessor_id: &Arc<str>,
    ) -> Arc<Acl> {
        let names = || policies_of(snapshot, token);
        self.find(snapshot, accessor_id, token.modify_index, names)
    }

    /// The rights of callers without a credential, which have one policy.
    pub(super) fn of_anonymous(&mut self, snapshot: &Snapshot, policy: &str) -> Arc<Acl> {
        self.find(snapshot, &"".into(), 0, || vec![policy.to_owned()])
    }

    /// The rights of a workload: those of the policies that join it, and of its own variables.
    pub(super) fn of_workload(&mut self, snapshot: &Snapshot, workload: &Workload) -> Arc<Acl> {
        let policies = snapshot.table_index(&[Table::AclPolicies]);
        let Workload {
            namespace,
            job,
            group,
            task,
            ..
        } = workload;
        let key = [namespace, job, group, task].map(Arc::clone);
        let found = self.workloads.find(&key);
        if let Some(found) = &found
            && found.policies == policies
        {
            return Arc::clone(&found.acl);
        }
        let Compiled { versions, acl } = self.compiled(snapshot, workload.policies(snapshot));
        let same = found.filter(|found| found.versions == versions);
        let acl = match same {
            Some(found) => found.acl,
            None => Arc::new(acl.of_workload(workload.own_paths())),
        };
        let found = FoundWorkload {
            policies,
            versions,
            acl: Arc::clone(&acl),
        };
        self.workloads.insert(key, found);
        acl
    }

    fn find(
        &mut self,
        snapshot: &Snapshot,
        accessor_id: &Arc<str>,
        token: u64,
        names: impl FnOnce() -> Vec<String>,
    ) -> Arc<Acl> {
        let policies = snapshot.table_index(&[Table::AclPolicies]);
        let roles = snapshot.table_index(&[Table::AclRoles]);
        self.changes.take(snapshot);
        let found = self.tokens.find(accessor_id);
        let found = found.filter(|found| (found.token, found.roles) == (token, roles));
        let found = found.filter(|found| !self.concerned(found, policies));
        let was_at = found.as_ref().map(|found| found.policies);
        let compiled = match found {
            Some(found) => found.compiled,
            None => self.compiled(snapshot, names()),
        };
        let acl = Arc::clone(&compiled.acl);
        if was_at != Some(policies) {
            let found = Found {
                token,
                policies,
                roles,
                compiled,
            };
            self.tokens.insert(Arc::clone(accessor_id), found);
        }
        acl
    }

    /// Whether a policy of these rights may have changed until the policies of the index `until`.
    fn concerned(&self, found: &Found, until: u64) -> bool {
        let versions = &found.compiled.versions;
        let is_own = |name: &str| {
            let own = versions.binary_search_by(|(own, _)| own.as_str().cmp(name));
            own.is_ok()
        };
        self.changes.touch(found.policies, until, is_own)
    }

    fn compiled(&mut self, snapshot: &Snapshot, mut names: Vec<String>) -> Compiled {
        names.sort_unstable();
        names.dedup();
        let version = |name: String| {
            let written = snapshot.acl_policy(&name).map(|it| it.modify_index);
            (name, written)
        };
        let versions: Arc<[PolicyVersion]> = names.into_iter().map(version).collect();
        if let Some(acl) = self.compiled.find(&versions) {
            return Compiled { versions, acl };
        }
        let there = versions
            .iter()
            .filter_map(|(name, written)| Some((name.clone(), (*written)?)));
        let policies = there.map(|version| self.policy(snapshot, version));
        // A policy that cannot be read may hold a `deny`: without it no right is certain.
        let acl = match policies.collect::<Option<Vec<Arc<Policy>>>>() {
            Some(policies) => Acl::compile(policies.iter().map(AsRef::as_ref)),
            None => Acl::nothing(),
        };
        let acl = Arc::new(acl);
        self.compiled
            .insert(Arc::clone(&versions), Arc::clone(&acl));
        Compiled { versions, acl }
    }

    fn policy(&mut self, snapshot: &Snapshot, version: (String, u64)) -> Option<Arc<Policy>> {
        if let Some(policy) = self.policies.find(&version) {
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
        self.policies.insert(version, Arc::clone(&policy));
        Some(policy)
    }
}

/// The policies of a token: its own, and those of its roles.
fn policies_of(snapshot: &Snapshot, token: &AclToken) -> Vec<String> {
    let mut names = token.policies.clone();
    for role in token.roles.iter().filter_map(|id| snapshot.acl_role(id)) {
        names.extend(role.policies.iter().cloned());
    }
    names
}
