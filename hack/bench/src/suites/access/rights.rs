//! Rights in this process: compiling the policies of a token, finding the token by its secret in a
//! state with many, and judging the need of `GET /v1/job/:id` by its compiled rights.
//!
//! A server keeps compiled rights under the token's accessor id; that look-up, which the part
//! `share` contains, is not measured here.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use controlplane_state::command::{AclPolicies, AclRoles, AclTokens};
use controlplane_state::{AclPolicy, AclRole, AclToken, AclTokenKind, Digest, Snapshot};
use protocol_access::need::{Area, Place, Verdict};
use protocol_access::{Acl, Policy};
use protocol_api::Operation as _;
use protocol_api::jobs::ReadJob;
use protocol_model::UnixNanos;
use sha2::{Digest as _, Sha256};

use super::{NAME, documents};
use crate::row::Row;
use crate::suites::in_memory::InMemory;

/// Tokens of the state, of which one is asked for.
const TOKENS: usize = 10_000;
/// Written by one entry.
const ENTRY: usize = 250;
/// Compilations, of which the median is printed.
const RUNS: usize = 11;
/// Passes over all names, of which the median is printed, and the time after which there are
/// enough.
const PASSES: usize = 200;
const PASSES_TIME: Duration = Duration::from_secs(2);
const GOAL_EXACT_US: f64 = 1.0;
const GOAL_GLOB_US: f64 = 1.5;
const GOAL_COMPILE_MS: f64 = 10.0;
const SECRET: &str = "00000000-0000-4000-8000-00000000002a";

/// See the top of this file.
///
/// # Errors
/// If a document is not read, or a right is missing.
pub(super) fn measure(policies: usize, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- in memory, a token with {policies} policies, among {TOKENS} tokens");
    let figure = |what: &str| format!("a token with {policies} policies: {what}");
    let (parsed, parsing) = parsed(policies, documents::rules)?;
    let (acl, compiling) = compiled(&parsed)?;
    let snapshot = state(policies)?;
    let names = |name: fn(usize) -> String| (0..policies).map(name).collect::<Vec<String>>();
    let digests = micros_of_each(&names(documents::exact), |_| {
        black_box(digest(black_box(SECRET)));
        true
    })?;
    let judged = |acl: &Acl, name: fn(usize) -> String| {
        micros_of_each(&names(name), |name| {
            let token = authenticate(&snapshot, black_box(SECRET), UnixNanos(1));
            token.is_some() && authorize(black_box(acl), name)
        })
    };
    let exact = judged(&acl, documents::exact)?;
    let globbed = judged(&acl, documents::globbed)?;
    let alone = micros_of_each(&names(documents::exact), |name| {
        authorize(black_box(&acl), name)
    })?;
    let (behind, _) = self::parsed(policies, documents::rules_behind)?;
    let (behind, _) = compiled(&behind)?;
    let behind = judged(&behind, documents::globbed_behind)?;
    let floor = |row: Row| Row {
        floor_value: Some(digests),
        ..row
    };
    let both = |name: &str| figure(&format!("authenticate and authorize, {name}"));
    rows.extend([
        floor(Row::new(NAME, both("exact name"), exact, "us").at_most(GOAL_EXACT_US)),
        floor(Row::new(NAME, both("glob"), globbed, "us").at_most(GOAL_GLOB_US)),
        // Such globs are rare, and all of them may have to be tried.
        floor(Row::new(NAME, both("glob, star first"), behind, "us")),
        Row::new(NAME, figure("authorize alone, exact name"), alone, "us"),
        Row::new(NAME, figure("compile"), compiling, "ms").at_most(GOAL_COMPILE_MS),
        Row::new(NAME, figure("read the documents, once"), parsing, "ms"),
    ]);
    Ok(())
}

/// The policies, and the milliseconds that reading all of them takes.
fn parsed(policies: usize, rules: fn(usize) -> String) -> anyhow::Result<(Vec<Policy>, f64)> {
    let documents: Vec<String> = (0..policies).map(rules).collect();
    median_millis(|| {
        let parsed = documents.iter().map(|text| Policy::parse_leniently(text));
        Ok(parsed.collect::<Result<_, _>>()?)
    })
}

/// Their rights together, and the milliseconds that compiling takes.
fn compiled(policies: &[Policy]) -> anyhow::Result<(Acl, f64)> {
    median_millis(|| Ok(Acl::compile(black_box(policies))))
}

fn median_millis<T>(mut once: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<(T, f64)> {
    let mut last = once()?;
    let mut samples = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let begun = Instant::now();
        let made = once()?;
        samples.push(begun.elapsed());
        last = made;
    }
    let median = median(samples)?;
    Ok((last, median.as_secs_f64() * 1e3))
}

