//! Secrets of tokens and auth methods move to the active root key.

use super::outcome;
use crate::access::{AclAuthMethod, AclToken};
use crate::applied::{AccessRefusal, Outcome, Refusal};
use crate::apply::Draft;
use crate::command::{REKEY_VALUES_MAX, TokensRekey, VariablesRekey};
use crate::variable::Variable;

impl Draft {
    /// Replaces each seal that is still the one that was opened: a value that was written since has
    /// the key of its own time. No index moves, since no value changes.
    pub(super) fn tokens_rekey(&mut self, command: TokensRekey) -> Result<Outcome, Refusal> {
        let TokensRekey { tokens, methods } = command;
        let (found, max) = (tokens.len() + methods.len(), REKEY_VALUES_MAX);
        if found > max {
            return Err(AccessRefusal::TooManyRows { found, max }.into());
        }
        let mut changed = false;
        for resealed in tokens {
            let Some(token) = self.tables.acl_token(&resealed.name) else {
                continue;
            };
            if !token
                .sealed
                .as_ref()
                .is_some_and(|it| resealed.replaces(it))
            {
                continue;
            }
            let sealed = Some(resealed.sealed);
            let token = AclToken {
                sealed,
                ..AclToken::clone(token)
            };
            self.take_sealed(token.sealed.as_ref())?;
            self.tables.reseal_acl_token(token);
            changed = true;
        }
        for resealed in methods {
            let Some(method) = self.tables.auth_method(&resealed.name) else {
                continue;
            };
            if !method
                .sealed
                .as_ref()
                .is_some_and(|it| resealed.replaces(it))
            {
                continue;
            }
            let sealed = Some(resealed.sealed);
            let method = AclAuthMethod {
                sealed,
                ..AclAuthMethod::clone(method)
            };
            self.take_sealed(method.sealed.as_ref())?;
            self.tables.reseal_auth_method(method);
            changed = true;
        }
        Ok(outcome(changed))
    }
    /// The same for the items of variables: no modify index changes, and no blocking query returns.
    pub(crate) fn variables_rekey(&mut self, command: VariablesRekey) -> Result<Outcome, Refusal> {
        let (found, max) = (command.variables.len(), REKEY_VALUES_MAX);
        if found > max {
            return Err(AccessRefusal::TooManyRows { found, max }.into());
        }
        let mut changed = false;
        for resealed in command.variables {
            let Some(variable) = self.tables.variable(&resealed.key) else {
                continue;
            };
            if (variable.sealed.key, variable.sealed.nonce) != resealed.replaces {
                continue;
            }
            let variable = Variable {
                sealed: resealed.sealed,
                ..Variable::clone(variable)
            };
            self.take_variable_seal(&variable.sealed)?;
            self.tables.put_variable_unseen(variable);
            changed = true;
        }
        Ok(outcome(changed))
    }
}
