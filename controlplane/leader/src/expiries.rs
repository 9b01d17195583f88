//! Removes access tokens and one-time tokens that are expired.
//!
//! ```text
//!  access token    created ── ttl ──► expired (refused) ── 1 h ──► removed
//!  one-time token  made ── 10 min ──► expired (refused), removed
//! ```
//!
//! `apply` refuses an expired token by the state's time, so a late removal harms nobody. An expired
//! access token stays for an hour, so that its holder reads "expired" instead of "not found".

use std::time::Duration;

use controlplane_state::command::{ACCESS_ROWS_MAX, AccessCommand, AclTokens, OneTimeTokens};
use controlplane_state::{Command, Signal, Snapshot};
use protocol_model::{EvalId, UnixNanos};

use crate::part::{Applied, Effect, LeaderPart};
use crate::time::Now;

/// How long an expired access token stays.
pub const EXPIRED_TOKEN_KEPT: Duration = Duration::from_secs(60 * 60);

/// The longest pause between two looks while something expires: the wall clock may jump.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The pause after a removal: other parts have their turn, and a failed one is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a refused removal. A server of an older release has to be upgraded first.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// When something expires next.
#[derive(Debug, Default)]
pub struct Expiries {
    due: Option<Duration>,
    /// Nothing is proposed before this time.
    paused_until: Duration,
    /// The last removal was refused: a longer pause begins with the next look.
    refused: bool,
}

impl Expiries {
    /// Follows every token of the state that expires.
    pub fn of(snapshot: &Snapshot, now: Now) -> Self {
        Self {
            due: next(snapshot, now),
            ..Self::default()
        }
    }
}

/// The later of the state's time and the wall clock.
fn latest(snapshot: &Snapshot, now: Now) -> UnixNanos {
    snapshot.now().max(now.wall)
}

/// When the first token is to be removed, by the monotonic clock.
fn next(snapshot: &Snapshot, now: Now) -> Option<Duration> {
    let token = snapshot.acl_tokens_by_expiry().next();
    let token = token.map(|(expired, _)| expired.saturating_add(EXPIRED_TOKEN_KEPT));
    let one_time = snapshot.one_time_tokens_by_expiry().next();
    let one_time = one_time.map(|(expired, _)| expired);
    let first = token.into_iter().chain(one_time).min()?;
    let wait = first.saturating_since(latest(snapshot, now));
    Some(now.monotonic + wait.min(LOOK_EVERY))
}

/// The next removal, of at most [`ACCESS_ROWS_MAX`] tokens; `None` where nothing is to be removed.
fn removal(snapshot: &Snapshot, now: UnixNanos) -> Option<Command> {
    let tokens = snapshot.acl_tokens_by_expiry();
    let accessors: Vec<String> = tokens
        .take_while(|(expired, _)| expired.saturating_add(EXPIRED_TOKEN_KEPT) <= now)
        .take(ACCESS_ROWS_MAX)
        .map(|(_, accessor)| accessor.to_owned())
        .collect();
    if !accessors.is_empty() {
        return Some(AclTokens::Expire { accessors }.into());
    }
    let one_time = snapshot.one_time_tokens_by_expiry();
    let digests: Vec<_> = one_time
        .take_while(|(expired, _)| *expired <= now)
        .take(ACCESS_ROWS_MAX)
        .map(|(_, digest)| digest)
        .collect();
    (!digests.is_empty()).then(|| OneTimeTokens::Expire { digests }.into())
}

fn is_removal(effect: &Effect) -> bool {
    let Effect::Command(command) = effect;
    matches!(
        command,
        Command::Access(
            AccessCommand::Tokens(AclTokens::Expire { .. })
                | AccessCommand::OneTimeTokens(OneTimeTokens::Expire { .. })
        )
    )
}

impl LeaderPart for Expiries {
    fn on_applied(&mut self, applied: Applied<'_>, now: Now) {
        let changes = [Signal::AclChanged, Signal::OneTimeTokensChanged];
        let mut signals = applied.signals.iter();
        if signals.any(|signal| changes.contains(signal)) {
            self.due = next(applied.snapshot, now);
        }
    }

