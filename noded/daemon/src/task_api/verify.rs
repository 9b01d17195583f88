//! Workload tokens on the node: verified with the keys that servers sent, refused without asking a
//! server where no server would take them. The rules are [`noded_core::task_api`]'s.

use std::sync::Arc;

use noded_core::task_api::{
    EndedAllocs, Guard, Shown, SignedToken, SignedTokens, Standing, TokenDigest,
};
use parking_lot::Mutex;
use protocol_access::identity::{OWN_AUDIENCE, TokenError, VerifiedIdentity, verify_published};
use protocol_access::jwt::JwtError;
use protocol_model::{AllocId, UnixNanos};

use super::credential::Credential;
use crate::clock;
use crate::keys::{KeyStore, PublicKeys};

/// Judges workload tokens for all sockets of a node.
#[derive(Debug)]
pub(super) struct TokenJudge {
    keys: Arc<KeyStore>,
    signed: Mutex<SignedTokens>,
    ended: Mutex<EndedAllocs>,
}

/// The signature of a token.
enum Signature {
    /// A key of the cluster made it.
    Good(Arc<SignedToken>),
    /// The key that the token names did not make it.
    Bad,
    /// The node cannot tell.
    Unknown,
}

impl TokenJudge {
    /// A judge with the keys of a node.
    pub(super) fn new(keys: Arc<KeyStore>) -> Self {
        Self {
            keys,
            signed: Mutex::default(),
            ended: Mutex::default(),
        }
    }

    /// All tasks of an allocation of this node have ended.
    pub(super) fn end(&self, alloc: AllocId) {
        self.ended.lock().insert(alloc);
    }

    /// A task of the allocation runs.
    pub(super) fn run(&self, alloc: AllocId) {
        self.ended.lock().remove(alloc);
    }

    /// The credential as the guard of a socket takes it. A token that is new here is not verified
    /// while the guard has no failures left.
    pub(super) fn judge(&self, credential: Credential<'_>, guard: &Mutex<Guard>) -> Shown {
        match credential {
            Credential::Absent => Shown::Nothing,
            Credential::Malformed => Shown::Invalid,
            Credential::Secret(digest) => Shown::Token(digest),
            Credential::Workload(digest, token) => {
                let may_verify = || guard.lock().may_verify(&digest, clock::moment());
                self.judge_token((digest, token), may_verify, clock::wall())
            }
        }
    }

    fn judge_token(
        &self,
        (digest, token): (TokenDigest, &str),
        may_verify: impl FnOnce() -> bool,
        now: UnixNanos,
    ) -> Shown {
        let keys = self.keys.now();
        let known = self.signed.lock().find(&digest);
        // A token of a removed key is for the server to judge.
        let known = known.filter(|signed| keys.keys.contains_key(&signed.kid));
        let signature = match known {
            Some(signed) => Signature::Good(signed),
            None if !may_verify() => Signature::Unknown,
            None => verify(token, &keys),
        };
        let signed = match signature {
            Signature::Good(signed) => signed,
            Signature::Bad => return Shown::Invalid,
            Signature::Unknown => return Shown::Token(digest),
        };
        self.signed.lock().insert(digest, Arc::clone(&signed));
        let checked = signed.check(&self.ended.lock(), now);
        match checked {
            Ok(Standing::Valid) => Shown::Verified(digest),
            Ok(Standing::LooksExpired) => Shown::Token(digest),
            Err(why) => {
                tracing::debug!(alloc = %signed.alloc, %why, "a workload token is refused");
                Shown::Invalid
            }
        }
    }
}

fn verify(token: &str, keys: &PublicKeys) -> Signature {
    let mut named = None;
    let verified = verify_published(token, |kid| {
        named = Some(kid.to_owned());
        keys.verifying(kid)
    });
    match (verified, named) {
        (Ok(VerifiedIdentity { claims, .. }), Some(kid)) => {
            let is_for_api = claims.audiences.iter().any(|one| one == OWN_AUDIENCE);
            Signature::Good(Arc::new(SignedToken {
                kid,
                alloc: claims.alloc_id,
                is_for_api,
                expires_at: claims.expires_at,
            }))
        }
        // A newer release may sign with algorithms, names of keys and claims that this one does not
        // know.
        (Err(TokenError::Jwt(JwtError::Algorithm(name))), _) if !is_of_no_key_pair(&name) => {
            Signature::Unknown
        }
        (Err(TokenError::UnknownKey | TokenError::Claims(_)) | Ok(_), _) => Signature::Unknown,
        (Err(TokenError::Jwt(why)), _) => {
            tracing::debug!(%why, "a workload token is refused");
            Signature::Bad
        }
    }
}

