//! Root keys and what they seal, imitated: a sealed value is the number of its key and the value,
//! in clear. It opens only where both numbers are the same.

use controlplane_state::command::{
    KeyRemoval, ResealedVariable, RootKeyChange, Rotation, VariableApply, VariableChange,
    VariablesRekey,
};
use controlplane_state::{
    AccessRefusal, Command, Refusal, RootKey, RootKeyState, Sealed, Snapshot, Variable, VariableKey,
};
use protocol_model::{AllocId, ClientStatus, UnixNanos};
use uuid::Uuid;

use super::World;
use crate::event::{Answer, Event, ServerIx};
use crate::mutant::Mutant;
use crate::schedule::keys::KeyWish;
use crate::time::{MILLI, wall};

/// When a server seals a value again whose key went meanwhile.
const SEALS_AGAIN: u64 = 50 * MILLI;

/// The value of sealed bytes, where they open with the key that they name.
pub(crate) fn opened(sealed: &Sealed) -> Option<u32> {
    let (key, value) = sealed.bytes.split_first_chunk::<4>()?;
    let value = value.first_chunk::<4>()?;
    let opens = u32::from_le_bytes(*key) == sealed.key;
    opens.then(|| u32::from_le_bytes(*value))
}

fn name(variable: u32) -> VariableKey {
    VariableKey::new("default", format!("app/{variable}"))
}

fn remove(number: u32) -> RootKeyChange {
    let rule = KeyRemoval::Unused;
    RootKeyChange::Remove { number, rule }
}

/// The allocations that live, also those of silent nodes, and whose identities a key signs.
pub(crate) fn users(state: &Snapshot, number: u32) -> Vec<(AllocId, ClientStatus)> {
    let users = state.allocs().filter(|it| !it.client_terminal());
    let users = users.filter(|it| state.alloc_key(it.id) == number);
    users.map(|it| (it.id, it.client_status)).collect()
}

impl World {
    /// A wish as a server proposes it. `None` where that server answers by itself.
    pub(super) fn key_wish(&mut self, server: ServerIx, wish: KeyWish) -> Option<Command> {
        let variable = |variable, change| {
            Command::from(VariableApply {
                key: name(variable),
                cas: None,
                lock_id: None,
                change,
            })
        };
        Some(match wish {
            KeyWish::Write {
                variable: it,
                value,
            } => variable(it, VariableChange::Write(self.seal(server, value)?)),
            KeyWish::Delete { variable: it } => variable(it, VariableChange::Delete),
            KeyWish::Rotate { full } => {
                let rotation = if full {
                    Rotation::Full
                } else {
                    Rotation::Plain
                };
                self.servers[usize::from(server)]
                    .snapshot
                    .active_root_key()?;
                self.new_key(None, rotation, server)
            }
            KeyWish::Prepublish { after } => {
                self.servers[usize::from(server)]
                    .snapshot
                    .active_root_key()?;
                let publish = wall(self.now, 0).saturating_add(after);
                self.new_key(Some(publish), Rotation::Plain, server)
            }
            KeyWish::Remove { pick, force } => {
                let snapshot = &self.servers[usize::from(server)].snapshot;
                let keys: Vec<u32> = snapshot.root_keys().map(|key| key.number).collect();
                let number = *keys.get((pick as usize).checked_rem(keys.len())?)?;
                let rule = match force {
                    true => KeyRemoval::Forced,
                    false => KeyRemoval::Unused,
                };
                if force {
                    self.clients.forced.insert(number);
                }
                RootKeyChange::Remove { number, rule }.into()
            }
        })
    }

    /// A value whose key went is sealed again by its server.
    pub(super) fn is_sealed_again(&mut self, number: u32, answer: &Answer) -> bool {
        let gone = matches!(
            answer,
            Answer::Refused(Refusal::Access(AccessRefusal::SealingKeyGone(_)))
        );
        if gone {
            self.queue.push(self.now + SEALS_AGAIN, Event::Op(number));
        }
        gone
    }

    /// With the key that is active as far as the server knows.
    fn seal(&mut self, server: ServerIx, value: u32) -> Option<Sealed> {
        let active = self.servers[usize::from(server)].snapshot.active_root_key();
        let key = active?.number;
        let nonce = self.rng.bytes();
        Some(Sealed {
            key,
            nonce: *nonce.first_chunk()?,
            bytes: [key.to_le_bytes(), value.to_le_bytes()].concat(),
        })
    }