    fn poll(
        &mut self,
        snapshot: &Snapshot,
        _: &mut dyn FnMut() -> EvalId,
        now: Now,
    ) -> Option<Effect> {
        if std::mem::take(&mut self.refused) {
            self.paused_until = now.monotonic + REFUSED_PAUSE;
        }
        if now.monotonic < self.poll_timeout()? {
            return None;
        }
        self.due = next(snapshot, now);
        let command = removal(snapshot, latest(snapshot, now))?;
        self.paused_until = now.monotonic + PAUSE;
        Some(Effect::Command(command))
    }

    fn on_refused(&mut self, effect: &Effect, _: &str) {
        self.refused |= is_removal(effect);
    }

    fn poll_timeout(&self) -> Option<Duration> {
        Some(self.due?.max(self.paused_until))
    }
}

#[cfg(test)]
mod tests {
    use controlplane_state::{AclToken, AclTokenKind, Digest, ONE_TIME_TOKEN_TTL, Outcome};
    use hack_testkit::World;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const MINUTE: Duration = Duration::from_secs(60);

    struct Scene {
        world: World,
        part: Expiries,
        started: UnixNanos,
    }

    impl Scene {
        fn new() -> Self {
            let world = World::new();
            let started = world.now();
            let mut scene = Self {
                world,
                part: Expiries::default(),
                started,
            };
            scene.part = Expiries::of(&scene.world.snapshot(), scene.now());
            scene
        }

        /// Both clocks at the world's time.
        fn now(&self) -> Now {
            Now {
                monotonic: self.world.now().saturating_since(self.started),
                wall: self.world.now(),
            }
        }

        fn apply(&mut self, command: impl Into<Command>) -> Outcome {
            let applied = self.world.apply(command.into());
            let snapshot = self.world.snapshot();
            let told = Applied {
                index: applied.index,
                signals: &applied.signals,
                snapshot: &snapshot,
            };
            let now = self.now();
            self.part.on_applied(told, now);
            applied.outcome
        }

        fn tokens(&mut self, ttls: impl IntoIterator<Item = Option<Duration>>) {
            let tokens: Vec<AclToken> = (1u32..).zip(ttls).map(token).collect();
            for tokens in tokens.chunks(ACCESS_ROWS_MAX) {
                let tokens = tokens.to_vec();
                assert_eq!(self.apply(AclTokens::Create { tokens }), Outcome::Done);
            }
        }

        fn make(&mut self, accessor: &str) {
            let accessor_id = accessor.to_owned();
            let digest = Digest([1; 32]);
            let make = OneTimeTokens::Make {
                digest,
                accessor_id,
            };
            assert_eq!(self.apply(make), Outcome::Done);
        }

        fn poll(&mut self) -> Option<Command> {
            let now = self.now();
            let snapshot = self.world.snapshot();
            let mut ids = || EvalId::from_u128(1);
            let Effect::Command(command) = self.part.poll(&snapshot, &mut ids, now)?;
            Some(command)
        }

        /// Carries out what is due from now on, each time at its own time, until `end`.
        fn run(&mut self, end: Duration) -> usize {
            let mut removals = 0;
            while let Some(due) = self.part.poll_timeout().filter(|due| *due <= end) {
                let passed = self.now().monotonic;
                self.world.wait(due.saturating_sub(passed));
                if let Some(command) = self.poll() {
                    assert_eq!(self.apply(command), Outcome::Done);
                    removals += 1;
                }
            }
            removals
        }

        fn left(&self) -> Vec<String> {
            let snapshot = self.world.snapshot();
            let tokens = snapshot.acl_tokens();
            tokens.map(|token| token.accessor_id.clone()).collect()
        }
    }