/// Algorithms of RFC 7518 without a public key: no release signs with one.
fn is_of_no_key_pair(name: &str) -> bool {
    matches!(name, "none" | "HS256" | "HS384" | "HS512")
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256};
    use protocol_access::jwt::{SigningAlgorithm, SigningInput};
    use protocol_access::published_keys::{PublishedKey, key_set};
    use serde_json::{Value, json};
    use sha2::{Digest as _, Sha256};

    use super::*;

    const KEY: &str = "11111111-2222-4333-8444-555555555555";
    const OTHER_KEY: &str = "11111111-2222-4333-8444-666666666666";
    const NOW: UnixNanos = UnixNanos(1_000_000_000_000);

    fn alloc(number: u128) -> AllocId {
        AllocId::from_u128(number)
    }

    /// A judge with the keys of the root key [`KEY`], made of `seed`.
    fn judge(seed: u8, rsa: &RsaKeyPair) -> TokenJudge {
        let ed25519 = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).expect("a seed");
        let set = key_set([PublishedKey {
            id: KEY,
            ed25519: ed25519.public_key().as_ref(),
            rsa: rsa.public_key().as_ref(),
        }]);
        let set = serde_json::from_slice(&set).expect("JSON");
        let keys = KeyStore::in_memory();
        keys.take(PublicKeys::new(1, String::new(), set).expect("a key set"));
        let judge = TokenJudge::new(Arc::new(keys));
        judge.end(alloc(2));
        judge
    }

    fn claims(alloc: AllocId, audience: &str, exp: Option<u64>) -> Value {
        let mut claims = json!({
            "nomad_namespace": "default", "nomad_job_id": "web", "nomad_task": "server",
            "nomad_allocation_id": alloc.to_string(), "sub": "global:default:web:g:server:default",
            "aud": audience, "iat": 1, "nbf": 1, "jti": OTHER_KEY,
        });
        if let Some(exp) = exp {
            claims["exp"] = exp.into();
        }
        claims
    }

    fn token(kid: &str, claims: &Value) -> String {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed");
        let input = SigningInput::new(SigningAlgorithm::EdDsa, kid, claims);
        let signature = key.sign(input.as_bytes());
        input.with_signature(signature.as_ref())
    }

    fn of_header(header: &Value) -> String {
        use base64::Engine as _;
        let part = |value: &Value| {
            base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
        };
        let claims = claims(alloc(1), OWN_AUDIENCE, None);
        format!("{}.{}.AAAA", part(header), part(&claims))
    }

    fn judged(judge: &TokenJudge, token: &str, may_verify: bool) -> Shown {
        let digest = Sha256::digest(token).into();
        judge.judge_token((digest, token), || may_verify, NOW)
    }

    #[test]
    fn node_refuses_tokens_that_no_server_takes_and_no_others() {
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let judge = judge(7, &rsa);
        let own = claims(alloc(1), OWN_AUDIENCE, None);
        let expiring = |exp| token(KEY, &claims(alloc(1), OWN_AUDIENCE, Some(exp)));
        let good = token(KEY, &own);
        let mut of_newer_release = own.clone();
        of_newer_release["jti"] = 7.into();
        let of_ended = claims(alloc(2), OWN_AUDIENCE, None);
        let (verified, unknown) = (
            |token: &str| Shown::Verified(Sha256::digest(token).into()),
            |token: &str| Shown::Token(Sha256::digest(token).into()),
        );
        let invalid = |_: &str| Shown::Invalid;
        let ed25519 = json!({"alg": "EdDSA", "kid": KEY});
        type Expected<'a> = &'a dyn Fn(&str) -> Shown;
        let table: [(String, Expected<'_>); 15] = [
            (good.clone(), &verified),
            (expiring(1_001), &verified),
            (expiring(1_000), &unknown),
            (expiring(1), &unknown),
            (token(KEY, &of_ended), &invalid),
            (token(KEY, &claims(alloc(1), "vault", None)), &invalid),
            (token(OTHER_KEY, &own), &unknown),
            (token("../keys", &own), &unknown),
            (token(KEY, &of_newer_release), &unknown),
            (token(&format!("{KEY}.rsa"), &own), &invalid),
            (of_header(&ed25519), &invalid),
            (of_header(&json!({"alg": "none", "kid": KEY})), &invalid),
            (of_header(&json!({"alg": "HS256", "kid": KEY})), &invalid),
            (
                of_header(&json!({"alg": "ML-DSA-44", "kid": KEY})),
                &unknown,
            ),
            ("a.b.c".to_owned(), &invalid),
        ];
        for (token, expected) in table {
            assert_eq!(judged(&judge, &token, true), expected(&token), "{token}");
        }
        let kid = format!("{KEY}.rsa");
        let input = SigningInput::new(SigningAlgorithm::Rs256, &kid, &own);
        let mut signature = vec![0; 256];
        let random = SystemRandom::new();
        rsa.sign(&RSA_PKCS1_SHA256, &random, input.as_bytes(), &mut signature)
            .expect("signed");
        let of_rsa = input.with_signature(&signature);
        assert_eq!(judged(&judge, &of_rsa, true), verified(&of_rsa));
        let text = "a ".to_owned() + &good;
        let secret = [3; 32];
        let guard = Mutex::new(Guard::new(noded_core::task_api::SocketLimits::default()));
        for (credential, expected) in [
            (Credential::Absent, Shown::Nothing),
            (Credential::Malformed, Shown::Invalid),
            (Credential::Secret(secret), Shown::Token(secret)),
            (Credential::Workload([4; 32], &text), Shown::Invalid),
        ] {
            assert_eq!(judge.judge(credential, &guard), expected);
        }
    }

    #[test]
    fn verified_token_is_known_until_its_key_goes() {
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let judge = judge(7, &rsa);
        let good = token(KEY, &claims(alloc(1), OWN_AUDIENCE, None));
        let digest = Sha256::digest(&good).into();
        assert_eq!(judged(&judge, &good, false), Shown::Token(digest));
        assert_eq!(judged(&judge, &good, true), Shown::Verified(digest));
        assert_eq!(judged(&judge, &good, false), Shown::Verified(digest));
        // Liveness is not remembered with the signature.
        judge.end(alloc(1));
        assert_eq!(judged(&judge, &good, false), Shown::Invalid);
        judge.run(alloc(1));
        assert_eq!(judged(&judge, &good, false), Shown::Verified(digest));
        let none = PublicKeys::new(2, String::new(), json!({"keys": []})).expect("a key set");
        judge.keys.take(none);
        assert_eq!(judged(&judge, &good, true), Shown::Token(digest));
    }
}
