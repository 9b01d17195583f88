//! The machine over a state that its steps change, with time passing.

use std::time::Duration;

use controlplane_state::command::{AclTokens, Resealed, RootKeyUpsert, Rotation, TokensRekey};
use controlplane_state::{
    AclToken, AclTokenKind, Command, Digest, Outcome, RootKey, RootKeyState, Sealed,
};
use hack_testkit::World;
use proptest::prelude::*;
use protocol_model::UnixNanos;
use uuid::Uuid;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const CONFIG: RootKeyConfig = RootKeyConfig {
    rotation_threshold: Duration::from_secs(720 * 3600),
    gc_interval: Duration::from_secs(600),
    gc_threshold: HOUR,
};

struct Scene {
    world: World,
    made: u128,
}

impl Scene {
    /// With the first key.
    fn new() -> Self {
        let mut scene = Self {
            world: World::new(),
            made: 0,
        };
        scene.add(None, None, Rotation::Plain);
        assert_eq!(scene.steps(), [KeyStep::Resign { number: 1 }]);
        scene.carry_out(KeyStep::Resign { number: 1 });
        scene
    }

    fn add(
        &mut self,
        replaces: Option<u32>,
        publish: Option<UnixNanos>,
        rotation: Rotation,
    ) -> Outcome {
        self.made += 1;
        let key = RootKey {
            id: Uuid::from_u128(self.made),
            number: 0,
            kek_id: [7; 8],
            wrapped: vec![1],
            public_ed25519: vec![2],
            public_rsa: vec![3],
            state: match publish {
                None => RootKeyState::Active,
                Some(_) => RootKeyState::Prepublished,
            },
            create_time: UnixNanos::ZERO,
            publish_time: publish.unwrap_or_default(),
            state_time: UnixNanos::ZERO,
            seals: 0,
            create_index: 0,
            modify_index: 0,
        };
        let upsert = RootKeyUpsert {
            key,
            replaces,
            rotation,
        };
        self.world.apply(upsert.into()).outcome
    }

    fn rotate(&mut self, rotation: Rotation) {
        let snapshot = self.world.snapshot();
        let active = snapshot.active_root_key().map(|key| key.number);
        assert_eq!(self.add(active, None, rotation), Outcome::Done);
    }

    fn steps(&self) -> Vec<KeyStep> {
        steps(&self.world.snapshot(), CONFIG, None, self.world.now())
    }

    /// Carries out one step as the shell does.
    fn carry_out(&mut self, step: KeyStep) -> Outcome {
        match step {
            KeyStep::Make {
                replaces,
                publish_time,
            } => self.add(Some(replaces), publish_time, Rotation::Plain),
            KeyStep::Change(change) => self.world.apply(change.into()).outcome,
            KeyStep::RekeyTokens { number } => self.rekey(number),
            KeyStep::Resign { .. } => {
                let resign = next_resign(&self.world.snapshot()).expect("something to move");
                self.world.apply(resign.into()).outcome
            }
            KeyStep::RekeyVariables { .. } | KeyStep::Rewrap { .. } => Outcome::NoOp,
        }
    }

    fn rekey(&mut self, number: u32) -> Outcome {
        let snapshot = self.world.snapshot();
        let active = snapshot.active_root_key().map_or(0, |key| key.number);
        let tokens = snapshot.acl_tokens();
        let tokens = tokens.filter_map(|token| {
            let sealed = token.sealed.as_ref()?;
            (sealed.key == number).then(|| Resealed {
                name: token.accessor_id.clone(),
                key: sealed.key,
                nonce: sealed.nonce,
                sealed: Sealed {
                    key: active,
                    ..sealed.clone()
                },
            })
        });
        let rekey = TokensRekey {
            tokens: tokens.collect(),
            methods: Vec::new(),
        };
        self.world.apply(rekey.into()).outcome
    }

    /// Looks until `end`, each time as soon as the machine says, and does all that is due.
    fn run(&mut self, time: Duration) {
        let end = self.world.now().saturating_add(time);
        while self.world.now() < end {
            for step in self.steps() {
                let outcome = self.carry_out(step.clone());
                assert!(
                    !matches!(outcome, Outcome::Refused(_)),
                    "{step:?}: {outcome:?}"
                );
            }
            let snapshot = self.world.snapshot();
            self.world
                .wait(next_look(&snapshot, CONFIG, self.world.now()));
        }
    }

