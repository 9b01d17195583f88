//! The machine under everything that a shell, a server and a clock may do to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use protocol_model::AllocId;

use super::*;

const ALLOC: AllocId = AllocId::from_u128(7);

fn at(millis: u64) -> Moment {
    Moment(Duration::from_millis(millis))
}

fn key(identity: &str) -> IdentityKey {
    IdentityKey::new(ALLOC, "web", identity)
}

fn signed(ttl_s: u64) -> SignedToken {
    SignedToken {
        jwt: Jwt::new("a.b.c"),
        issued_at: 1_000,
        expires_at: if ttl_s == 0 { 0 } else { 1_000 + ttl_s },
    }
}

fn steps(machine: &mut Identities) -> Vec<IdentityStep> {
    std::iter::from_fn(|| machine.poll_step()).collect()
}

/// The only question that was asked.
fn asked(machine: &mut Identities) -> (QueryId, Vec<IdentityKey>) {
    match steps(machine).as_slice() {
        [IdentityStep::Ask { query, names }] => (*query, names.clone()),
        other => panic!("not one question: {other:?}"),
    }
}

fn live() -> Identities {
    let mut machine = Identities::new(1);
    machine.on_session(true, at(0));
    machine
}

/// A machine that holds one token since 0 ms.
fn holding(ttl_s: u64, root_key: u32) -> Identities {
    let mut machine = live();
    machine.want(key("x"), root_key, at(0));
    let (query, _) = asked(&mut machine);
    machine.on_answer(query, vec![Ok(signed(ttl_s))], at(0));
    let delivered = IdentityStep::Signed {
        key: key("x"),
        delivery: Delivery::First,
    };
    assert_eq!(steps(&mut machine), [delivered]);
    machine
}

#[test]
fn first_want_is_asked_at_once_and_those_after_it_together() {
    let mut machine = live();
    machine.want(key("a"), 0, at(0));
    assert_eq!(asked(&mut machine).1, [key("a")]);
    machine.want(key("b"), 0, at(10));
    machine.want(key("c"), 0, at(20));
    assert_eq!(steps(&mut machine), []);
    assert_eq!(machine.poll_timeout(), Some(at(50)));
    machine.on_timeout(at(50));
    assert_eq!(asked(&mut machine).1, [key("b"), key("c")]);
}