/// The microseconds of a call, which has to hold for every name.
fn micros_of_each(names: &[String], mut holds: impl FnMut(&str) -> bool) -> anyhow::Result<f64> {
    let mut samples = Vec::with_capacity(PASSES);
    let all_begun = Instant::now();
    while samples.len() < PASSES && (samples.len() < 3 || all_begun.elapsed() < PASSES_TIME) {
        let begun = Instant::now();
        let held = names.iter().filter(|name| holds(name)).count();
        samples.push(begun.elapsed());
        ensure!(held == names.len(), "{held} of {} names", names.len());
    }
    let pass = median(samples)?;
    Ok(pass.as_secs_f64() * 1e6 / names.len() as f64)
}

fn median(mut samples: Vec<Duration>) -> anyhow::Result<Duration> {
    samples.sort_unstable();
    let middle = samples.get(samples.len() / 2);
    middle.copied().context("no samples")
}

/// The token with this secret, unless it has expired.
fn authenticate<'a>(snapshot: &'a Snapshot, secret: &str, now: UnixNanos) -> Option<&'a AclToken> {
    let token = snapshot.token_by_secret(&digest(secret))?;
    let is_valid = token.expiration.is_none_or(|expiration| expiration > now);
    is_valid.then_some(token)
}

/// Whether the rights suffice to read a job of this namespace.
fn authorize(acl: &Acl, namespace: &str) -> bool {
    let place = Place {
        area: Area::One(namespace),
        name: None,
    };
    ReadJob::ENDPOINT.need.judge(acl, &place) == Verdict::Granted
}

fn digest(secret: &str) -> Digest {
    Digest(Sha256::digest(secret.as_bytes()).into())
}

/// A state with the policies, their roles, and tokens that have them. [`SECRET`] is of one of them.
fn state(policies: usize) -> anyhow::Result<Snapshot> {
    let mut cluster = InMemory::new()?;
    let numbers: Vec<usize> = (0..policies).collect();
    let mut roles = Vec::new();
    for numbers in numbers.chunks(ENTRY) {
        let policy = |number: &usize| AclPolicy {
            name: documents::name(*number),
            rules: documents::rules(*number),
            ..AclPolicy::default()
        };
        let policies = numbers.iter().map(policy).collect();
        cluster.apply(AclPolicies::Upsert { policies }.into())?;
        let id = uuid_text(roles.len());
        let role = AclRole {
            name: format!("role-{}", roles.len()),
            id: id.clone(),
            policies: numbers.iter().map(|it| documents::name(*it)).collect(),
            ..AclRole::default()
        };
        let created = vec![role];
        cluster.apply(AclRoles::Create { roles: created }.into())?;
        roles.push(id);
    }
    let numbers: Vec<usize> = (0..TOKENS).collect();
    for numbers in numbers.chunks(ENTRY) {
        let tokens = numbers.iter().map(|it| token(*it, &roles)).collect();
        cluster.apply(AclTokens::Create { tokens }.into())?;
    }
    Ok(cluster.snapshot())
}

fn token(number: usize, roles: &[String]) -> AclToken {
    AclToken {
        accessor_id: uuid_text(number),
        secret_hash: digest(&uuid_text(number)),
        sealed: None,
        name: String::new(),
        kind: AclTokenKind::Client,
        policies: Vec::new(),
        roles: roles.to_vec(),
        global: true,
        expiration: None,
        ttl: None,
        create_time: UnixNanos(0),
        create_index: 0,
        modify_index: 0,
    }
}

fn uuid_text(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_of_the_state_is_found_and_reads_its_namespaces_only() {
        let snapshot = state(300).unwrap();
        let token = authenticate(&snapshot, SECRET, UnixNanos(1)).unwrap();
        assert_eq!((token.accessor_id.as_str(), token.roles.len()), (SECRET, 2));
        assert!(authenticate(&snapshot, &uuid_text(TOKENS), UnixNanos(1)).is_none());
        let (policies, _) = parsed(300, documents::rules).unwrap();
        let acl = Acl::compile(&policies);
        assert!(authorize(&acl, "team-299") && authorize(&acl, "app-299-x"));
        assert!(!authorize(&acl, "team-300"));
    }

    #[test]
    fn name_without_the_right_fails_the_measurement() {
        let names = ["a".to_owned(), "b".to_owned()];
        micros_of_each(&names, |name| name == "a").unwrap_err();
        assert!(micros_of_each(&names, |_| true).unwrap() >= 0.0);
    }
}
