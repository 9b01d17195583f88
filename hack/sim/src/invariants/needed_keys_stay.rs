//! A root key that a sealed value needs is never removed, one that a live allocation needs by an
//! operator's force alone; a value opens, is the one that was written last, and is sealed with a
//! key that still seals when it is written.

use controlplane_state::{Command, Outcome, RootKeyState, Snapshot, VariableKey};

use super::{Invariant, Observation};
use crate::world::World;
use crate::world::keys::{opened, users};

#[derive(Debug)]
pub(super) struct NeededKeysStay;

impl Invariant for NeededKeysStay {
    fn name(&self) -> &'static str {
        "needed_keys_stay"
    }

    fn source(&self) -> &'static str {
        "keyring, root keys: a key is removed when nothing needs it; a rekey changes no value"
    }

    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String> {
        let Observation::Applied {
            before,
            after,
            command,
            applied,
        } = seen
        else {
            return Ok(());
        };
        if matches!(applied.outcome, Outcome::Refused(_)) {
            return Ok(());
        }
        match command {
            Command::Access(_) => nothing_lost(before, after, world),
            Command::VariablesRekey(_) => same_values(before, after),
            Command::VariableApply(change) => {
                let row = after.variable(&change.key);
                let key = row.and_then(|row| after.root_key(row.sealed.key));
                let seals = |state| matches!(state, RootKeyState::Active | RootKeyState::Rekeying);
                match row.is_none() || key.is_some_and(|key| seals(key.state)) {
                    true => Ok(()),
                    false => Err(format!("{} was sealed with {key:?}", change.key)),
                }
            }
            _ => Ok(()),
        }
    }
}

fn nothing_lost(before: &Snapshot, after: &Snapshot, world: &World) -> Result<(), String> {
    let gone = before.root_keys().map(|key| key.number);
    let gone = gone.filter(|number| after.root_key(*number).is_none());
    for number in gone {
        let users = users(before, number);
        if !users.is_empty() && !world.clients.forced.contains(&number) {
            return Err(format!("key {number} was collected, and {users:?} need it"));
        }
        let sealed = after.sealed_with(number);
        if !sealed.is_empty() {
            return Err(format!("key {number} was removed, and it seals {sealed:?}"));
        }
    }
    same_values(before, after)
}

fn same_values(before: &Snapshot, after: &Snapshot) -> Result<(), String> {
    for row in before.variables_from(VariableKey::new("", "")) {
        let Some(now) = after.variable(&row.key) else {
            return Err(format!("{} is gone", row.key));
        };
        let (was, is) = (opened(&row.sealed), opened(&now.sealed));
        if is.is_none() || was != is || row.modify_index != now.modify_index {
            return Err(format!(
                "{} was {was:?} of index {}, and is {is:?} of index {}",
                row.key, row.modify_index, now.modify_index
            ));
        }
    }
    Ok(())
}
