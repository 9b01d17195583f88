//! Documents that identity providers, browsers and users send to a login.

use protocol_access::jwt::{JWT_BYTES_MAX, SigningAlgorithm, UnverifiedJwt};
use protocol_access::oidc::{Discovery, PendingLogin, TokenAnswer};
use protocol_access::{jwks, method::OutgoingUrl};

use crate::Verdict;

/// The issuer of the seeds.
const ISSUER: &str = "https://id.example";

/// A token that somebody shows: it is parsed, and no key that nobody configured accepts it.
pub fn login_token(data: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(data);
    match UnverifiedJwt::parse(&text) {
        Err(error) => Verdict::refused(&error),
        Ok(token) => {
            assert!(text.len() <= JWT_BYTES_MAX);
            let read = token.signed_by(&[], &SigningAlgorithm::ALL);
            assert!(read.is_err(), "accepted without a key");
            Verdict::Understood
        }
    }
}

/// A key set of a provider.
pub fn key_set(data: &[u8]) -> Verdict {
    match jwks::parse(data) {
        Err(error) => Verdict::refused(&error),
        Ok(keys) => {
            assert!((1..=jwks::JWKS_KEYS_MAX).contains(&keys.len()));
            Verdict::Understood
        }
    }
}

/// A discovery document: every address in it is one that a server may connect to.
pub fn discovery_document(data: &[u8]) -> Verdict {
    match Discovery::parse(data, ISSUER) {
        Err(error) => Verdict::refused(&error),
        Ok(read) => {
            assert_eq!(read.issuer.trim_end_matches('/'), ISSUER);
            let optional = [
                &read.authorization_endpoint,
                &read.token_endpoint,
                &read.userinfo_endpoint,
            ];
            let given = optional.into_iter().filter(|url| !url.is_empty());
            for url in given.chain([&read.jwks_uri]) {
                OutgoingUrl::parse(url).expect("an address that was judged");
            }
            Verdict::Understood
        }
    }
}

/// An answer of a token endpoint.
pub fn token_answer(data: &[u8]) -> Verdict {
    match TokenAnswer::parse(200, data) {
        Err(error) => Verdict::refused(&error),
        Ok(_) => Verdict::Understood,
    }
}

/// The opened state of a login.
pub fn pending_login(data: &[u8]) -> Verdict {
    match PendingLogin::from_bytes(data) {
        Err(error) => Verdict::refused(&error),
        Ok(login) => {
            assert_eq!(PendingLogin::from_bytes(&login.to_bytes()), Ok(login));
            Verdict::Understood
        }
    }
}
