//! Random changes against a simple model of variables: of two writers or holders one wins.

use std::collections::BTreeMap;

use controlplane_state::codec::{decode, encode};
use controlplane_state::invariants;
use proptest::prelude::*;

use super::*;

/// A variable as the model has it: modify index, length, lock and whether that is delayed.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Modelled {
    modify_index: u64,
    length: usize,
    lock: Option<(u128, bool)>,
}

const LIMIT: usize = 150;

type Model = BTreeMap<String, Modelled>;

/// A change of one of three variables by one of three callers.
fn some_change(kind: u8, how: u16, model: &Model) -> VariableApply {
    let path = ["a", "b", "c/d"][usize::from(how % 3)];
    let length = usize::from(how >> 6) % 80;
    let caller = u128::from(how >> 3) % 3 + 1;
    let present = model.get(path);
    let mut command = match kind % 5 {
        0 | 1 => write(path, length),
        2 => change(path, VariableChange::Delete),
        3 => acquire(path, caller),
        _ => change(path, VariableChange::Release),
    };
    let knows_index = how.is_multiple_of(4);
    command.cas = match kind % 5 {
        0 | 2 if how.is_multiple_of(2) => Some(match present {
            Some(present) if knows_index => present.modify_index,
            _ => u64::from(how % 20),
        }),
        _ => None,
    };
    if kind % 5 == 4 || how.is_multiple_of(5) {
        command.lock_id = Some(Uuid::from_u128(caller));
    }
    command
}

/// The state of the variable after the change; `Err` where it is refused.
fn expected(command: &VariableApply, model: &Model, index: u64) -> Result<Option<Modelled>, ()> {
    let before = model.get(&command.key.path);
    let shown = command.lock_id.map(|id| id.as_u128());
    let held = before.and_then(|before| before.lock);
    if held.map(|(id, _)| id) != shown {
        return Err(());
    }
    let found = before.map_or(0, |before| before.modify_index);
    if command.cas.is_some_and(|wanted| wanted != found) {
        return Err(());
    }
    let length = before.map(|before| before.length);
    let others: usize = model
        .iter()
        .filter(|(path, _)| **path != command.key.path)
        .map(|(_, it)| it.length)
        .sum();
    let fits = |new: usize| others + new <= LIMIT || Some(new) <= length;
    let (length, lock) = match &command.change {
        VariableChange::Write(sealed) => (sealed.bytes.len(), held),
        VariableChange::Acquire { lock, .. } => {
            let new = held.unwrap_or((lock.id.as_u128(), false));
            (length.unwrap_or(20), Some(new))
        }
        VariableChange::Release if held.is_none() => return Err(()),
        VariableChange::Release => (length.unwrap_or(0), None),
        VariableChange::Delete => return Ok(None),
    };
    if !fits(length) {
        return Err(());
    }
    Ok(Some(Modelled {
        modify_index: index,
        length,
        lock,
    }))
}

fn shown(cluster: &Harness) -> Model {
    let rows = cluster.tables().variables_with_prefix("default", "");
    rows.map(|row| {
        let lock = row.lock.as_ref();
        let modelled = Modelled {
            modify_index: row.modify_index,
            length: row.sealed.bytes.len(),
            lock: lock.map(|lock| (lock.id.as_u128(), lock.until.is_some())),
        };
        (row.key.path.clone(), modelled)
    })
    .collect()
}

/// Ends some locks; the model follows what the state's time allows.
fn expire_some(cluster: &mut Harness, how: u16, model: &mut Model) {
    let locks: Vec<_> = ["a", "b", "c/d"]
        .map(|path| (key(path), Uuid::from_u128(u128::from(how % 3) + 1)))
        .to_vec();
    let untils: BTreeMap<_, _> = cluster
        .tables()
        .locked_variables()
        .filter_map(|row| Some((row.key.path.clone(), row.lock.as_ref()?.until?)))
        .collect();
    let command = VariableLocksExpire {
        locks: locks.clone(),
    };
    cluster.apply(command.into());
    for (key, id) in locks {
        let Some(row) = model.get_mut(&key.path) else {
            continue;
        };
        match row.lock {
            Some((held, false)) if held == id.as_u128() => row.lock = Some((held, true)),
            Some((held, true)) if held == id.as_u128() && untils[&key.path] <= cluster.now => {
                row.lock = None;
                row.modify_index = cluster.index;
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn random_changes_of_variables_agree_with_a_model(
        steps in prop::collection::vec((any::<u8>(), any::<u16>()), 1..150)
    ) {
        let mut cluster = cluster();
        let namespace = controlplane_state::Namespace {
            name: "default".to_owned(),
            variables_bytes_max: LIMIT as u64,
            ..controlplane_state::Namespace::default()
        };
        cluster.done(Command::NamespaceUpsert { namespace });
        let mut model = Model::new();
        let half = cluster.log.len() + steps.len() / 2;
        let mut restored = None;
        for (kind, how) in steps {
            if cluster.log.len() == half {
                let state = State::restore(cluster.checkpoint().as_slice());
                restored = Some((cluster.log.len(), state.expect("a state")));
            }
            if kind % 6 == 5 {
                expire_some(&mut cluster, how, &mut model);
                prop_assert_eq!(&shown(&cluster), &model);
                continue;
            }
            let command = some_change(kind, how, &model);
            let wanted = expected(&command, &model, cluster.index + 1);
            // The harness checks all invariants, and that a refusal changes nothing.
            let outcome = cluster.apply(command.clone().into()).outcome;
            let is_refused = matches!(outcome, Outcome::Refused(_));
            prop_assert_eq!(is_refused, wanted.is_err(), "{:?} {:?}", command, outcome);
            match wanted {
                Ok(Some(row)) => drop(model.insert(command.key.path, row)),
                Ok(None) => drop(model.remove(&command.key.path)),
                Err(()) => {}
            }
            prop_assert_eq!(&shown(&cluster), &model);
        }
        let (from, mut replica) = restored.unwrap_or_else(|| (0, State::new()));
        for (index, stamped) in &cluster.log[from..] {
            let bytes = encode(stamped).expect("bytes");
            replica.apply(*index, decode(&bytes).expect("the command"));
        }
        let difference = invariants::difference(cluster.tables(), replica.tables());
        prop_assert_eq!(difference, None);
    }
}
