//! The root keys that values are sealed with: counted by key, so that a key goes when none is left.
//! The table of variables knows its own by their names.

use std::sync::Arc;

use super::super::Tables;
use super::AccessTables;
use crate::access::{AclAuthMethod, AclToken, Sealed, SealedCounts};

/// The values that are counted apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SealedKind {
    Token,
    Method,
}

impl SealedKind {
    fn of(self, counts: &mut SealedCounts) -> &mut u64 {
        match self {
            Self::Token => &mut counts.tokens,
            Self::Method => &mut counts.methods,
        }
    }
}

impl AccessTables {
    /// A row has this value from now on.
    pub(crate) fn seal_added(&mut self, kind: SealedKind, sealed: Option<&Sealed>) {
        if let Some(sealed) = sealed {
            let mut counts = self.sealed_by_key.get(&sealed.key).copied();
            let counts = counts.get_or_insert_default();
            *kind.of(counts) += 1;
            self.sealed_by_key.insert(sealed.key, *counts);
        }
    }

    /// A row had this value until now.
    pub(crate) fn seal_removed(&mut self, kind: SealedKind, sealed: Option<&Sealed>) {
        let Some(key) = sealed.map(|sealed| sealed.key) else {
            return;
        };
        let Some(mut counts) = self.sealed_by_key.get(&key).copied() else {
            return;
        };
        let count = kind.of(&mut counts);
        *count = count.saturating_sub(1);
        if counts.is_empty() {
            self.sealed_by_key.remove(&key);
        } else {
            self.sealed_by_key.insert(key, counts);
        }
    }
}

impl Tables {
    /// How many values are sealed with a root key.
    pub fn sealed_with(&self, number: u32) -> SealedCounts {
        let counts = self.access.sealed_by_key.get(&number);
        let variables = self.count_variables_of_root_key(number);
        SealedCounts {
            variables: u64::try_from(variables).unwrap_or(u64::MAX),
            ..counts.copied().unwrap_or_default()
        }
    }

    /// Whether something needs a root key: a value that is sealed with it, or the identities of a
    /// live allocation that it signs.
    pub fn needs_root_key(&self, number: u32) -> bool {
        !self.sealed_with(number).is_empty() || self.live_allocs_of_key(number) > 0
    }

    /// The same token with its secret sealed anew. Readers of the table do not see it change.
    pub(crate) fn reseal_acl_token(&mut self, token: AclToken) {
        let access = &mut self.access;
        let before = access.tokens.get(&token.accessor_id).map(Arc::clone);
        let before = before.as_ref().and_then(|before| before.sealed.as_ref());
        access.seal_removed(SealedKind::Token, before);
        access.seal_added(SealedKind::Token, token.sealed.as_ref());
        let token = Arc::new(token);
        let secret = (token.secret_hash, token.create_index);
        access.tokens_by_secret.insert(secret, Arc::clone(&token));
        access.tokens.insert(token.accessor_id.clone(), token);
    }

    /// The same auth method with its secrets sealed anew. Readers do not see it change.
    pub(crate) fn reseal_auth_method(&mut self, method: AclAuthMethod) {
        let access = &mut self.access;
        let before = access.auth_methods.get(&method.name).map(Arc::clone);
        let before = before.as_ref().and_then(|before| before.sealed.as_ref());
        access.seal_removed(SealedKind::Method, before);
        access.seal_added(SealedKind::Method, method.sealed.as_ref());
        let name = method.name.clone();
        access.auth_methods.insert(name, Arc::new(method));
    }
}