    fn token((number, ttl): (u32, Option<Duration>)) -> AclToken {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&number.to_be_bytes());
        AclToken {
            accessor_id: format!("token-{number}"),
            secret_hash: Digest(digest),
            sealed: None,
            name: String::new(),
            kind: AclTokenKind::Client,
            policies: vec!["read".to_owned()],
            roles: Vec::new(),
            global: false,
            expiration: None,
            ttl,
            create_time: UnixNanos::ZERO,
            create_index: 0,
            modify_index: 0,
        }
    }

    #[test]
    fn a_token_is_removed_an_hour_after_it_expired() {
        let mut scene = Scene::new();
        assert_eq!(scene.part.poll_timeout(), None, "nothing expires");
        scene.tokens([None, Some(MINUTE), Some(2 * HOUR)]);
        assert_eq!(scene.run(HOUR + MINUTE), 0);
        assert_eq!(scene.left().len(), 3);
        assert_eq!(scene.run(HOUR + MINUTE + 2 * PAUSE), 1);
        assert_eq!(scene.left(), ["token-1", "token-3"]);
        assert_eq!(scene.run(4 * HOUR), 1);
        assert_eq!(scene.left(), ["token-1"]);
        assert_eq!(scene.part.poll_timeout(), None);
    }

    #[test]
    fn a_one_time_token_is_removed_when_it_expires() {
        let mut scene = Scene::new();
        scene.tokens([None]);
        scene.make("token-1");
        assert_eq!(scene.run(ONE_TIME_TOKEN_TTL), 0);
        let count = |scene: &Scene| scene.world.snapshot().one_time_tokens_by_expiry().count();
        assert_eq!(count(&scene), 1);
        assert_eq!(scene.run(ONE_TIME_TOKEN_TTL + 2 * PAUSE), 1);
        assert_eq!(count(&scene), 0);
        assert_eq!(scene.left(), ["token-1"]);
    }

    #[test]
    fn many_tokens_are_removed_in_batches_with_pauses() {
        let mut scene = Scene::new();
        let count = 2 * ACCESS_ROWS_MAX + 1;
        scene.tokens(std::iter::repeat_n(Some(MINUTE), count));
        scene.world.wait(2 * HOUR);
        // A new leader finds them all due.
        scene.part = Expiries::of(&scene.world.snapshot(), scene.now());
        let first = scene.poll().expect("a removal");
        let Command::Access(AccessCommand::Tokens(AclTokens::Expire { accessors })) = &first else {
            panic!("{first:?}");
        };
        assert_eq!(accessors.len(), ACCESS_ROWS_MAX);
        assert_eq!(scene.apply(first), Outcome::Done);
        assert_eq!(scene.poll(), None, "other parts have their turn");
        assert_eq!(scene.run(3 * HOUR), 2);
        assert!(scene.left().is_empty());
    }

    #[test]
    fn a_removal_that_did_not_get_into_the_log_is_tried_again() {
        let mut scene = Scene::new();
        scene.tokens([Some(MINUTE)]);
        scene.world.wait(2 * HOUR);
        let lost = scene.poll().expect("a removal");
        scene.world.wait(PAUSE);
        let again = scene.poll().expect("the same");
        assert_eq!(again, lost);
        scene.part.on_refused(&Effect::Command(again), "too old");
        scene.world.wait(PAUSE);
        assert_eq!(scene.poll(), None, "a longer pause");
        scene.world.wait(REFUSED_PAUSE);
        assert_eq!(scene.poll(), Some(lost));
    }

    #[test]
    fn a_wall_clock_that_is_set_forward_is_seen_within_a_minute() {
        let mut scene = Scene::new();
        scene.tokens([Some(HOUR)]);
        let jumped = Now {
            monotonic: scene.now().monotonic + LOOK_EVERY,
            wall: scene.now().wall.saturating_add(3 * HOUR),
        };
        assert!(
            scene
                .part
                .poll_timeout()
                .is_some_and(|due| due <= jumped.monotonic)
        );
        let snapshot = scene.world.snapshot();
        let mut ids = || EvalId::from_u128(1);
        let effect = scene.part.poll(&snapshot, &mut ids, jumped);
        let Some(Effect::Command(command)) = effect else {
            panic!("nothing is removed");
        };
        // The state's time decides: the entry is stamped with a clock that was set back.
        assert_eq!(scene.apply(command), Outcome::NoOp);
    }
}
