//! Changes of rows of access control, with everything that is derived from them.

use std::sync::Arc;

use super::super::{Table, Tables, index_insert, index_remove};
use super::seals::SealedKind;
use crate::access::{
    AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, OneTimeToken, RootKey,
};
use crate::record::Digest;

/// Tokens.
impl Tables {
    pub(crate) fn put_acl_token(&mut self, token: AclToken) {
        self.touch(Table::AclTokens);
        self.forget_acl_token(&token.accessor_id);
        let access = &mut self.access;
        access.seal_added(SealedKind::Token, token.sealed.as_ref());
        let token = Arc::new(token);
        let secret = (token.secret_hash, token.create_index);
        access.tokens_by_secret.insert(secret, Arc::clone(&token));
        if let Some(expiration) = token.expiration {
            let place = (expiration, token.accessor_id.clone());
            access.tokens_by_expiry.insert(place);
        }
        access.tokens.insert(token.accessor_id.clone(), token);
    }

    pub(crate) fn remove_acl_token(&mut self, accessor: &str) {
        if self.forget_acl_token(accessor) {
            self.touch(Table::AclTokens);
        }
    }

    fn forget_acl_token(&mut self, accessor: &str) -> bool {
        let access = &mut self.access;
        let Some(token) = access.tokens.remove(accessor) else {
            return false;
        };
        access.seal_removed(SealedKind::Token, token.sealed.as_ref());
        let secret = (token.secret_hash, token.create_index);
        access.tokens_by_secret.remove(&secret);
        if let Some(expiration) = token.expiration {
            let place = (expiration, token.accessor_id.clone());
            access.tokens_by_expiry.remove(&place);
        }
        true
    }
}

/// Policies and roles.
impl Tables {
    pub(crate) fn put_acl_policy(&mut self, policy: AclPolicy) {
        self.touch(Table::AclPolicies);
        self.forget_acl_policy(&policy.name);
        if let Some(key) = policy.job_key() {
            let name = policy.name.clone();
            index_insert(&mut self.access.policies_by_job, &key, name);
        }
        let policies = &mut self.access.policies;
        policies.insert(policy.name.clone(), Arc::new(policy));
    }

    pub(crate) fn remove_acl_policy(&mut self, name: &str) {
        if self.forget_acl_policy(name) {
            self.touch(Table::AclPolicies);
        }
    }

    fn forget_acl_policy(&mut self, name: &str) -> bool {
        let Some(policy) = self.access.policies.remove(name) else {
            return false;
        };
        if let Some(key) = policy.job_key() {
            index_remove(&mut self.access.policies_by_job, &key, &policy.name);
        }
        true
    }

    pub(crate) fn put_acl_role(&mut self, role: AclRole) {
        self.touch(Table::AclRoles);
        self.forget_acl_role(&role.id);
        let access = &mut self.access;
        access
            .roles_by_name
            .insert(role.name.clone(), role.id.clone());
        access.roles.insert(role.id.clone(), Arc::new(role));
    }

    pub(crate) fn remove_acl_role(&mut self, id: &str) {
        if self.forget_acl_role(id) {
            self.touch(Table::AclRoles);
        }
    }

    fn forget_acl_role(&mut self, id: &str) -> bool {
        let Some(role) = self.access.roles.remove(id) else {
            return false;
        };
        self.access.roles_by_name.remove(&role.name);
        true
    }
}

/// Auth methods and binding rules.
impl Tables {
    pub(crate) fn put_auth_method(&mut self, method: AclAuthMethod) {
        self.touch(Table::AclAuthMethods);
        self.reseal_auth_method(method);
    }

    /// Removes an auth method. Its rules are removed before.
    pub(crate) fn remove_auth_method(&mut self, name: &str) {
        if let Some(method) = self.access.auth_methods.remove(name) {
            let access = &mut self.access;
            access.seal_removed(SealedKind::Method, method.sealed.as_ref());
            self.touch(Table::AclAuthMethods);
        }
    }

    pub(crate) fn put_binding_rule(&mut self, rule: AclBindingRule) {
        self.touch(Table::AclBindingRules);
        self.forget_binding_rule(&rule.id);
        let access = &mut self.access;
        let id = rule.id.clone();
        index_insert(&mut access.rules_by_method, &rule.auth_method, id);
        access.binding_rules.insert(rule.id.clone(), Arc::new(rule));
    }

    pub(crate) fn remove_binding_rule(&mut self, id: &str) {
        if self.forget_binding_rule(id) {
            self.touch(Table::AclBindingRules);
        }
    }

    fn forget_binding_rule(&mut self, id: &str) -> bool {
        let access = &mut self.access;
        let Some(rule) = access.binding_rules.remove(id) else {
            return false;
        };
        index_remove(&mut access.rules_by_method, &rule.auth_method, &rule.id);
        true
    }
}

/// One-time tokens and root keys.
impl Tables {
    /// Puts a one-time token in place of the one that its access token has.
    pub(crate) fn put_one_time_token(&mut self, token: OneTimeToken) {
        self.touch(Table::OneTimeTokens);
        // No command repeats a digest; a checkpoint that somebody made may.
        self.remove_one_time_token(&token.digest);
        let before = self.access.one_time_by_accessor.get(&token.accessor_id);
        if let Some(before) = before.copied() {
            self.remove_one_time_token(&before);
        }
        let access = &mut self.access;
        let accessor = token.accessor_id.clone();
        access.one_time_by_accessor.insert(accessor, token.digest);
        let place = (token.expires, token.digest);
        access.one_time_by_expiry.insert(place);
        access.one_time_tokens.insert(token.digest, Arc::new(token));
    }

    pub(crate) fn remove_one_time_token(&mut self, digest: &Digest) {
        let access = &mut self.access;
        let Some(token) = access.one_time_tokens.remove(digest) else {
            return;
        };
        access.one_time_by_accessor.remove(&token.accessor_id);
        access.one_time_by_expiry.remove(&(token.expires, *digest));
        self.touch(Table::OneTimeTokens);
    }

    pub(crate) fn put_root_key(&mut self, key: RootKey) {
        self.touch(Table::RootKeys);
        let access = &mut self.access;
        access.root_keys_numbered = access.root_keys_numbered.max(key.number);
        access.root_keys.insert(key.number, Arc::new(key));
    }

    /// Removes a root key. Its number is never given again.
    pub(crate) fn remove_root_key(&mut self, number: u32) {
        if self.access.root_keys.remove(&number).is_some() {
            self.touch(Table::RootKeys);
        }
    }

    /// The number of the root key that a new allocation's identities are signed with; 0 before
    /// identities have begun.
    pub(crate) fn stamping_key(&self) -> u32 {
        match self.access.identities_begun {
            true => self.active_root_key().map_or(0, |key| key.number),
            false => 0,
        }
    }

    /// Counts a value that was sealed with a root key. Readers of the table do not see it change.
    pub(crate) fn count_seal(&mut self, number: u32) {
        if let Some(key) = self.access.root_keys.get_mut(&number) {
            let key = Arc::make_mut(key);
            key.seals = key.seals.saturating_add(1);
        }
    }
}
