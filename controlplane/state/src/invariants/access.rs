//! Access control: what is derived from its tables, and what holds between their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::derived::is_index;
use super::{Found, Rule};
use crate::access::{RootKeyState, Sealed, SealedCounts};
use crate::tables::Tables;

pub(super) fn indexes(tables: &Tables, found: &mut Found) {
    let access = &tables.access;
    let mut same = |name: &'static str, same: bool| {
        found.unless(same, Rule::SecondaryIndex, || name.to_owned());
    };
    let by_secret = access.tokens_by_secret.iter().all(|(place, token)| {
        let row = tables.acl_token(&token.accessor_id);
        *place == (token.secret_hash, token.create_index)
            && row.is_some_and(|row| Arc::ptr_eq(row, token))
    });
    let complete = access.tokens_by_secret.len() == access.tokens.len();
    same("tokens by secret", by_secret && complete);
    let expiring = access.tokens.values();
    let by_expiry: BTreeSet<_> = expiring
        .filter_map(|token| Some((token.expiration?, token.accessor_id.clone())))
        .collect();
    same(
        "tokens by expiry",
        by_expiry.iter().eq(&access.tokens_by_expiry),
    );
    let joining = access.policies.values();
    let joining = joining.filter(|policy| policy.job_key().is_some()).count();
    let by_job = is_index(&access.policies_by_job, joining, |key, name| {
        let policy = tables.acl_policy(name);
        policy.is_some_and(|policy| policy.job_key().as_ref() == Some(key))
    });
    same("policies by job", by_job);
    let by_name = access.roles_by_name.iter().all(|(name, id)| {
        let role = tables.acl_role(id);
        role.is_some_and(|role| role.name == *name)
    });
    let complete = access.roles_by_name.len() == access.roles.len();
    same("roles by name", by_name && complete);
    let rules = access.binding_rules.len();
    let by_method = is_index(&access.rules_by_method, rules, |method, id| {
        let rule = tables.binding_rule(id);
        rule.is_some_and(|rule| rule.auth_method == *method)
    });
    same("binding rules by method", by_method);
    let of_accessor = |accessor: &String| access.one_time_by_accessor.get(accessor);
    let one_time = access.one_time_tokens.iter().all(|(digest, token)| {
        let place = (token.expires, *digest);
        of_accessor(&token.accessor_id) == Some(digest)
            && access.one_time_by_expiry.contains(&place)
    });
    let count = access.one_time_tokens.len();
    let mut sealed: BTreeMap<u32, SealedCounts> = BTreeMap::new();
    for seal in tables.acl_tokens().filter_map(|it| it.sealed.as_ref()) {
        sealed.entry(seal.key).or_default().tokens += 1;
    }
    for seal in tables.auth_methods().filter_map(|it| it.sealed.as_ref()) {
        sealed.entry(seal.key).or_default().methods += 1;
    }
    same(
        "values by root key",
        sealed.iter().eq(&access.sealed_by_key),
    );
    let complete =
        access.one_time_by_accessor.len() == count && access.one_time_by_expiry.len() == count;
    same("one-time tokens", one_time && complete);
}

pub(super) fn rows(tables: &Tables, found: &mut Found) {
    let defaults = tables.auth_methods().filter(|method| method.default);
    let count = defaults.count();
    found.unless(count <= 1, Rule::Access, || {
        format!("{count} default auth methods")
    });
    for rule in tables.binding_rules() {
        let known = tables.auth_method(&rule.auth_method).is_some();
        found.unless(known, Rule::Access, || {
            format!("binding rule {} has no auth method", rule.id)
        });
    }
    let active = tables
        .root_keys()
        .filter(|key| key.state == RootKeyState::Active);
    let count = active.count();
    let wanted = usize::from(tables.root_keys().next().is_some());
    found.unless(count == wanted, Rule::Access, || {
        format!("{count} active root keys")
    });
    let numbered = tables.access.root_keys_numbered;
    for (number, key) in &tables.access.root_keys {
        let in_place = *number == key.number && *number <= numbered;
        found.unless(in_place, Rule::Access, || format!("root key {number}"));
    }
    let mut opens = |of: &str, sealed: &Option<Sealed>| {
        let known = |sealed: &Sealed| tables.root_key(sealed.key).is_some();
        found.unless(sealed.as_ref().is_none_or(known), Rule::Access, || {
            format!("the root key of {of} is gone")
        });
    };
    for token in tables.acl_tokens() {
        opens(&token.accessor_id, &token.sealed);
    }
    for method in tables.auth_methods() {
        opens(&method.name, &method.sealed);
    }
}