    fn seal(&mut self, number: u8, key: u32) -> Outcome {
        let token = AclToken {
            accessor_id: format!("token-{number}"),
            secret_hash: Digest([number; 32]),
            sealed: Some(Sealed {
                key,
                nonce: [number; 12],
                bytes: vec![1; 20],
            }),
            name: String::new(),
            kind: AclTokenKind::Client,
            policies: vec!["read".to_owned()],
            roles: Vec::new(),
            global: false,
            expiration: None,
            ttl: None,
            create_time: UnixNanos::ZERO,
            create_index: 0,
            modify_index: 0,
        };
        let tokens = vec![token];
        self.world
            .apply(AclTokens::Create { tokens }.into())
            .outcome
    }

    fn states(&self) -> Vec<(u32, RootKeyState)> {
        let snapshot = self.world.snapshot();
        let keys = snapshot.root_keys();
        keys.map(|key| (key.number, key.state)).collect()
    }
}

#[test]
fn a_key_is_prepublished_for_the_second_half_of_its_predecessor() {
    let mut scene = Scene::new();
    assert_eq!(scene.steps(), []);
    scene.run(359 * HOUR);
    assert_eq!(scene.states(), [(1, RootKeyState::Active)]);
    scene.run(2 * HOUR);
    let both = [(1, RootKeyState::Active), (2, RootKeyState::Prepublished)];
    assert_eq!(scene.states(), both);
    scene.run(357 * HOUR);
    assert_eq!(scene.states(), both);
    scene.run(3 * HOUR);
    let next = (2, RootKeyState::Active);
    assert_eq!(scene.states(), [(1, RootKeyState::Inactive), next]);
    scene.run(2 * HOUR);
    assert_eq!(scene.states(), [next], "nothing needs the first one");
}

#[test]
fn a_leader_that_comes_late_still_prepublishes_for_half_of_the_threshold() {
    let mut scene = Scene::new();
    scene.world.wait(2000 * HOUR);
    let now = scene.world.now();
    let publish_time = Some(now.saturating_add(360 * HOUR));
    let make = KeyStep::Make {
        replaces: 1,
        publish_time,
    };
    assert_eq!(scene.steps(), [make]);
}

#[test]
fn a_rotation_by_hand_begins_the_time_anew() {
    let mut scene = Scene::new();
    scene.world.wait(300 * HOUR);
    scene.rotate(Rotation::Plain);
    scene.run(300 * HOUR);
    assert_eq!(scene.states(), [(2, RootKeyState::Active)]);
}

#[test]
fn secrets_leave_an_old_key_before_it_goes() {
    let mut scene = Scene::new();
    assert_eq!(scene.seal(1, 1), Outcome::Done);
    scene.rotate(Rotation::Plain);
    assert_eq!(scene.steps(), [KeyStep::RekeyTokens { number: 1 }]);
    scene.world.wait(5 * HOUR);
    let rekey = [KeyStep::RekeyTokens { number: 1 }];
    assert_eq!(scene.steps(), rekey, "a used key stays, whatever its age");
    scene.run(HOUR);
    assert_eq!(scene.states(), [(2, RootKeyState::Active)]);
}

#[test]
fn a_full_rotation_without_variables_ends_at_once() {
    let mut scene = Scene::new();
    scene.rotate(Rotation::Full);
    let number = 1;
    let end = controlplane_state::command::RootKeyChange::EndRekey { number };
    assert_eq!(scene.steps(), [KeyStep::Change(end)]);
}

#[test]
fn each_key_that_another_kek_wraps_is_wrapped_anew() {
    let mut scene = Scene::new();
    scene.rotate(Rotation::Plain);
    let snapshot = scene.world.snapshot();
    let with = |kek| steps(&snapshot, CONFIG, Some(kek), scene.world.now());
    assert_eq!(with([7; 8]), []);
    let rewrap = [1, 2].map(|number| KeyStep::Rewrap { number });
    assert_eq!(with([8; 8]), rewrap);
}

