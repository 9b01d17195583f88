//! `/.well-known`: the public keys of identities, and how relying parties find them.

use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use controlplane_leader::keys::next_rotation;
use controlplane_state::{Snapshot, Table};
use protocol_api::keyring::{ReadDiscovery, ReadJwks};
use protocol_model::UnixNanos;
use serde_json::json;
use tokio::time::timeout;

use super::ask::Ask;
use super::error::{Answered, HttpError};
use super::route::{Routes, routes};
use crate::config::RootKeyConfig;
use crate::keyring::jwks;

/// The shortest time that a relying party may keep the keys for.
const MAX_AGE_MIN: Duration = Duration::from_secs(900);
/// How long the first root key may take: a leader makes it in the moment after it leads.
const FIRST_KEY_WITHIN: Duration = Duration::from_secs(5);
/// The path of the keys below the issuer.
const JWKS_PATH: &str = "/.well-known/jwks.json";

pub(super) const ROUTES: Routes = routes![
    ReadJwks => keys,
    ReadDiscovery => discovery,
];

/// The keys as this server knows them: a relying party is no client of the cluster, and a key is
/// published long before it signs. A new cluster is waited for: an empty set would be kept.
async fn keys(ask: &Ask) -> Answered {
    let mut newest = ask.api.cluster.hub().watch();
    let keyed = newest.wait_for(|snapshot| snapshot.active_root_key().is_some());
    // The guard of the watch goes at once.
    drop(timeout(FIRST_KEY_WITHIN, keyed).await);
    let snapshot = ask.api.cluster.snapshot();
    let now = ask.now().max(snapshot.now());
    let max_age = max_age(&snapshot, ask.api.config.root_keys, now);
    let json = [(header::CONTENT_TYPE, "application/json")];
    let mut response = (json, jwks(&snapshot)).into_response();
    let headers = response.headers_mut();
    ask.put_headers(headers, snapshot.table_index(&[Table::RootKeys]));
    let cached = format!("max-age={}", max_age.as_secs());
    if let Ok(cached) = HeaderValue::from_str(&cached) {
        headers.insert(header::CACHE_CONTROL, cached);
    }
    Ok(response)
}

/// Half of the time to the next rotation, so that a relying party has a prepublished key before it
/// signs. A set without a key is not kept.
fn max_age(snapshot: &Snapshot, config: RootKeyConfig, now: UnixNanos) -> Duration {
    let Some(next) = next_rotation(snapshot, config) else {
        return Duration::ZERO;
    };
    (next.saturating_since(now) / 2).max(MAX_AGE_MIN)
}

/// OpenID Connect Discovery 1.0, section 3, as far as it concerns signed tokens.
async fn discovery(ask: &Ask) -> Answered {
    let Some(issuer) = &ask.api.config.oidc_issuer else {
        return Err(HttpError::not_found("OIDC Discovery endpoint disabled"));
    };
    let document = json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}{JWKS_PATH}"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "EdDSA"],
    });
    ask.answer(&document, ask.api.cluster.snapshot().index())
}
