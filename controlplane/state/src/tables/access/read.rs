//! The questions about access control that can be asked of a snapshot.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use protocol_model::{JobKey, UnixNanos};
use uuid::Uuid;

use super::super::{Table, Tables};
use crate::access::{
    AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, OneTimeToken, RootKey,
    RootKeyState,
};
use crate::record::Digest;

/// The tables that the rights of callers depend on.
const RIGHTS: [Table; 3] = [Table::AclTokens, Table::AclPolicies, Table::AclRoles];

/// Tokens.
impl Tables {
    /// The index at which the rights of some caller last changed: of tokens, policies and roles.
    pub fn acl_index(&self) -> u64 {
        self.table_index(&RIGHTS)
    }

    /// All access tokens, by accessor id. Expired ones stay for a while.
    pub fn acl_tokens(&self) -> impl Iterator<Item = &Arc<AclToken>> + '_ {
        self.access.tokens.values()
    }

    /// The access tokens whose accessor id is above `after`, by accessor id.
    pub fn acl_tokens_after<'a>(
        &'a self,
        after: &'a str,
    ) -> impl Iterator<Item = &'a Arc<AclToken>> + 'a {
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        self.access
            .tokens
            .range::<_, str>(bounds)
            .map(|(_, token)| token)
    }

    /// The access tokens whose accessor id begins with `prefix`, by accessor id.
    pub fn acl_tokens_with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = &'a Arc<AclToken>> + 'a {
        let bounds = (Bound::Included(prefix), Bound::Unbounded);
        let tokens = self.access.tokens.range::<_, str>(bounds);
        tokens
            .map(|(_, token)| token)
            .take_while(move |token| token.accessor_id.starts_with(prefix))
    }

    /// One access token, by accessor id.
    pub fn acl_token(&self, accessor_id: &str) -> Option<&Arc<AclToken>> {
        self.access.tokens.get(accessor_id)
    }

    /// The access token with this secret, expired or not.
    pub fn token_by_secret(&self, secret_hash: &Digest) -> Option<&Arc<AclToken>> {
        let places = (*secret_hash, 0)..=(*secret_hash, u64::MAX);
        let mut tokens = self.access.tokens_by_secret.range(places);
        tokens.next().map(|(_, token)| token)
    }

    /// The access tokens that expire, by expiration and accessor id.
    pub fn acl_tokens_by_expiry(&self) -> impl Iterator<Item = (UnixNanos, &str)> + '_ {
        let places = self.access.tokens_by_expiry.iter();
        places.map(|(expiration, accessor)| (*expiration, accessor.as_str()))
    }
}

/// The policies of one state, kept to be compared with those of a later one. They share memory with
/// the state's own, and keep no other table.
#[derive(Clone, Debug, Default)]
pub struct KeptPolicies(OrdMap<String, Arc<AclPolicy>>);

impl KeptPolicies {
    /// The names of the policies that were written, made or deleted from these to `later`, by name.
    /// It takes time for the differences, not for all policies.
    pub fn changed_names<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = &'a str> + 'a {
        self.0.diff(&later.0).map(|difference| match difference {
            DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name.as_str(),
            DiffItem::Update { new: (name, _), .. } => name.as_str(),
        })
    }
}

/// Policies and roles.
impl Tables {
    /// All policies, to be compared with those of another state.
    pub fn kept_policies(&self) -> KeptPolicies {
        KeptPolicies(self.access.policies.clone())
    }

    /// All policies, by name.
    pub fn acl_policies(&self) -> impl Iterator<Item = &Arc<AclPolicy>> + '_ {
        self.access.policies.values()
    }

    /// One policy.
    pub fn acl_policy(&self, name: &str) -> Option<&Arc<AclPolicy>> {
        self.access.policies.get(name)
    }

    /// The policies that name exactly this namespace and job, by name; with an empty job id those
    /// that join all jobs of the namespace.
    pub fn acl_policies_of_job(&self, key: &JobKey) -> impl Iterator<Item = &Arc<AclPolicy>> + '_ {
        let names = self.access.policies_by_job.get(key);
        let names = names.into_iter().flatten();
        names.filter_map(|name| self.acl_policy(name))
    }

    /// All roles, by id.
    pub fn acl_roles(&self) -> impl Iterator<Item = &Arc<AclRole>> + '_ {
        self.access.roles.values()
    }

    /// One role, by id.
    pub fn acl_role(&self, id: &str) -> Option<&Arc<AclRole>> {
        self.access.roles.get(id)
    }

    /// One role, by name.
    pub fn acl_role_by_name(&self, name: &str) -> Option<&Arc<AclRole>> {
        self.acl_role(self.access.roles_by_name.get(name)?)
    }
}

/// Auth methods and binding rules.
impl Tables {
    /// All auth methods, by name.
    pub fn auth_methods(&self) -> impl Iterator<Item = &Arc<AclAuthMethod>> + '_ {
        self.access.auth_methods.values()
    }

    /// One auth method.
    pub fn auth_method(&self, name: &str) -> Option<&Arc<AclAuthMethod>> {
        self.access.auth_methods.get(name)
    }

    /// The auth method of logins that name none.
    pub fn default_auth_method(&self) -> Option<&Arc<AclAuthMethod>> {
        self.auth_methods().find(|method| method.default)
    }

    /// All binding rules, by id.
    pub fn binding_rules(&self) -> impl Iterator<Item = &Arc<AclBindingRule>> + '_ {
        self.access.binding_rules.values()
    }

    /// One binding rule.
    pub fn binding_rule(&self, id: &str) -> Option<&Arc<AclBindingRule>> {
        self.access.binding_rules.get(id)
    }

    /// The binding rules of an auth method, by id.
    pub fn binding_rules_of(
        &self,
        method: &str,
    ) -> impl Iterator<Item = &Arc<AclBindingRule>> + '_ {
        let ids = self.access.rules_by_method.get(method);
        let ids = ids.into_iter().flatten();
        ids.filter_map(|id| self.binding_rule(id))
    }
}

/// One-time tokens and root keys.
impl Tables {
    /// One one-time token, by the digest of its secret; expired or not.
    pub fn one_time_token(&self, digest: &Digest) -> Option<&Arc<OneTimeToken>> {
        self.access.one_time_tokens.get(digest)
    }

    /// The one-time tokens, by expiration and digest.
    pub fn one_time_tokens_by_expiry(&self) -> impl Iterator<Item = (UnixNanos, Digest)> + '_ {
        self.access.one_time_by_expiry.iter().copied()
    }

    /// All root keys, by number.
    pub fn root_keys(&self) -> impl Iterator<Item = &Arc<RootKey>> + '_ {
        self.access.root_keys.values()
    }

    /// One root key, by its number.
    pub fn root_key(&self, number: u32) -> Option<&Arc<RootKey>> {
        self.access.root_keys.get(&number)
    }

    /// One root key, by its id.
    pub fn root_key_by_id(&self, id: Uuid) -> Option<&Arc<RootKey>> {
        self.root_keys().find(|key| key.id == id)
    }

    /// The root key that seals and signs; `None` before the first one is made.
    pub fn active_root_key(&self) -> Option<&Arc<RootKey>> {
        let mut keys = self.root_keys();
        keys.find(|key| key.state == RootKeyState::Active)
    }
}