#[test]
fn a_question_has_256_names_and_16_questions_are_under_way() {
    let mut machine = Identities::new(1);
    for number in 0..QUERIES_MAX * NAMES_MAX + 1 {
        machine.want(key(&number.to_string()), 0, at(0));
    }
    machine.on_session(true, at(0));
    let sizes: Vec<usize> = steps(&mut machine)
        .iter()
        .map(|step| match step {
            IdentityStep::Ask { names, .. } => names.len(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sizes, [NAMES_MAX; QUERIES_MAX]);
    machine.on_timeout(at(100));
    assert_eq!(steps(&mut machine), []);
    machine.on_answer(QueryId(1), vec![Ok(signed(0)); NAMES_MAX], at(200));
    let last = steps(&mut machine).pop();
    assert!(matches!(last, Some(IdentityStep::Ask { names, .. }) if names.len() == 1));
}

#[test]
fn nothing_is_asked_without_a_session() {
    let mut machine = Identities::new(1);
    machine.want(key("a"), 0, at(0));
    assert_eq!(machine.poll_timeout(), None);
    machine.on_session(true, at(9_000));
    asked(&mut machine);
}

#[test]
fn token_is_renewed_around_half_of_its_ttl_and_not_before_10_s() {
    for (ttl_s, from, to) in [(60, 27_000, 33_000), (15, 10_000, 10_000)] {
        let machine = holding(ttl_s, 0);
        let due = machine.poll_timeout().expect("a renewal");
        assert!(at(from) <= due && due <= at(to), "{ttl_s}: {due:?}");
    }
    assert_eq!(holding(0, 0).poll_timeout(), None);
}

#[test]
fn a_renewal_is_a_renewed_delivery() {
    let mut machine = holding(60, 0);
    let due = machine.poll_timeout().expect("a renewal");
    machine.on_timeout(due);
    let (query, _) = asked(&mut machine);
    machine.on_answer(query, vec![Ok(signed(60))], due);
    let delivered = IdentityStep::Signed {
        key: key("x"),
        delivery: Delivery::Renewed,
    };
    assert_eq!(steps(&mut machine), [delivered]);
}

#[test]
fn failures_back_off_from_1_s_to_30_s() {
    let mut machine = live();
    machine.want(key("x"), 0, at(0));
    let (mut query, mut now, mut pauses) = (asked(&mut machine).0, at(0), Vec::new());
    for _ in 0..8 {
        machine.on_failure(query, now);
        let due = machine.poll_timeout().expect("another try");
        pauses.push(due.since(now));
        now = due;
        machine.on_timeout(now);
        query = asked(&mut machine).0;
    }
    assert_eq!(pauses[0], RETRY_MIN);
    assert!(pauses.windows(2).all(|two| two[0] * 3 / 4 <= two[1]));
    let last = pauses[7];
    assert!(RETRY_MAX * 3 / 4 <= last && last <= RETRY_MAX, "{last:?}");
}

#[test]
fn failed_renewal_is_tried_again_within_a_tenth_of_the_ttl() {
    let mut machine = holding(60, 0);
    let mut now = machine.poll_timeout().expect("a renewal");
    for _ in 0..5 {
        machine.on_timeout(now);
        let (query, _) = asked(&mut machine);
        machine.on_failure(query, now);
        let due = machine.poll_timeout().expect("another try");
        assert!(due.since(now) <= Duration::from_secs(6));
        now = due;
    }
}

#[test]
fn an_expired_token_is_told_once_and_stays() {
    let mut machine = holding(60, 0);
    machine.on_session(false, at(1_000));
    assert_eq!(machine.poll_timeout(), Some(at(60_000)));
    machine.on_timeout(at(60_000));
    assert_eq!(
        steps(&mut machine),
        [IdentityStep::Expired { key: key("x") }]
    );
    assert_eq!(machine.poll_timeout(), None);
    let token = machine.token(&key("x")).expect("it stays");
    assert!(token.is_expired(at(60_000)));
    machine.on_session(true, at(70_000));
    asked(&mut machine);
}

#[test]
fn another_root_key_of_the_allocation_asks_anew() {
    let mut machine = holding(0, 3);
    machine.want(key("x"), 3, at(1_000));
    machine.want(key("x"), 0, at(1_000));
    assert_eq!(steps(&mut machine), []);
    machine.want(key("x"), 4, at(2_000));
    let (query, _) = asked(&mut machine);
    // It changes once more while the answer is under way.
    machine.want(key("x"), 5, at(2_100));
    machine.on_answer(query, vec![Ok(signed(0))], at(2_200));
    let last = steps(&mut machine).pop();
    let Some(IdentityStep::Ask { query, .. }) = last else {
        panic!("{last:?}");
    };
    machine.on_answer(query, vec![Ok(signed(0))], at(2_300));
    assert_eq!(machine.token(&key("x")).map(|it| it.root_key), Some(5));
    assert_eq!(machine.poll_timeout(), None);
}

#[test]
fn identities_of_no_run_are_held_and_not_renewed() {
    let mut machine = holding(60, 0);
    machine.pause(ALLOC, "web");
    assert_eq!(machine.poll_timeout(), None);
    assert!(machine.token(&key("x")).is_some());
    machine.want(key("x"), 0, at(40_000));
    asked(&mut machine);
    machine.forget(ALLOC);
    assert_eq!(machine.held(ALLOC).count(), 0);
}

#[test]
fn a_restored_token_is_renewed_when_it_would_have_been() {
    let held = holding(60, 0);
    let token = held.token(&key("x")).expect("held").clone();
    let mut machine = live();
    machine.restore(key("x"), token);
    assert_eq!(machine.poll_timeout(), None);
    machine.want(key("x"), 0, at(1_000));
    assert_eq!(steps(&mut machine), []);
    let due = machine.poll_timeout().expect("a renewal");
    assert!(at(27_000) <= due && due <= at(33_000), "{due:?}");
}

#[test]
fn a_rejection_is_told_and_asked_again() {
    let mut machine = live();
    machine.want(key("x"), 0, at(0));
    let (query, _) = asked(&mut machine);
    let rejection = IdentityRejection::TaskNotFound;
    machine.on_answer(query, vec![Err(rejection)], at(0));
    let told = IdentityStep::Rejected {
        key: key("x"),
        rejection,
    };
    assert_eq!(steps(&mut machine), [told]);
    assert_eq!(machine.poll_timeout(), Some(at(1_000)));
}

/// Something that happens to the machine.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Want(u8, u32),
    Pause,
    Forget,
    Session(bool),
    /// The oldest question is answered, or its answer is lost for so long.
    Answer(bool),
    Reject,
    Fail,
    /// Time passes: milliseconds.
    Pass(u64),
    Restart,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        4 => (0..4_u8, 0..3_u32).prop_map(|(name, root_key)| Happening::Want(name, root_key)),
        1 => Just(Happening::Pause),
        1 => Just(Happening::Forget),
        2 => any::<bool>().prop_map(Happening::Session),
        6 => any::<bool>().prop_map(Happening::Answer),
        1 => Just(Happening::Reject),
        2 => Just(Happening::Fail),
        6 => (1..40_000_u64).prop_map(Happening::Pass),
        1 => Just(Happening::Restart),
    ];
    proptest::collection::vec(one, 1..120)
}

/// A shell with its questions.
struct Shell {
    machine: Identities,
    now: Moment,
    asked: BTreeMap<QueryId, Vec<IdentityKey>>,
    wanted: BTreeSet<IdentityKey>,
    rounds: Vec<Moment>,
}

