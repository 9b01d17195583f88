//! Claims as they are written: relying parties read them.

use protocol_access::identity::{
    ClaimsError, IdentityClaims, IdentitySubject, OWN_AUDIENCE, claims_of, kid_of,
    signing_algorithm,
};
use protocol_access::jwt::SigningAlgorithm;
use serde_json::{Map, Value, json};

use super::{NOW, ROOT_KEY, identity, issued, placed};

fn text(claims: &IdentityClaims) -> String {
    serde_json::to_string_pretty(claims).expect("JSON")
}

fn members(claims: &IdentityClaims) -> Map<String, Value> {
    let value = serde_json::to_value(claims).expect("JSON");
    value.as_object().expect("an object").clone()
}

#[test]
fn default_identity_is_issued_at_the_creation_and_does_not_expire() {
    let claims = issued(&identity("default", &[OWN_AUDIENCE], 0), None);
    let wanted = r#"{
  "nomad_namespace": "dev",
  "nomad_job_id": "web",
  "nomad_allocation_id": "00000000-0000-0000-0000-000000000007",
  "nomad_task": "api",
  "sub": "global:dev:web:front:api:default",
  "aud": "nomadproject.io",
  "iat": 1700000000,
  "nbf": 1700000000,
  "jti": "JTI"
}"#;
    let jti = claims.id.to_string();
    assert_eq!(text(&claims), wanted.replace("JTI", &jti));
    assert_eq!(claims.id.get_version_num(), 5);
    assert_eq!(claims.identity(), "default");
}

#[test]
fn identity_with_a_ttl_is_issued_now_and_names_all_audiences() {
    let vault = identity("vault", &["vault.example", "backup.example"], 90);
    let claims = issued(&vault, Some("https://drover.example"));
    let wanted = r#"{
  "nomad_namespace": "dev",
  "nomad_job_id": "web",
  "nomad_allocation_id": "00000000-0000-0000-0000-000000000007",
  "nomad_task": "api",
  "sub": "global:dev:web:front:api:vault",
  "aud": [
    "vault.example",
    "backup.example"
  ],
  "iat": 1700000600,
  "nbf": 1700000600,
  "exp": 1700000690,
  "jti": "JTI",
  "iss": "https://drover.example"
}"#;
    let jti = claims.id.to_string();
    assert_eq!(text(&claims), wanted.replace("JTI", &jti));
}

#[test]
fn claims_are_a_function_of_task_identity_and_key_alone() {
    let default = identity("default", &[OWN_AUDIENCE], 0);
    let (alloc, job) = placed("web", "");
    let of = |task, key, now| {
        let subject = IdentitySubject {
            alloc: &alloc,
            job: &job,
            task,
        };
        claims_of(subject, &default, key, None, now)
    };
    let one = of("api", ROOT_KEY, NOW);
    let later = NOW.saturating_add(std::time::Duration::from_secs(99));
    assert_eq!(one, of("api", ROOT_KEY, later));
    assert_ne!(one.id, of("db", ROOT_KEY, NOW).id);
    assert_ne!(one.id, of("api", uuid::Uuid::from_u128(9), NOW).id);
    let other = identity("other", &[OWN_AUDIENCE], 0);
    assert_ne!(one.id, issued(&other, None).id);
}

#[test]
fn child_of_a_template_shows_its_parent() {
    let (alloc, job) = placed("batch/dispatch-1700000000-abc", "batch");
    let subject = IdentitySubject {
        alloc: &alloc,
        job: &job,
        task: "run",
    };
    let default = identity("default", &[OWN_AUDIENCE], 0);
    let claims = claims_of(subject, &default, ROOT_KEY, None, NOW);
    assert_eq!(claims.job_id, "batch");
    assert_eq!(claims.subject, "global:dev:batch:front:run:default");
}

#[test]
fn algorithm_is_eddsa_for_our_audience_alone() {
    let of = |audience: &[&str]| signing_algorithm(&identity("x", audience, 0));
    assert_eq!(of(&[OWN_AUDIENCE]), SigningAlgorithm::EdDsa);
    for others in [&["vault"][..], &[OWN_AUDIENCE, "vault"], &[]] {
        assert_eq!(of(others), SigningAlgorithm::Rs256, "{others:?}");
    }
    let rsa = kid_of(ROOT_KEY, SigningAlgorithm::Rs256);
    assert_eq!(rsa, "00000000-0000-0000-0000-000000000203.rsa");
}

#[test]
fn claims_are_read_as_they_were_written() {
    for (audience, ttl) in [(&[OWN_AUDIENCE][..], 0), (&["a", "b"], 60), (&[], 1)] {
        let claims = issued(&identity("x", audience, ttl), Some("https://a"));
        assert_eq!(IdentityClaims::read(&members(&claims)), Ok(claims));
    }
}

#[test]
fn missing_and_wrong_claims_are_refused_by_name() {
    let good = members(&issued(&identity("x", &["a"], 60), Some("https://a")));
    let optional = ["aud", "exp", "iss"];
    for name in good.keys() {
        let mut without = good.clone();
        without.remove(name);
        let read = IdentityClaims::read(&without);
        assert_eq!(read.is_ok(), optional.contains(&name.as_str()), "{name}");
        for wrong in [json!({}), json!(-1), json!(1.5), json!(null), json!([[]])] {
            let mut bent = good.clone();
            bent.insert(name.clone(), wrong.clone());
            let error = IdentityClaims::read(&bent).expect_err("the type is wrong");
            assert!(
                matches!(error, ClaimsError::Claim(it) if it == name),
                "{name} {wrong}"
            );
        }
    }
}

#[test]
fn audience_and_times_are_checked_with_a_leeway() {
    let ours = issued(&identity("x", &["a", OWN_AUDIENCE], 100), None);
    let (begin, end) = (ours.not_before, ours.expires_at.expect("a ttl"));
    for (now, wanted) in [
        (begin - 61, Err(ClaimsError::TooEarly)),
        (begin - 60, Ok(())),
        (end + 59, Ok(())),
        (end + 60, Err(ClaimsError::Expired)),
    ] {
        assert_eq!(ours.check(now), wanted, "{now}");
    }
    let theirs = issued(&identity("x", &["vault", "nomadproject.io.evil"], 0), None);
    assert_eq!(theirs.check(begin), Err(ClaimsError::Audience));
    let nobodys = issued(&identity("x", &[], 0), None);
    assert_eq!(nobodys.check(begin), Err(ClaimsError::Audience));
    let default = issued(&identity("default", &[OWN_AUDIENCE], 0), None);
    assert_eq!(default.check(u64::MAX), Ok(()));
}
