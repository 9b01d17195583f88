//! Access control: tokens, policies, roles, auth methods, binding rules, one-time tokens and root
//! keys are made, changed and deleted.

mod keys;
mod logins;
mod one_time;
mod policies;
mod rekey;
mod resign;
mod roles;
mod tokens;

use super::draft::Draft;
use crate::access::{RootKeyState, SEALED_BYTES_MAX, Sealed};
use crate::applied::{AccessRefusal, AccessRows, Outcome, Refusal};
use crate::command::{ACCESS_ROWS_MAX, AccessCommand};
use crate::variable::VARIABLE_SEALED_BYTES_MAX;

impl From<AccessRefusal> for Refusal {
    fn from(refusal: AccessRefusal) -> Self {
        Self::Access(refusal)
    }
}

/// Whether anything changed.
fn outcome(changed: bool) -> Outcome {
    if changed {
        Outcome::Done
    } else {
        Outcome::NoOp
    }
}

/// Refuses a command of too many rows: applying it would hold up all others.
fn check_rows<T>(rows: &[T]) -> Result<(), AccessRefusal> {
    let (found, max) = (rows.len(), ACCESS_ROWS_MAX);
    if found > max {
        return Err(AccessRefusal::TooManyRows { found, max });
    }
    Ok(())
}

/// Refuses another row where a table is full.
fn check_room(rows: AccessRows, count: usize, max: usize) -> Result<(), AccessRefusal> {
    if count >= max {
        return Err(AccessRefusal::LimitReached { rows, max });
    }
    Ok(())
}

/// Each text once, at its first place.
fn without_repeats(texts: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    texts.retain(|text| seen.insert(text.clone()));
}

impl Draft {
    pub(crate) fn access(&mut self, command: AccessCommand) -> Result<Outcome, Refusal> {
        match command {
            AccessCommand::Policies(command) => self.acl_policies(command),
            AccessCommand::Tokens(command) => self.acl_tokens(command),
            AccessCommand::Roles(command) => self.acl_roles(command),
            AccessCommand::AuthMethods(command) => self.auth_methods(command),
            AccessCommand::BindingRules(command) => self.binding_rules(command),
            AccessCommand::OneTimeTokens(command) => self.one_time_tokens(command),
            AccessCommand::RootKeyUpsert(command) => self.root_key_upsert(*command),
            AccessCommand::RootKey(command) => self.root_key_change(command),
            AccessCommand::TokensRekey(command) => self.tokens_rekey(command),
            AccessCommand::AllocsResign(command) => self.allocs_resign(&command),
        }
    }

    /// Counts a value that comes with the command. Its key may be gone since it was sealed.
    pub(super) fn take_sealed(&mut self, sealed: Option<&Sealed>) -> Result<(), AccessRefusal> {
        match sealed {
            Some(sealed) => self.take_seal(sealed, SEALED_BYTES_MAX),
            None => Ok(()),
        }
    }

    /// Counts the items of a variable that come with the command. Their key seals: variables move
    /// away from a key once, and one that arrived at it afterwards would stay.
    pub(in crate::apply) fn take_variable_seal(
        &mut self,
        sealed: &Sealed,
    ) -> Result<(), AccessRefusal> {
        let key = self.tables.root_key(sealed.key);
        let seals = |state| matches!(state, RootKeyState::Active | RootKeyState::Rekeying);
        if !key.is_some_and(|key| seals(key.state)) {
            return Err(AccessRefusal::SealingKeyGone(sealed.key));
        }
        self.take_seal(sealed, VARIABLE_SEALED_BYTES_MAX)
    }

    fn take_seal(&mut self, sealed: &Sealed, bytes_max: usize) -> Result<(), AccessRefusal> {
        let Sealed { key, bytes, .. } = sealed;
        let length = bytes.len();
        if length > bytes_max {
            return Err(AccessRefusal::SealedTooLong { bytes: length });
        }
        if self.tables.root_key(*key).is_none() {
            return Err(AccessRefusal::SealingKeyGone(*key));
        }
        self.tables.count_seal(*key);
        Ok(())
    }
}
