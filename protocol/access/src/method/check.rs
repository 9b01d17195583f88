//! Checks of an auth method before it is stored.
//!
//! A method may come without `Config`, as clients create it so; logins by it are refused then. A
//! configuration that can never work is refused when it is written, not at the first login.

use std::time::Duration;

use protocol_model::duration::format_go;
use protocol_model::{
    AUTH_METHOD_JWT, AUTH_METHOD_OIDC, AuthMethod, AuthMethodConfig, TOKEN_GLOBAL, TOKEN_LOCAL,
};

use super::name::format_fault;
use super::url::{OutgoingUrl, UrlError};
use crate::binding::is_acl_name;
use crate::jwt::{KeyError, SigningAlgorithm, VerifyingKey};

/// The most keys of `JWTValidationPubKeys`: each token is tried with every one that fits.
const KEYS_MAX: usize = 16;
/// The most entries of every other list or map of a configuration.
const ENTRIES_MAX: usize = 64;
/// The longest entry, certificates aside, in bytes.
const ENTRY_BYTES_MAX: usize = 2048;
/// The longest `TokenNameFormat`, in bytes.
const FORMAT_BYTES_MAX: usize = 256;

/// How long tokens may be valid (`acl { token_min_expiration_ttl token_max_expiration_ttl }`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenLifetimes {
    /// The shortest time.
    pub min: Duration,
    /// The longest time.
    pub max: Duration,
}

