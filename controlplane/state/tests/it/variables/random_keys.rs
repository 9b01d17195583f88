//! Random rotations, rekeys and removals beside writes, proposed by servers that lag behind: every
//! value stays the one that was written last, and opens.

use std::collections::BTreeMap;

use controlplane_state::RootKeyState::{Active, Inactive, Rekeying};
use controlplane_state::command::{KeyRemoval, ResealedVariable, RootKeyChange, VariablesRekey};
use proptest::prelude::*;

use super::*;

const PATHS: [&str; 3] = ["a", "b", "c/d"];

/// Sealed bytes say in clear which key sealed which value.
fn seal(key: u32, value: u32, nonce: u32) -> Sealed {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&nonce.to_le_bytes());
    Sealed {
        key,
        nonce: bytes,
        bytes: [key.to_le_bytes(), value.to_le_bytes()].concat(),
    }
}

/// The value, where the bytes open with the key that the seal names.
fn opened(sealed: &Sealed) -> Option<u32> {
    let word = |at: usize| Some(u32::from_le_bytes(*sealed.bytes.get(at..)?.first_chunk()?));
    (word(0)? == sealed.key).then(|| word(4)).flatten()
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sealed with the active key, or the one of a server that lags.
    Write {
        path: usize,
        lags: bool,
    },
    Rotate {
        rotation: Rotation,
    },
    /// A leader opens the values of a key, and has not proposed them yet.
    Look,
    /// It proposes them.
    Rekey,
    End {
        pick: usize,
    },
    Remove {
        pick: usize,
        rule: KeyRemoval,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let rotation = prop_oneof![Just(Rotation::Plain), Just(Rotation::Full)];
    let rule = prop_oneof![Just(KeyRemoval::Unused), Just(KeyRemoval::Forced)];
    prop_oneof![
        4 => (0..PATHS.len(), any::<bool>()).prop_map(|(path, lags)| Step::Write { path, lags }),
        1 => rotation.prop_map(|rotation| Step::Rotate { rotation }),
        3 => Just(Step::Look),
        3 => Just(Step::Rekey),
        2 => (0_usize..8).prop_map(|pick| Step::End { pick }),
        2 => (0_usize..8, rule).prop_map(|(pick, rule)| Step::Remove { pick, rule }),
    ]
}

struct Scene {
    cluster: Harness,
    written: BTreeMap<&'static str, u32>,
    /// The active key as a server knows it that lags behind.
    lagging: u32,
    keys_made: u32,
    looked: Vec<ResealedVariable>,
    drawn: u32,
}

impl Scene {
    fn active(&self) -> u32 {
        let active = self.cluster.tables().active_root_key();
        active.map_or(0, |key| key.number)
    }

    fn draw(&mut self) -> u32 {
        self.drawn += 1;
        self.drawn
    }

    fn picked(&self, pick: usize) -> Option<u32> {
        let keys: Vec<u32> = self
            .cluster
            .tables()
            .root_keys()
            .map(|it| it.number)
            .collect();
        keys.get(pick.checked_rem(keys.len())?).copied()
    }

    fn carry_out(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Write { path, lags } => self.write(PATHS[path], lags)?,
            Step::Rotate { rotation } => {
                self.lagging = self.active();
                self.keys_made += 1;
                rotate(
                    &mut self.cluster,
                    self.keys_made.into(),
                    Some(self.lagging),
                    rotation,
                );
            }
            Step::Look => self.look(),
            Step::Rekey => {
                let variables = std::mem::take(&mut self.looked);
                self.cluster.apply(VariablesRekey { variables }.into());
            }
            Step::End { pick } => {
                if let Some(number) = self.picked(pick) {
                    let end = RootKeyChange::EndRekey { number };
                    self.cluster.apply(end.into());
                }
            }
            Step::Remove { pick, rule } => {
                if let Some(number) = self.picked(pick) {
                    let remove = RootKeyChange::Remove { number, rule };
                    self.cluster.apply(remove.into());
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &'static str, lags: bool) -> Result<(), TestCaseError> {
        let key = if lags { self.lagging } else { self.active() };
        let state = self.cluster.tables().root_key(key).map(|key| key.state);
        let (value, nonce) = (self.draw(), self.draw());
        let sealed = seal(key, value, nonce);
        let write = change(path, VariableChange::Write(sealed));
        let outcome = self.cluster.apply(write.into()).outcome;
        match state {
            Some(Active | Rekeying) => {
                prop_assert!(
                    matches!(outcome, Outcome::VariableChanged(_)),
                    "{outcome:?}"
                );
                self.written.insert(path, value);
            }
            _ => {
                let gone = Refusal::Access(AccessRefusal::SealingKeyGone(key));
                prop_assert_eq!(outcome, Outcome::Refused(gone));
            }
        }
        Ok(())
    }

    fn look(&mut self) {
        let active = self.active();
        let tables = self.cluster.tables();
        let rekeying = tables.root_keys().filter(|key| key.state == Rekeying);
        let rows = rekeying.flat_map(|key| tables.variables_of_root_key(key.number));
        let rows: Vec<_> = rows.cloned().collect();
        self.looked = rows
            .into_iter()
            .map(|row| ResealedVariable {
                key: row.key.clone(),
                replaces: (row.sealed.key, row.sealed.nonce),
                sealed: seal(active, opened(&row.sealed).unwrap_or(0), self.draw()),
            })
            .collect();
    }

    fn holds(&self) -> Result<(), TestCaseError> {
        let tables = self.cluster.tables();
        for (path, value) in &self.written {
            let row = tables.variable(&key(path));
            let found = row.and_then(|row| opened(&row.sealed));
            prop_assert_eq!(found, Some(*value), "{}", path);
            let known = row.and_then(|row| tables.root_key(row.sealed.key));
            prop_assert!(known.is_some(), "the key of {} is gone", path);
        }
        let active = tables.root_keys().filter(|key| key.state == Active);
        prop_assert_eq!(active.count(), 1);
        Ok(())
    }

    /// A leader does all that is due after a last full rotation: one key seals all that is left.
    fn come_to_rest(&mut self) -> Result<(), TestCaseError> {
        self.carry_out(Step::Rotate {
            rotation: Rotation::Full,
        })?;
        self.look();
        self.carry_out(Step::Rekey)?;
        let active = self.active();
        let keys: Vec<u32> = self
            .cluster
            .tables()
            .root_keys()
            .map(|it| it.number)
            .collect();
        for number in keys.into_iter().filter(|number| *number != active) {
            let end = RootKeyChange::EndRekey { number };
            self.cluster.apply(end.into());
            let state = self.cluster.tables().root_key(number).map(|key| key.state);
            prop_assert_eq!(state, Some(Inactive));
            let rule = KeyRemoval::Unused;
            let remove = RootKeyChange::Remove { number, rule };
            self.cluster.done(remove.into());
        }
        prop_assert_eq!(self.cluster.tables().root_keys().count(), 1);
        self.holds()
    }
}

proptest! {
    #[test]
    fn values_open_and_stay_through_random_rotations_and_removals(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut scene = Scene {
            cluster: cluster(),
            written: BTreeMap::new(),
            lagging: 1,
            keys_made: 1,
            looked: Vec::new(),
            drawn: 0,
        };
        for step in steps {
            scene.carry_out(step)?;
            scene.holds()?;
        }
        scene.come_to_rest()?;
    }
}
