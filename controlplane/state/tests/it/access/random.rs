//! Random changes of access control: many of them are refused.

use std::collections::BTreeSet;
use std::time::Duration;

use controlplane_state::codec::{decode, encode};
use controlplane_state::command::{
    AccessCommand, KeyRemoval, Resealed, RootKeyChange, TokensRekey,
};
use controlplane_state::{State, invariants};
use proptest::prelude::*;

use super::*;

/// A change of a few rows, so that most of them meet another one.
pub(crate) fn some_command(number: u8, how: u16) -> Command {
    match number % 18 {
        0..=8 => rights(number % 18, how),
        16.. => keys(how),
        _ => logins(number % 18, how),
    }
}

/// One of four.
fn small(how: u16) -> u8 {
    (how >> 4).to_be_bytes()[1] % 4
}

/// A seal with a key that may not exist.
fn some_seal(how: u16) -> Option<Sealed> {
    how.is_multiple_of(5).then(|| sealed(u32::from(how % 3)))
}

fn rights(kind: u8, how: u16) -> Command {
    let small = small(how);
    let some_role = || role(&format!("r{small}"), &format!("n{}", how % 3));
    match kind {
        0 => {
            let job = ["web", "", "batch"][usize::from(how % 3)];
            let policies = vec![policy("read"), policy_of_job(&format!("p{small}"), job)];
            AclPolicies::Upsert { policies }.into()
        }
        1 => {
            let names = vec!["read".to_owned(), format!("p{small}")];
            AclPolicies::Delete { names }.into()
        }
        2 | 3 => {
            let ttl = Duration::from_secs(u64::from(how % 20));
            let tokens = vec![AclToken {
                sealed: some_seal(how),
                ttl: how.is_multiple_of(2).then_some(ttl),
                ..token(small)
            }];
            AclTokens::Create { tokens }.into()
        }
        4 => {
            let linked = how.is_multiple_of(2).then(|| "r1".to_owned());
            let tokens = vec![AclToken {
                roles: linked.into_iter().collect(),
                name: how.to_string(),
                ..token(small)
            }];
            AclTokens::Update { tokens }.into()
        }
        5 => {
            let accessors = vec![format!("accessor-{small}")];
            if how.is_multiple_of(3) {
                AclTokens::Delete { accessors }.into()
            } else {
                AclTokens::Expire { accessors }.into()
            }
        }
        6 => {
            let roles = vec![some_role()];
            AclRoles::Create { roles }.into()
        }
        7 => {
            let roles = vec![some_role()];
            AclRoles::Update { roles }.into()
        }
        _ => {
            let ids = vec![format!("r{small}")];
            AclRoles::Delete { ids }.into()
        }
    }
}

fn logins(kind: u8, how: u16) -> Command {
    let small = small(how);
    let some_method = format!("m{small}");
    let some_rules = || vec![rule(&format!("b{}", how % 7), &some_method)];
    let digest = (how % 5).to_be_bytes()[1];
    match kind {
        9 => {
            let methods = vec![AclAuthMethod {
                default: how.is_multiple_of(2),
                sealed: some_seal(how),
                ..method(&some_method)
            }];
            AclAuthMethods::Upsert { methods }.into()
        }
        10 => {
            let names = vec![some_method];
            AclAuthMethods::Delete { names }.into()
        }
        11 => {
            let rules = some_rules();
            AclBindingRules::Create { rules }.into()
        }
        12 => {
            let rules = some_rules();
            AclBindingRules::Update { rules }.into()
        }
        13 => make_one_time(digest, &format!("accessor-{small}")),
        14 if how.is_multiple_of(3) => {
            let digests = (0..5).map(|number| Digest([number; 32])).collect();
            OneTimeTokens::Expire { digests }.into()
        }
        14 => exchange(digest),
        _ => {
            let replaces = Some(u32::from(how % 3)).filter(|number| *number > 0);
            let mut key = root_key(u128::from(how % 4));
            if how.is_multiple_of(7) {
                key.state = RootKeyState::Prepublished;
            }
            let rotation = match how.is_multiple_of(5) {
                true => Rotation::Full,
                false => Rotation::Plain,
            };
            RootKeyUpsert {
                key,
                replaces,
                rotation,
            }
            .into()
        }
    }
}

/// A change of one of three keys, or a secret that is sealed anew.
fn keys(how: u16) -> Command {
    let number = u32::from(how % 3);
    let rule = match how.is_multiple_of(2) {
        true => KeyRemoval::Forced,
        false => KeyRemoval::Unused,
    };
    let resealed = |name: String| Resealed {
        name,
        key: number,
        nonce: sealed(number).nonce,
        sealed: sealed(u32::from(how % 4)),
    };
    match how % 7 {
        0 => RootKeyChange::Activate { number }.into(),
        1 => RootKeyChange::EndRekey { number }.into(),
        2 | 3 => RootKeyChange::Remove { number, rule }.into(),
        _ => TokensRekey {
            tokens: vec![resealed(format!("accessor-{}", small(how)))],
            methods: vec![resealed(format!("m{}", small(how)))],
        }
        .into(),
    }
}

proptest! {
    #[test]
    fn random_changes_keep_the_invariants_and_use_nothing_twice(
        steps in prop::collection::vec((any::<u8>(), any::<u16>()), 1..120)
    ) {
        let mut cluster = filled();
        let mut live = BTreeSet::from([Digest([1; 32])]);
        let half = cluster.log.len() + steps.len() / 2;
        let mut restored = None;
        for (number, how) in steps {
            if cluster.log.len() == half {
                let state = State::restore(cluster.checkpoint().as_slice());
                restored = Some(state.expect("a state"));
            }
            let command = some_command(number, how);
            // The harness checks all invariants, and that a refusal changes nothing.
            let applied = cluster.apply(command.clone());
            let outcome = &applied.outcome;
            if let Command::Access(AccessCommand::OneTimeTokens(change)) = command {
                match (change, outcome) {
                    (OneTimeTokens::Make { digest, .. }, Outcome::Done) => {
                        live.insert(digest);
                    }
                    (
                        OneTimeTokens::Exchange { digest },
                        Outcome::OneTimeTokenExchanged { .. },
                    ) => prop_assert!(live.remove(&digest), "used twice"),
                    _ => {}
                }
            }
            if let (Some(restored), Some((index, stamped))) = (&mut restored, cluster.log.last()) {
                prop_assert_eq!(restored.apply(*index, stamped.clone()), applied);
            }
        }
        if let Some(restored) = restored {
            prop_assert_eq!(invariants::difference(cluster.tables(), restored.tables()), None);
        }
        let mut replica = State::new();
        for (index, stamped) in &cluster.log {
            let bytes = encode(stamped).expect("bytes");
            replica.apply(*index, decode(&bytes).expect("the command"));
        }
        prop_assert_eq!(invariants::difference(cluster.tables(), replica.tables()), None);
    }
}
