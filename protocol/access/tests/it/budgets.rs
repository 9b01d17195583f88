//! Budgets against a naive model: buckets that are refilled.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;
use protocol_access::budget::{
    Budgets, Class, KEYS_MAX, Key, Kind, KindLimits, Limits, Place, Rate,
};

const SECOND: Duration = Duration::from_secs(1);

fn accessor(name: &str) -> Key {
    Key::Accessor(name.into())
}

fn address(text: &str) -> Key {
    Key::address(text.parse::<IpAddr>().expect("an address"))
}

/// How many of `tries` requests pass at one time.
fn passed(budgets: &mut Budgets, kind: Kind, key: &Key, tries: usize, now: Duration) -> usize {
    let charge = |_: &usize| budgets.charge(kind, key, Class::List, now).is_ok();
    (0..tries).filter(charge).count()
}

#[test]
fn default_limits_are_those_of_the_table() {
    let limits = Limits::default();
    let row = |kind: Kind| {
        let rates = Class::ALL.map(|class| limits.rate(kind, class));
        let rates = rates.map(|rate| rate.map(|rate| (rate.to_string(), rate.burst)));
        let places = [Place::Waiting, Place::Stream].map(|place| limits.places(kind, place));
        format!("{} {rates:?} {places:?}\n", kind.name())
    };
    let rows: String = Kind::ALL.into_iter().map(row).collect();
    let expected = "\
management [None, None, None] [Some(1024), Some(256)]
token [Some((\"1000 a second\", 5000)), Some((\"100 a second\", 500)), Some((\"200 a second\", 1000))] [Some(256), Some(64)]
workload [Some((\"500 a second\", 2500)), Some((\"50 a second\", 250)), Some((\"50 a second\", 250))] [Some(64), Some(16)]
anonymous [Some((\"20 a second\", 100)), Some((\"5 a second\", 25)), Some((\"5 a second\", 25))] [Some(8), Some(4)]
failure [Some((\"5 a second\", 20)), Some((\"5 a second\", 20)), Some((\"5 a second\", 20))] [None, None]
login [Some((\"10 a minute\", 10)), Some((\"10 a minute\", 10)), Some((\"10 a minute\", 10))] [None, None]
";
    assert_eq!(rows, expected);
    for kind in Kind::ALL {
        assert_eq!(Kind::parse(kind.name()), Some(kind));
    }
}

#[test]
fn burst_passes_and_then_the_rate() {
    let mut budgets = Budgets::default();
    let key = accessor("a");
    assert_eq!(passed(&mut budgets, Kind::Token, &key, 1000, SECOND), 500);
    assert_eq!(
        passed(&mut budgets, Kind::Token, &key, 1000, 2 * SECOND),
        100
    );
    assert_eq!(
        passed(&mut budgets, Kind::Token, &key, 1000, 60 * SECOND),
        500
    );
}

#[test]
fn classes_kinds_and_keys_have_budgets_of_their_own() {
    let mut budgets = Budgets::default();
    let key = accessor("a");
    assert_eq!(passed(&mut budgets, Kind::Anonymous, &key, 100, SECOND), 25);
    assert_eq!(
        budgets.charge(Kind::Anonymous, &key, Class::Write, SECOND),
        Ok(())
    );
    assert_eq!(passed(&mut budgets, Kind::Workload, &key, 900, SECOND), 250);
    assert_eq!(
        passed(&mut budgets, Kind::Anonymous, &accessor("b"), 100, SECOND),
        25
    );
    assert_eq!(
        passed(&mut budgets, Kind::Management, &key, 9000, SECOND),
        9000
    );
}

#[test]
fn refusal_names_the_budget_and_the_time_rounded_up() {
    let mut budgets = Budgets::default();
    let key = address("10.0.0.1");
    passed(&mut budgets, Kind::Anonymous, &key, 100, SECOND);
    let refused = budgets
        .charge(Kind::Anonymous, &key, Class::List, SECOND)
        .expect_err("the budget is spent");
    assert_eq!(refused.retry_after, Duration::from_millis(200));
    assert_eq!(refused.retry_after_seconds(), 1);
    assert_eq!(
        refused.to_string(),
        "Too many requests: the budget of anonymous for list is 5 a second; try again in 1 s"
    );
    assert_eq!(passed(&mut budgets, Kind::Login, &key, 100, SECOND), 10);
    let refused = budgets
        .charge(Kind::Login, &key, Class::Write, SECOND)
        .expect_err("logins have one class");
    assert_eq!(
        refused.to_string(),
        "Too many requests: the budget of an address for logins is 10 a minute; try again in 6 s"
    );
}

#[test]
fn request_passes_exactly_when_the_refusal_said() {
    let mut budgets = Budgets::default();
    let key = accessor("a");
    let mut now = SECOND;
    for _ in 0..5_000 {
        match budgets.charge(Kind::Anonymous, &key, Class::Read, now) {
            Ok(()) => {}
            Err(refused) => {
                let early = now + refused.retry_after - Duration::from_nanos(1);
                assert!(
                    budgets
                        .charge(Kind::Anonymous, &key, Class::Read, early)
                        .is_err()
                );
                now += refused.retry_after;
                assert_eq!(
                    budgets.charge(Kind::Anonymous, &key, Class::Read, now),
                    Ok(())
                );
            }
        }
    }
}

#[test]
fn rate_of_zero_lets_nothing_pass() {
    let mut limits = Limits::default();
    limits.anonymous.list = Some(0);
    let mut budgets = Budgets::new(limits);
    assert_eq!(
        passed(&mut budgets, Kind::Anonymous, &accessor("a"), 5, SECOND),
        0
    );
}

#[test]
fn left_is_the_number_that_would_pass() {
    let key = accessor("a");
    for spent in [0, 1, 24, 25] {
        let mut budgets = Budgets::default();
        passed(&mut budgets, Kind::Anonymous, &key, spent, SECOND);
        let left = budgets.left(Kind::Anonymous, &key, Class::List, SECOND);
        let left = left.expect("a limit").left as usize;
        assert_eq!(
            passed(&mut budgets, Kind::Anonymous, &key, 100, SECOND),
            left
        );
    }
    let budgets = Budgets::default();
    assert_eq!(
        budgets.left(Kind::Management, &key, Class::List, SECOND),
        None
    );
}

#[test]
fn new_limits_hold_from_the_next_request_on() {
    let mut budgets = Budgets::default();
    let key = accessor("a");
    passed(&mut budgets, Kind::Anonymous, &key, 100, SECOND);
    let mut limits = Limits::default();
    limits.anonymous.list = Some(50);
    budgets.set_limits(limits);
    assert_eq!(
        passed(&mut budgets, Kind::Anonymous, &key, 100, 2 * SECOND),
        50
    );
}

#[test]
fn hosts_of_one_v6_network_share_a_budget() {
    assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1:2:3"));
    assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
    assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
}

#[test]
fn places_are_freed_when_they_are_left() {
    let mut budgets = Budgets::default();
    let key = accessor("a");
    for _ in 0..4 {
        assert_eq!(budgets.enter(Kind::Anonymous, &key, Place::Stream), Ok(()));
    }
    let refused = budgets
        .enter(Kind::Anonymous, &key, Place::Stream)
        .expect_err("four streams are all");
    assert_eq!(
        refused.to_string(),
        "Too many requests: the budget of anonymous for streams is 4 at a time; try again in 1 s"
    );
    assert_eq!(budgets.enter(Kind::Anonymous, &key, Place::Waiting), Ok(()));
    budgets.leave(Kind::Anonymous, &key, Place::Stream);
    assert_eq!(budgets.enter(Kind::Anonymous, &key, Place::Stream), Ok(()));
}

#[test]
fn flood_of_keys_is_bounded_and_forgets_the_fullest_first() {
    let mut budgets = Budgets::default();
    let spent = accessor("spent");
    passed(&mut budgets, Kind::Anonymous, &spent, 100, SECOND);
    for n in 0..u32::try_from(3 * KEYS_MAX).expect("few") {
        let key = Key::address(IpAddr::from(n.to_be_bytes()));
        assert_eq!(
            budgets.charge(Kind::Anonymous, &key, Class::List, SECOND),
            Ok(())
        );
        assert!(budgets.callers() <= KEYS_MAX);
    }
    assert_eq!(
        passed(&mut budgets, Kind::Anonymous, &spent, 100, SECOND),
        0
    );
}

#[test]
fn part_of_all_callers_is_bounded_by_its_own_number() {
    let mut budgets = Budgets::with_keys_max(Limits::default(), 64);
    for n in 0..1000_u32 {
        let key = Key::address(IpAddr::from(n.to_be_bytes()));
        let charged = budgets.charge(Kind::Anonymous, &key, Class::List, SECOND);
        assert_eq!(charged, Ok(()));
        assert!(budgets.callers() <= 64 && budgets.callers() > usize::from(n > 64) * 55);
    }
}

/// A bucket as one explains it: it holds `burst` requests and is refilled evenly.
struct Bucket {
    /// In parts: one request is `per` of them, a nanosecond brings `requests`.
    parts: u128,
    at: Duration,
}

impl Bucket {
    fn take(&mut self, rate: Rate, now: Duration) -> bool {
        let per = rate.per.as_nanos();
        let brought = (now - self.at).as_nanos() * u128::from(rate.requests);
        self.at = now;
        self.parts = (self.parts + brought).min(per * u128::from(rate.burst));
        let passes = self.parts >= per;
        self.parts -= if passes { per } else { 0 };
        passes
    }
}

fn small_limits(read: u32, list: u32, burst: Duration) -> Limits {
    let limits = KindLimits {
        read: Some(read),
        list: Some(list),
        write: None,
        burst,
        waiting: 1,
        streams: 1,
    };
    Limits {
        token: limits,
        ..Limits::default()
    }
}

proptest! {
    #[test]
    fn budgets_equal_the_naive_model(
        // Divisors of a second: both sides are exact.
        rates in prop::sample::subsequence(vec![1_u32, 2, 5, 8, 10, 20, 50], 2),
        burst_seconds in 1_u64..4,
        steps in prop::collection::vec((0_u64..400, 0_usize..3, any::<bool>()), 1..300),
    ) {
        let limits = small_limits(rates[0], rates[1], Duration::from_secs(burst_seconds));
        let mut budgets = Budgets::new(limits);
        let mut model: BTreeMap<(usize, Class), Bucket> = BTreeMap::new();
        let mut now = Duration::from_secs(9);
        for (wait_ms, key, is_read) in steps {
            now += Duration::from_millis(wait_ms / 3);
            let class = if is_read { Class::Read } else { Class::List };
            let rate = limits.rate(Kind::Token, class).expect("a limit");
            let bucket = model.entry((key, class)).or_insert_with(|| Bucket {
                parts: rate.per.as_nanos() * u128::from(rate.burst),
                at: now,
            });
            let expected = bucket.take(rate, now);
            let key = accessor(&key.to_string());
            let left = budgets.left(Kind::Token, &key, class, now).expect("a limit").left;
            let checked = budgets.check(Kind::Token, &key, class, now);
            let charged = budgets.charge(Kind::Token, &key, class, now);
            prop_assert_eq!(checked, charged);
            prop_assert_eq!(charged.is_ok(), expected);
            prop_assert_eq!(left > 0, expected);
        }
    }
}