    pub(crate) fn resealed(&mut self, ix: ServerIx, row: &Variable) -> Option<ResealedVariable> {
        Some(ResealedVariable {
            key: row.key.clone(),
            replaces: (row.sealed.key, row.sealed.nonce),
            sealed: self.seal(ix, opened(&row.sealed)?)?,
        })
    }

    pub(crate) fn made_key(&mut self, publish_time: Option<UnixNanos>) -> RootKey {
        RootKey {
            id: Uuid::from_u128(self.rng.id()),
            number: 0,
            kek_id: [7; 8],
            wrapped: vec![1],
            public_ed25519: vec![2],
            public_rsa: vec![3],
            state: match publish_time {
                None => RootKeyState::Active,
                Some(_) => RootKeyState::Prepublished,
            },
            create_time: UnixNanos::ZERO,
            publish_time: publish_time.unwrap_or_default(),
            state_time: UnixNanos::ZERO,
            seals: 0,
            create_index: 0,
            modify_index: 0,
        }
    }

    /// The healed cluster is not at rest while a live allocation signs with a key that is gone, or
    /// values are to be moved.
    pub(super) fn unfinished_key(&self) -> Option<String> {
        self.schedule.keys?;
        let state = self.state();
        let gone = |number: &u32| state.root_key(*number).is_none();
        if let Some(number) = state.keys_of_live_allocs().find(gone) {
            return Some(format!("live allocations have key {number}, which is gone"));
        }
        let mut moving = state.root_keys();
        let moving = moving.find(|key| key.state == RootKeyState::Rekeying);
        moving.map(|key| format!("values of key {} are to be moved", key.number))
    }

    /// The keys that a planted bug collects beside those that are due.
    pub(crate) fn uses_forgotten(
        &self,
        snapshot: &Snapshot,
    ) -> impl Iterator<Item = RootKeyChange> + use<> {
        let forgets = |number| {
            let sealed = !snapshot.sealed_with(number).is_empty();
            let users = users(snapshot, number);
            let silent = |(_, status): &(AllocId, ClientStatus)| *status == ClientStatus::Unknown;
            match self.mutant {
                Some(Mutant::SilentUnsigned) => {
                    !sealed && !users.is_empty() && users.iter().all(silent)
                }
                Some(Mutant::SealsForgotten) => sealed && users.is_empty(),
                _ => false,
            }
        };
        let inactive = snapshot.root_keys();
        let inactive = inactive.filter(|key| key.state == RootKeyState::Inactive);
        let numbers = inactive
            .map(|key| key.number)
            .filter(|number| forgets(*number));
        let numbers: Vec<u32> = numbers.collect();
        numbers.into_iter().map(remove)
    }

    /// Where planted bugs of keys bite: an entry as it is applied.
    pub(super) fn bend_keys(&self, command: &mut Command) {
        match (self.mutant, &mut *command) {
            (Some(Mutant::SilentUnsigned), _) => {
                if let Some(RootKeyChange::Remove { number, rule }) = key_change(command)
                    && rule == KeyRemoval::Unused
                {
                    let rule = KeyRemoval::Forced;
                    *command = RootKeyChange::Remove { number, rule }.into();
                }
            }
            (Some(Mutant::RekeysOverNewer), Command::VariablesRekey(rekey)) => {
                for resealed in &mut rekey.variables {
                    if let Some(row) = self.state().variable(&resealed.key) {
                        resealed.replaces = (row.sealed.key, row.sealed.nonce);
                    }
                }
            }
            _ => {}
        }
    }

    /// The entry that makes a planted bug's removal possible: values that name another key.
    pub(super) fn seals_hidden(&self, command: &Command) -> Option<Command> {
        let Some(RootKeyChange::Remove { number, .. }) = key_change(command) else {
            return None;
        };
        if self.mutant != Some(Mutant::SealsForgotten) {
            return None;
        }
        let state = self.state();
        let active = state.active_root_key()?.number;
        let variables = state
            .variables_of_root_key(number)
            .map(|row| ResealedVariable {
                key: row.key.clone(),
                replaces: (row.sealed.key, row.sealed.nonce),
                sealed: Sealed {
                    key: active,
                    ..row.sealed.clone()
                },
            });
        let variables: Vec<_> = variables.collect();
        (!variables.is_empty()).then(|| VariablesRekey { variables }.into())
    }
}

/// The change of a root key that a command is.
pub(crate) fn key_change(command: &Command) -> Option<RootKeyChange> {
    use controlplane_state::command::AccessCommand;
    match command {
        Command::Access(AccessCommand::RootKey(change)) => Some(change.clone()),
        _ => None,
    }
}
