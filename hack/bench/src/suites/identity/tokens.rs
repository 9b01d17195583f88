//! Tokens of tasks in this process: signed, verified at first sight, and known again by digest.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context;
use controlplane_keyring::{Kek, Keyring, RootKey, RootKeys, WrappedRootKey, fresh_nonce};
use protocol_access::identity::{IdentityClaims, OWN_AUDIENCE, PublicKeyPair, verify};
use protocol_access::jwt::SigningAlgorithm;
use protocol_model::AllocId;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::NAME;
use crate::row::Row;

const TIME: Duration = Duration::from_secs(1);
/// Calls between two looks at the clock.
const CALLS: u32 = 20;
const GOAL_FIRST_US: f64 = 90.0;
const GOAL_CACHED_US: f64 = 2.0;
const GOAL_EDDSA: f64 = 20_000.0;
const GOAL_RS256: f64 = 1_000.0;
/// Seconds since 1970.
const NOW: u64 = 1_700_000_000;

/// See the top of this file.
///
/// # Errors
/// If no key can be made, or a token is refused.
pub(super) fn measure(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    eprintln!("-- in memory, one root key");
    let kek = Kek::generate();
    let key = RootKey::generate().context("make a root key")?;
    let id = Uuid::from_u128(1);
    let public = key.public().clone();
    let keyring = Keyring::default();
    keyring.set_root_keys(RootKeys {
        active: Some(1),
        wrapped: vec![WrappedRootKey {
            number: 1,
            id,
            kek: kek.id(),
            bytes: key.wrap(id, &kek, fresh_nonce()),
        }],
    });
    keyring.add_kek(kek);
    let signer = keyring.signer(1)?;
    let claims = claims();
    let sign = |algorithm| micros(|| black_box(signer.sign(algorithm, &claims)).is_empty());
    let (eddsa, rs256) = (sign(SigningAlgorithm::EdDsa), sign(SigningAlgorithm::Rs256));
    let token = signer.sign(SigningAlgorithm::EdDsa, &claims);
    let find = |wanted| {
        (wanted == id).then_some(PublicKeyPair {
            ed25519: &public.ed25519,
            rsa: &public.rsa,
        })
    };
    let verified = verify(&token, find)?;
    let first = micros(|| verify(black_box(&token), find).is_err());
    // A server and a node find a token that they know by its digest, and judge its times anew.
    let cached = micros(|| {
        black_box(Sha256::digest(black_box(token.as_bytes())));
        verified.claims.check(black_box(NOW)).is_err()
    });
    let figure = |what: &str| format!("token of {} bytes: {what}", token.len());
    let a_second = |name: &str, micros: f64, goal| {
        let figure = format!("identities signed a second and core, {name}");
        Row::new(NAME, figure, 1e6 / micros, "/s").at_least(goal)
    };
    rows.extend([
        Row::new(NAME, figure("verified at first sight"), first, "us").at_most(GOAL_FIRST_US),
        Row::new(NAME, figure("digest and times, cached"), cached, "us").at_most(GOAL_CACHED_US),
        a_second("EdDSA", eddsa, GOAL_EDDSA),
        a_second("RS256", rs256, GOAL_RS256),
    ]);
    Ok(())
}

/// Microseconds of one call, of which none may fail.
fn micros(mut fails: impl FnMut() -> bool) -> f64 {
    let (begun, mut calls) = (Instant::now(), 0_u32);
    while begun.elapsed() < TIME {
        for _ in 0..CALLS {
            assert!(!fails(), "a call that worked before fails");
        }
        calls += CALLS;
    }
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
}

fn claims() -> IdentityClaims {
    IdentityClaims {
        namespace: "default".to_owned(),
        job_id: "web".to_owned(),
        alloc_id: AllocId::from_u128(7),
        task: "api".to_owned(),
        subject: "global:default:web:front:api:default".to_owned(),
        audiences: vec![OWN_AUDIENCE.to_owned()],
        issued_at: NOW,
        not_before: NOW,
        expires_at: None,
        id: Uuid::from_u128(8),
        issuer: None,
    }
}
