//! The machine alone, and whole clusters of disks whose leaders are lost at any step.

use proptest::prelude::*;

use super::*;

fn kek(fill: u8) -> KekId {
    KekId::from_slice(&[fill; 8]).expect("8 bytes")
}

fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    items.into_iter().collect()
}

/// Three voters, of which 1 leads.
fn three() -> FirstKey {
    FirstKey::new(set([1, 2, 3]))
}

#[test]
fn a_majority_without_a_kek_makes_one() {
    let mut machine = three();
    assert_eq!(machine.next(), FirstKeyStep::Ask(set([1, 2, 3])));
    machine.on_answer(1, []);
    machine.on_round();
    assert_eq!(
        machine.next(),
        FirstKeyStep::Ask(set([2, 3])),
        "1 is no majority"
    );
    machine.on_answer(3, []);
    machine.on_round();
    assert_eq!(machine.next(), FirstKeyStep::Make);
    machine.on_made(kek(7));
    assert_eq!(machine.next(), FirstKeyStep::Store(kek(7), set([1, 2, 3])));
    machine.on_stored(1, kek(7));
    assert_eq!(machine.next(), FirstKeyStep::Store(kek(7), set([2, 3])));
    machine.on_stored(2, kek(7));
    assert_eq!(machine.next(), FirstKeyStep::Propose(kek(7)));
}

#[test]
fn the_lowest_kek_that_a_voter_has_is_used() {
    let mut machine = three();
    machine.on_answer(1, [kek(9)]);
    machine.on_answer(2, []);
    // The majority is there; the third one answers within the round.
    machine.on_answer(3, [kek(8), kek(5)]);
    machine.on_round();
    assert_eq!(machine.next(), FirstKeyStep::Store(kek(5), set([1, 2, 3])));
}

#[test]
fn the_only_voter_needs_nobody_else() {
    let mut machine = FirstKey::new(set([4]));
    machine.on_answer(4, []);
    machine.on_round();
    machine.on_made(kek(1));
    machine.on_stored(4, kek(1));
    assert_eq!(machine.next(), FirstKeyStep::Propose(kek(1)));
}

#[test]
fn servers_that_do_not_vote_count_for_nothing() {
    let mut machine = three();
    machine.on_answer(1, []);
    machine.on_answer(8, [kek(1)]);
    machine.on_round();
    assert_eq!(machine.next(), FirstKeyStep::Ask(set([2, 3])));
    machine.on_answer(2, []);
    machine.on_round();
    assert_eq!(
        machine.next(),
        FirstKeyStep::Make,
        "8 has one and is no voter"
    );
    machine.on_made(kek(2));
    machine.on_stored(1, kek(2));
    machine.on_stored(8, kek(2));
    assert_eq!(machine.next(), FirstKeyStep::Store(kek(2), set([2, 3])));
}

#[test]
fn a_majority_of_the_voters_of_now_is_needed() {
    let mut machine = three();
    machine.on_answer(1, []);
    machine.on_answer(2, []);
    machine.on_round();
    machine.on_made(kek(2));
    machine.on_stored(1, kek(2));
    machine.on_stored(2, kek(2));
    machine.on_voters(set([1, 3, 4]));
    assert_eq!(machine.next(), FirstKeyStep::Store(kek(2), set([3, 4])));
}

#[test]
fn late_answers_change_nothing() {
    let mut machine = three();
    machine.on_answer(1, []);
    machine.on_answer(2, []);
    machine.on_round();
    machine.on_answer(3, [kek(1)]);
    machine.on_round();
    assert_eq!(machine.next(), FirstKeyStep::Make);
    machine.on_made(kek(6));
    machine.on_made(kek(5));
    machine.on_stored(1, kek(5));
    machine.on_stored(2, kek(5));
    assert_eq!(machine.next(), FirstKeyStep::Store(kek(6), set([1, 2, 3])));
}

/// One leader's term: who leads, which servers it reaches, after how many calls it is lost.
type Term = (u64, BTreeSet<u64>, usize);

/// Runs a term over `disks`. Answers the KEK of the root key that it proposed.
fn lead(disks: &mut BTreeMap<u64, BTreeSet<KekId>>, term: &Term, fresh: u8) -> Option<KekId> {
    let (leader, reaches, mut calls) = term.clone();
    let voters = disks.keys().copied();
    let mut machine = FirstKey::new(voters.collect());
    let mut call = |server: u64| {
        calls = calls.checked_sub(1)?;
        Some(server == leader || reaches.contains(&server))
    };
    // A step that moves nothing is repeated by the shell: here it ends the term.
    for _ in 0..8 {
        match machine.next() {
            FirstKeyStep::Ask(servers) => {
                for server in servers {
                    if call(server)? {
                        machine.on_answer(server, disks[&server].iter().copied());
                    }
                }
                machine.on_round();
            }
            FirstKeyStep::Make => machine.on_made(kek(fresh)),
            FirstKeyStep::Store(kek, servers) => {
                for server in servers {
                    if call(server)? {
                        disks.entry(server).or_default().insert(kek);
                        machine.on_stored(server, kek);
                    }
                }
            }
            FirstKeyStep::Propose(kek) => return Some(kek),
        }
    }
    None
}

fn terms() -> impl Strategy<Value = Vec<Term>> {
    let reaches = proptest::collection::btree_set(1u64..=5, 0..5);
    proptest::collection::vec((1u64..=5, reaches, 0usize..14), 1..8)
}

proptest! {
    #[test]
    fn the_root_key_has_a_kek_that_a_majority_keeps(terms in terms()) {
        let mut disks: BTreeMap<u64, BTreeSet<KekId>> =
            (1..=5).map(|server| (server, BTreeSet::new())).collect();
        for (term, fresh) in terms.iter().zip(1..) {
            if let Some(kek) = lead(&mut disks, term, fresh) {
                let keep = disks.values().filter(|keks| keks.contains(&kek)).count();
                prop_assert!(keep >= 3, "{kek} is on {keep} of 5");
                return Ok(());
            }
        }
    }

    #[test]
    fn a_kek_that_reached_a_majority_is_the_only_one_made(
        lost_after in 0usize..14, next in 2u64..=3,
    ) {
        let mut disks: BTreeMap<u64, BTreeSet<KekId>> =
            (1..=3).map(|server| (server, BTreeSet::new())).collect();
        let all = set([1, 2, 3]);
        let first = lead(&mut disks, &(1, all.clone(), lost_after), 9);
        let kept = disks.values().filter(|keks| keks.contains(&kek(9))).count();
        // The first leader's disk is gone with it: the others have a majority.
        let second = lead(&mut disks, &(next, set([2, 3]), usize::MAX), 1);
        match kept {
            0 | 1 => prop_assert!(first.is_none()),
            _ => prop_assert_eq!(second, Some(kek(9))),
        }
    }
}