impl Shell {
    fn new() -> Self {
        Self {
            machine: Identities::new(9),
            now: at(0),
            asked: BTreeMap::new(),
            wanted: BTreeSet::new(),
            rounds: Vec::new(),
        }
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        let oldest = self.asked.keys().next().copied();
        let names = |shell: &mut Self| shell.asked.remove(&oldest.unwrap_or(QueryId(0)));
        match happening {
            Happening::Want(name, root_key) => {
                self.wanted.insert(key(&name.to_string()));
                self.machine.want(key(&name.to_string()), root_key, now);
            }
            Happening::Pause => self.machine.pause(ALLOC, "web"),
            Happening::Forget => {
                self.machine.forget(ALLOC);
                self.wanted.clear();
            }
            Happening::Session(is_live) => self.machine.on_session(is_live, now),
            Happening::Answer(is_short) => {
                if let (Some(names), Some(query)) = (names(self), oldest) {
                    let count = names.len() - usize::from(is_short);
                    self.machine
                        .on_answer(query, vec![Ok(signed(60)); count], now);
                }
            }
            Happening::Reject => {
                if let (Some(names), Some(query)) = (names(self), oldest) {
                    let rejection = Err(IdentityRejection::AllocNotFound);
                    self.machine
                        .on_answer(query, vec![rejection; names.len()], now);
                }
            }
            Happening::Fail => {
                if let (Some(_), Some(query)) = (names(self), oldest) {
                    self.machine.on_failure(query, now);
                }
            }
            Happening::Pass(millis) => self.pass(at(millis).0),
            Happening::Restart => self.restart(),
        }
        self.drain();
    }

    /// Time passes from deadline to deadline.
    fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        let mut turns = 0;
        while let Some(at) = self.machine.poll_timeout()
            && at <= end
        {
            self.now = self.now.max(at);
            self.machine.on_timeout(self.now);
            self.drain();
            turns += 1;
            assert!(turns < 10_000, "it turns in place at {:?}", self.now);
        }
        self.now = end;
    }

    fn restart(&mut self) {
        let held: Vec<(IdentityKey, HeldToken)> = self
            .machine
            .held(ALLOC)
            .map(|(key, token)| (key.clone(), token.clone()))
            .collect();
        let wanted = std::mem::take(&mut self.wanted);
        self.machine = Identities::new(10);
        self.asked.clear();
        self.rounds.clear();
        for (key, token) in held {
            self.machine.restore(key, token);
        }
        for key in wanted {
            self.machine.want(key.clone(), 0, self.now);
            self.wanted.insert(key);
        }
    }

    fn drain(&mut self) {
        while let Some(step) = self.machine.poll_step() {
            match step {
                IdentityStep::Ask { query, names } => {
                    assert!(names.len() <= NAMES_MAX);
                    let unique: BTreeSet<&IdentityKey> = names.iter().collect();
                    assert_eq!(unique.len(), names.len());
                    self.rounds.push(self.now);
                    self.asked.insert(query, names);
                }
                IdentityStep::Signed { key, .. } => {
                    let token = self.machine.token(&key).expect("a token that came is held");
                    assert_eq!(token.came, self.now);
                }
                IdentityStep::Expired { key } => {
                    let token = self.machine.token(&key).expect("the old token stays");
                    assert!(token.is_expired(self.now));
                }
                IdentityStep::Rejected { .. } => {}
            }
        }
    }
}

proptest! {
    /// After any losses: with a session and answers every identity that is wanted is held,
    /// and none of them has expired.
    #[test]
    fn wanted_identities_are_held_in_the_end(happenings in happenings()) {
        let mut shell = Shell::new();
        for happening in happenings {
            shell.happen(happening);
        }
        let wanted = std::mem::take(&mut shell.wanted);
        shell.machine.on_session(true, shell.now);
        for key in &wanted {
            shell.machine.want(key.clone(), 0, shell.now);
        }
        shell.asked.clear();
        shell.drain();
        for _ in 0..40 {
            shell.pass(Duration::from_secs(1));
            while !shell.asked.is_empty() {
                shell.happen(Happening::Answer(false));
            }
        }
        for key in &wanted {
            let token = shell.machine.token(key);
            prop_assert!(token.is_some_and(|token| !token.is_expired(shell.now)), "{key:?}");
        }
    }

    /// Rounds keep their distance: a server is asked at most 20 times a second.
    #[test]
    fn rounds_of_questions_keep_their_distance(happenings in happenings()) {
        let mut shell = Shell::new();
        for happening in happenings {
            shell.happen(happening);
            let mut rounds = shell.rounds.clone();
            rounds.dedup();
            prop_assert!(rounds.windows(2).all(|two| two[1].since(two[0]) >= ROUND_MIN));
        }
    }
}
