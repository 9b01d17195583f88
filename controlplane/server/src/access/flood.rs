//! A flood of callers fills no memory: every cache and table of access control is filled beyond its
//! bound, its process's memory is read, it is flooded again, and the memory is compared.
//!
//! The test starts itself once more as a process of its own: no other test's memory is read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;

use controlplane_state::command::{AclPolicies, AclTokens};
use controlplane_state::{
    AclPolicy, AclToken, AclTokenKind, Command as Change, Digest, Outcome, Snapshot, Stamped, State,
};
use protocol_access::budget::{Class as Budgeted, KEYS_MAX, Limits};
use protocol_api::Class;
use protocol_model::{Incarnation, UnixNanos};
use tokio::time::Instant;

use super::budgets::CallerBudgets;
use super::measure::Meters;
use super::{Access, Caller, Credential};
use crate::gateway;

/// Says to the process that is started below that it is that process.
const CHILD: &str = "DROVER_TEST_FLOOD";
const NAME: &str = "access::flood::floods_of_callers_leave_the_memory_as_it_was";
/// The most memory that may be added by a flood. Without its bound, each adds more than this.
const GROWTH_MAX_KIB: usize = 8 * 1024;

#[test]
fn floods_of_callers_leave_the_memory_as_it_was() {
    if std::env::var_os(CHILD).is_some() {
        return flood();
    }
    let child = std::env::current_exe().expect("this program");
    let mut child = Command::new(child);
    let child = child.args(["--exact", NAME, "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("flooded: ").count(), 5, "{said}");
}

/// The memory of this process.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let number = line.and_then(|it| it.trim().strip_suffix(" kB"));
    number.and_then(|it| it.parse().ok()).expect("a number")
}

/// Fills something with `filling` callers, floods it with `flood` further ones, and compares.
fn compare(name: &str, filling: usize, flood: usize, mut call: impl FnMut(usize)) {
    (0..filling).for_each(&mut call);
    let filled = resident_kib();
    (filling..filling + flood).for_each(&mut call);
    let growth = resident_kib().saturating_sub(filled);
    println!("flooded: {name}, {growth} KiB more");
    assert!(
        growth < GROWTH_MAX_KIB,
        "{name}: {growth} KiB more, {GROWTH_MAX_KIB} at most"
    );
}

fn token(number: usize) -> Caller {
    Caller::Token {
        accessor_id: accessor(number).into(),
        kind: AclTokenKind::Client,
    }
}

fn accessor(number: usize) -> String {
    uuid::Uuid::from_u128(number as u128).to_string()
}

fn digest(number: usize) -> Digest {
    gateway::digest(&number.to_le_bytes())
}

fn flood() {
    let now = Instant::now();
    let meters = Meters::default();
    compare("labels of metrics", 10_000, 150_000, |number| {
        meters.count("job", Class::Read, &token(number), now);
    });
    budgets(now);
    rights();
}

/// Tokens and networks that are never seen twice.
fn budgets(now: Instant) {
    let budgets = CallerBudgets::new(Limits::default());
    compare(
        "budgets of tokens",
        KEYS_MAX * 5 / 4,
        KEYS_MAX * 2,
        |number| {
            let charged = budgets.charge(&token(number), Budgeted::Read, now);
            charged.expect("its first request");
        },
    );
    compare("budgets of addresses", KEYS_MAX / 2, KEYS_MAX, |number| {
        let four = IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(0)));
        let six = IpAddr::V6(Ipv6Addr::from_bits((number as u128 + 1) << 64));
        for address in [four, six] {
            let _ = budgets.charge_failure(&address.into(), now);
            let _ = budgets.charge_login(address, now);
        }
    });
}

fn apply(state: &mut State, index: u64, command: impl Into<Change>) {
    let stamped = Stamped {
        now: UnixNanos(1),
        seed: [7; 16],
        command: command.into(),
    };
    let applied = state.apply(index, stamped);
    let refused = matches!(applied.outcome, Outcome::Refused(_));
    assert!(!refused, "{:?}", applied.outcome);
}

/// Policies that change with every request, and tokens that come once.
fn rights() {
    let mut state = State::new();
    let incarnation = Incarnation::from_u128(1);
    apply(&mut state, 1, Change::ClusterInit { incarnation });
    let tokens = 60_000;
    for first in (0..tokens).step_by(1000) {
        let tokens = (first..first + 1000).map(client).collect();
        apply(&mut state, 2 + first as u64, AclTokens::Create { tokens });
    }
    let access = Access::new(true);
    let resolve = |snapshot: &Snapshot, number: usize| {
        let credential = Credential::Secret(digest(number));
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let asker = access.resolve(snapshot, &credential, address, UnixNanos(1));
        drop(asker.expect("a token of the state"));
    };
    let snapshot = state.snapshot();
    compare("rights of tokens", 20_000, 40_000, |number| {
        resolve(&snapshot, number);
    });
    compare("policies", 6_000, 12_000, |number| {
        let policies = vec![policy(number)];
        let index = 1_000_000 + number as u64;
        apply(&mut state, index, AclPolicies::Upsert { policies });
        resolve(&state.snapshot(), 0);
    });
}

fn client(number: usize) -> AclToken {
    AclToken {
        accessor_id: accessor(number),
        secret_hash: digest(number),
        sealed: None,
        name: String::new(),
        kind: AclTokenKind::Client,
        policies: vec!["changing".to_owned()],
        roles: Vec::new(),
        global: false,
        expiration: None,
        ttl: None,
        create_time: UnixNanos::ZERO,
        create_index: 0,
        modify_index: 0,
    }
}

/// A policy of some KiB once it is parsed and compiled.
fn policy(number: usize) -> AclPolicy {
    let rule = |at| format!("namespace \"n{number}-{at}\" {{ policy = \"read\" }}\n");
    AclPolicy {
        name: "changing".to_owned(),
        rules: (0..10).map(rule).collect(),
        ..AclPolicy::default()
    }
}
