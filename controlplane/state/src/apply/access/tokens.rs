//! Access tokens.

use std::sync::Arc;

use super::{check_room, check_rows, outcome, without_repeats};
use crate::access::{ACL_TOKENS_MAX, AclToken};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal, Signal};
use crate::apply::Draft;
use crate::command::AclTokens;

impl Draft {
    pub(super) fn acl_tokens(&mut self, command: AclTokens) -> Result<Outcome, Refusal> {
        let changed = match command {
            AclTokens::Create { tokens } => self.acl_tokens_create(tokens)?,
            AclTokens::Update { tokens } => self.acl_tokens_update(tokens)?,
            AclTokens::Delete { accessors } => self.acl_tokens_delete(&accessors)?,
            AclTokens::Expire { accessors } => self.acl_tokens_expire(&accessors)?,
            AclTokens::Login {
                token,
                method,
                method_index,
            } => self.acl_tokens_login(*token, method, method_index)?,
        };
        if changed {
            self.signal(Signal::AclChanged);
        }
        Ok(outcome(changed))
    }

    fn acl_tokens_create(&mut self, tokens: Vec<AclToken>) -> Result<bool, AccessRefusal> {
        check_rows(&tokens)?;
        let changed = !tokens.is_empty();
        for (number, mut token) in tokens.into_iter().enumerate() {
            without_repeats(&mut token.policies);
            without_repeats(&mut token.roles);
            if let Some(fault) = token.fault(None) {
                return Err(AccessRefusal::InvalidToken { number, fault });
            }
            if self.tables.acl_token(&token.accessor_id).is_some() {
                return Err(AccessRefusal::TokenExists(token.accessor_id));
            }
            if self.tables.token_by_secret(&token.secret_hash).is_some() {
                return Err(AccessRefusal::SecretInUse(token.accessor_id));
            }
            let count = self.tables.access.tokens.len();
            check_room(AccessRows::Tokens, count, ACL_TOKENS_MAX)?;
            self.check_roles(&token.roles)?;
            self.take_sealed(token.sealed.as_ref())?;
            let expiration = token.ttl.map(|ttl| self.now.saturating_add(ttl));
            token.expiration = token.expiration.or(expiration);
            token.create_time = self.now;
            token.create_index = self.index;
            token.modify_index = self.index;
            self.tables.put_acl_token(token);
        }
        Ok(changed)
    }

    /// The token of a login whose method is still as it was checked. Another method of its name may
    /// be another provider's.
    fn acl_tokens_login(
        &mut self,
        token: AclToken,
        method: String,
        method_index: u64,
    ) -> Result<bool, AccessRefusal> {
        let known = self.tables.auth_method(&method);
        if known.is_none_or(|known| known.modify_index != method_index) {
            return Err(AccessRefusal::AuthMethodChanged(method));
        }
        self.acl_tokens_create(vec![token])
    }

    fn acl_tokens_update(&mut self, tokens: Vec<AclToken>) -> Result<bool, AccessRefusal> {
        check_rows(&tokens)?;
        let mut changed = false;
        for (number, mut token) in tokens.into_iter().enumerate() {
            let Some(before) = self.tables.acl_token(&token.accessor_id).map(Arc::clone) else {
                return Err(AccessRefusal::UnknownToken(token.accessor_id));
            };
            without_repeats(&mut token.policies);
            without_repeats(&mut token.roles);
            if let Some(fault) = token.fault(Some(&before)) {
                return Err(AccessRefusal::InvalidToken { number, fault });
            }
            // A link whose role is gone may stay.
            let is_new = |role: &&String| !before.roles.contains(*role);
            let added: Vec<String> = token.roles.iter().filter(is_new).cloned().collect();
            self.check_roles(&added)?;
            let mut token = AclToken {
                name: token.name,
                kind: token.kind,
                policies: token.policies,
                roles: token.roles,
                ..AclToken::clone(&before)
            };
            if token == *before {
                continue;
            }
            token.modify_index = self.index;
            self.tables.put_acl_token(token);
            changed = true;
        }
        Ok(changed)
    }

    fn check_roles(&self, ids: &[String]) -> Result<(), AccessRefusal> {
        match ids.iter().find(|id| self.tables.acl_role(id).is_none()) {
            Some(id) => Err(AccessRefusal::UnknownRole(id.clone())),
            None => Ok(()),
        }
    }

    fn acl_tokens_delete(&mut self, accessors: &[String]) -> Result<bool, AccessRefusal> {
        check_rows(accessors)?;
        let is_unknown = |accessor: &&String| self.tables.acl_token(accessor).is_none();
        let unknown: Vec<String> = accessors.iter().filter(is_unknown).cloned().collect();
        if !unknown.is_empty() {
            return Err(AccessRefusal::NonexistentTokens(unknown));
        }
        for accessor in accessors {
            self.tables.remove_acl_token(accessor);
        }
        Ok(!accessors.is_empty())
    }

    fn acl_tokens_expire(&mut self, accessors: &[String]) -> Result<bool, AccessRefusal> {
        check_rows(accessors)?;
        let mut changed = false;
        for accessor in accessors {
            let token = self.tables.acl_token(accessor);
            if token.is_some_and(|token| token.is_expired(self.now)) {
                self.tables.remove_acl_token(accessor);
                changed = true;
            }
        }
        Ok(changed)
    }
}