#[test]
fn the_next_look_is_at_the_next_due_time() {
    let mut scene = Scene::new();
    let look = |scene: &Scene| {
        let snapshot = scene.world.snapshot();
        next_look(&snapshot, CONFIG, scene.world.now())
    };
    assert_eq!(look(&scene), CONFIG.gc_interval);
    let soon = scene.world.now().saturating_add(Duration::from_secs(90));
    scene.add(Some(1), Some(soon), Rotation::Plain);
    assert!(look(&scene) < Duration::from_secs(90));
    scene.world.wait(HOUR);
    assert_eq!(look(&scene), Duration::from_secs(1));
}

/// Changes by operators, the clock and other requests.
#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    Rotate(bool),
    Prepublish(u64),
    /// By a server that lags, perhaps with a key that is gone.
    Seal(u8, u32),
    Remove(u32, bool),
    /// The leader does so many of the steps that are due.
    Steps(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (1_u64..400).prop_map(Event::Wait),
        any::<bool>().prop_map(Event::Rotate),
        (0_u64..100).prop_map(Event::Prepublish),
        (any::<u8>(), 1_u32..8).prop_map(|(number, key)| Event::Seal(number, key)),
        (1_u32..8, any::<bool>()).prop_map(|(key, force)| Event::Remove(key, force)),
        (1_usize..5).prop_map(Event::Steps),
    ];
    prop::collection::vec(event, 1..60)
}

proptest! {
    #[test]
    fn keys_that_are_needed_stay_and_exactly_one_is_active(events in events()) {
        use controlplane_state::command::{KeyRemoval, RootKeyChange};
        let mut scene = Scene::new();
        for event in events {
            match event {
                Event::Wait(hours) => scene.world.wait(HOUR * u32::try_from(hours).unwrap()),
                Event::Rotate(full) => {
                    scene.rotate(if full { Rotation::Full } else { Rotation::Plain });
                }
                Event::Prepublish(hours) => {
                    let snapshot = scene.world.snapshot();
                    let active = snapshot.active_root_key().map(|key| key.number);
                    let later = HOUR * u32::try_from(hours).unwrap();
                    let publish = scene.world.now().saturating_add(later);
                    scene.add(active, Some(publish), Rotation::Plain);
                }
                Event::Seal(number, key) => drop(scene.seal(number, key)),
                Event::Remove(number, force) => {
                    let rule = if force { KeyRemoval::Forced } else { KeyRemoval::Unused };
                    let remove: Command = RootKeyChange::Remove { number, rule }.into();
                    scene.world.apply(remove);
                }
                Event::Steps(count) => {
                    for step in scene.steps().into_iter().take(count) {
                        scene.carry_out(step);
                    }
                }
            }
            // The world checks the invariants of the state: the key of each seal among them.
            let snapshot = scene.world.snapshot();
            let keys = snapshot.root_keys();
            let active = keys.filter(|key| key.state == RootKeyState::Active).count();
            prop_assert_eq!(active, 1);
        }
        // Left alone, the machine comes to rest: secrets under one key, nothing kept in vain.
        for _ in 0..40 {
            for step in scene.steps() {
                scene.carry_out(step);
            }
            scene.world.wait(HOUR);
        }
        // The last step may have activated a key.
        for _ in 0..2 {
            for step in scene.steps() {
                scene.carry_out(step);
            }
        }
        let snapshot = scene.world.snapshot();
        let keys = snapshot.root_keys();
        let old = keys.filter(|key| {
            matches!(key.state, RootKeyState::Inactive | RootKeyState::Rekeying)
        });
        let newest = snapshot.active_root_key().map_or(0, |key| key.number);
        for key in old {
            prop_assert!(key.state_time.saturating_add(3 * HOUR) > scene.world.now(), "{key:?}");
        }
        for token in snapshot.acl_tokens() {
            let key = token.sealed.as_ref().map_or(newest, |sealed| sealed.key);
            let state = snapshot.root_key(key).map(|key| key.state);
            let shown = [Some(RootKeyState::Active), Some(RootKeyState::Prepublished)];
            prop_assert!(shown.contains(&state), "{key} is {state:?}");
        }
    }
}