/// Why an auth method is not stored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthMethodFault {
    /// Its name is no name.
    #[error("invalid name '{0}': 1 to 128 letters, digits and hyphens are allowed")]
    Name(String),
    /// Its type is unknown.
    #[error("invalid token type '{0}': use JWT or OIDC")]
    Kind(String),
    /// Its locality is unknown.
    #[error("invalid token locality '{0}': use local or global")]
    Locality(String),
    /// Its tokens would be valid for too long or too short a time.
    #[error("invalid MaxTokenTTL value '{0}' (should be between {1} and {2})")]
    Ttl(String, String, String),
    /// Its names cannot be filled.
    #[error("invalid TokenNameFormat: {0}")]
    NameFormat(String),
    /// A JWT method has no source of keys, or several.
    #[error(
        "invalid Config: exactly one of JWTValidationPubKeys, JWKSURL and OIDCDiscoveryURL is \
         needed, found {0}"
    )]
    KeySources(usize),
    /// A field that the type needs is empty.
    #[error("invalid Config: {0} is missing, which a method of type OIDC needs")]
    Missing(&'static str),
    /// An address is refused.
    #[error("invalid Config: {field}: {source}")]
    Url {
        /// The field.
        field: &'static str,
        /// The reason.
        source: UrlError,
    },
    /// A key is refused.
    #[error("invalid Config: JWTValidationPubKeys[{place}]: {source}")]
    Key {
        /// Its place in the list.
        place: usize,
        /// The reason.
        source: KeyError,
    },
    /// An algorithm is refused.
    #[error("invalid Config: SigningAlgs: {found:?} is not one of {known}")]
    Algorithm {
        /// The name.
        found: String,
        /// The accepted ones.
        known: String,
    },
    /// A list is too long.
    #[error("invalid Config: {field} has {found} entries: at most {max} are allowed")]
    TooMany {
        /// The field.
        field: &'static str,
        /// Its length.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// An entry is too long.
    #[error("invalid Config: an entry of {0} has more than {ENTRY_BYTES_MAX} bytes")]
    EntryTooLong(&'static str),
    /// A certificate is refused.
    #[error("invalid Config: {0} holds a text that is not a certificate in PEM")]
    Certificate(&'static str),
    /// The client would have to sign.
    #[error(
        "invalid Config: OIDCClientAssertion is not in this release: remove it and set \
         OIDCClientSecret"
    )]
    Assertion,
}

/// Every fault of a method that is to be stored.
pub fn check_auth_method(method: &AuthMethod, lifetimes: TokenLifetimes) -> Vec<AuthMethodFault> {
    let mut faults = Vec::new();
    if !is_acl_name(&method.name) {
        faults.push(AuthMethodFault::Name(method.name.clone()));
    }
    if ![TOKEN_LOCAL, TOKEN_GLOBAL].contains(&method.token_locality.as_str()) {
        faults.push(AuthMethodFault::Locality(method.token_locality.clone()));
    }
    if ![AUTH_METHOD_JWT, AUTH_METHOD_OIDC].contains(&method.kind.as_str()) {
        faults.push(AuthMethodFault::Kind(method.kind.clone()));
    }
    let TokenLifetimes { min, max } = lifetimes;
    if !(min..=max).contains(&method.max_token_ttl) {
        let [ttl, min, max] = [method.max_token_ttl, min, max].map(format_go);
        faults.push(AuthMethodFault::Ttl(ttl, min, max));
    }
    let format = method.token_name_format.as_str();
    let format_fault = match format.len() > FORMAT_BYTES_MAX {
        true => Some(format!("at most {FORMAT_BYTES_MAX} bytes are allowed")),
        false => format_fault(format),
    };
    faults.extend(format_fault.map(AuthMethodFault::NameFormat));
    if let Some(config) = &method.config {
        check_config(config, &method.kind, &mut faults);
    }
    faults
}

/// The algorithms that a method accepts: `SigningAlgs`, or RS256 where that is empty. Names that
/// [`check_auth_method`] refuses are left out.
pub fn signing_algorithms(config: &AuthMethodConfig) -> Vec<SigningAlgorithm> {
    if config.signing_algs.is_empty() {
        return vec![SigningAlgorithm::Rs256];
    }
    let names = config.signing_algs.iter();
    names
        .filter_map(|name| SigningAlgorithm::from_name(name))
        .collect()
}

fn check_config(config: &AuthMethodConfig, kind: &str, faults: &mut Vec<AuthMethodFault>) {
    check_sizes(config, faults);
    match kind {
        AUTH_METHOD_JWT => {
            let sources = [
                !config.jwt_validation_pub_keys.is_empty(),
                !config.jwks_url.is_empty(),
                !config.oidc_discovery_url.is_empty(),
            ];
            let found = sources.into_iter().filter(|is_there| *is_there).count();
            if found != 1 {
                faults.push(AuthMethodFault::KeySources(found));
            }
        }
        AUTH_METHOD_OIDC => {
            let needed = [
                ("OIDCDiscoveryURL", config.oidc_discovery_url.is_empty()),
                ("OIDCClientID", config.oidc_client_id.is_empty()),
                (
                    "AllowedRedirectURIs",
                    config.allowed_redirect_uris.is_empty(),
                ),
            ];
            let missing = needed.into_iter().filter(|(_, is_empty)| *is_empty);
            faults.extend(missing.map(|(field, _)| AuthMethodFault::Missing(field)));
        }
        _ => {}
    }
    let urls = [
        ("JWKSURL", &config.jwks_url),
        ("OIDCDiscoveryURL", &config.oidc_discovery_url),
    ];
    for (field, url) in urls.into_iter().filter(|(_, url)| !url.is_empty()) {
        if let Err(source) = OutgoingUrl::parse(url) {
            faults.push(AuthMethodFault::Url { field, source });
        }
    }
    for (place, text) in config
        .jwt_validation_pub_keys
        .iter()
        .enumerate()
        .take(KEYS_MAX)
    {
        if let Err(source) = VerifyingKey::from_pem(text) {
            faults.push(AuthMethodFault::Key { place, source });
        }
    }
    for name in &config.signing_algs {
        if SigningAlgorithm::from_name(name).is_none() {
            let known = SigningAlgorithm::ALL.map(SigningAlgorithm::as_str);
            faults.push(AuthMethodFault::Algorithm {
                found: name.clone(),
                known: known.join(", "),
            });
        }
    }
    let authorities = [
        ("JWKSCACert", std::slice::from_ref(&config.jwks_ca_cert)),
        ("DiscoveryCaPem", &config.discovery_ca_pem),
    ];
    for (field, texts) in authorities {
        let mut texts = texts.iter().filter(|text| !text.is_empty());
        if !texts.all(|text| text.contains("-----BEGIN CERTIFICATE-----")) {
            faults.push(AuthMethodFault::Certificate(field));
        }
    }
    if config.oidc_client_assertion.is_some() {
        faults.push(AuthMethodFault::Assertion);
    }
}

fn check_sizes(config: &AuthMethodConfig, faults: &mut Vec<AuthMethodFault>) {
    let counts = [
        (
            "JWTValidationPubKeys",
            config.jwt_validation_pub_keys.len(),
            KEYS_MAX,
        ),
        ("DiscoveryCaPem", config.discovery_ca_pem.len(), KEYS_MAX),
        ("OIDCScopes", config.oidc_scopes.len(), ENTRIES_MAX),
        ("BoundAudiences", config.bound_audiences.len(), ENTRIES_MAX),
        ("BoundIssuer", config.bound_issuer.len(), ENTRIES_MAX),
        (
            "AllowedRedirectURIs",
            config.allowed_redirect_uris.len(),
            ENTRIES_MAX,
        ),
        ("SigningAlgs", config.signing_algs.len(), ENTRIES_MAX),
        ("ClaimMappings", config.claim_mappings.len(), ENTRIES_MAX),
        (
            "ListClaimMappings",
            config.list_claim_mappings.len(),
            ENTRIES_MAX,
        ),
    ];
    for (field, found, max) in counts {
        if found > max {
            faults.push(AuthMethodFault::TooMany { field, found, max });
        }
    }
    let lists = [
        ("OIDCScopes", &config.oidc_scopes),
        ("BoundAudiences", &config.bound_audiences),
        ("BoundIssuer", &config.bound_issuer),
        ("AllowedRedirectURIs", &config.allowed_redirect_uris),
    ];
    for (field, entries) in lists {
        if entries.iter().any(|entry| entry.len() > ENTRY_BYTES_MAX) {
            faults.push(AuthMethodFault::EntryTooLong(field));
        }
    }
    let maps = [
        ("ClaimMappings", &config.claim_mappings),
        ("ListClaimMappings", &config.list_claim_mappings),
    ];
    for (field, entries) in maps {
        let mut sizes = entries.iter().map(|(claim, name)| claim.len() + name.len());
        if sizes.any(|size| size > ENTRY_BYTES_MAX) {
            faults.push(AuthMethodFault::EntryTooLong(field));
        }
    }
}
