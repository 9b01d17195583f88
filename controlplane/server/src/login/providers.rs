//! Documents and keys of providers, kept for five minutes.
//!
//! ```text
//!   method, modify index --document--> fresh? yes: as kept      no: fetched, kept
//!                        --keys------> fresh? yes: as kept      no: fetched, kept
//!                        --newer_keys (a token names an unknown key): fetched again,
//!                                      unless the last fetch was less than 10 s ago
//! ```
//!
//! An entry belongs to one version of a method: an update starts without one. Logins of one method
//! that need the same fetch wait for one another, so that a provider that stalls holds one place of
//! [`Fetcher`](super::fetch::Fetcher) and no more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use protocol_access::jwks;
use protocol_access::jwt::VerifyingKey;
use protocol_access::oidc::Discovery;
use tokio::time::Instant;

use super::UsableMethod;
use super::error::LoginError;
use super::fetch::{Deadline, Fetch, FetchError, Fetcher};

/// How long a document or a key set is used.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// The shortest time between two fetches of keys because of an unknown name.
const REFETCH_PAUSE: Duration = Duration::from_secs(10);
/// Methods that are remembered: as many as a cluster stores.
const METHODS_MAX: usize = 64;

type Slot = Arc<tokio::sync::Mutex<Entry>>;

/// Known keys of a provider.
pub(super) type Keys = Arc<Vec<VerifyingKey>>;

#[derive(Debug, Default)]
struct Entry {
    document: Option<(Instant, Arc<Discovery>)>,
    keys: Option<(Instant, Keys)>,
    /// When keys were last asked for, successfully or not.
    asked: Option<Instant>,
}

/// See the top of this file. Clones share the entries.
#[derive(Clone, Debug, Default)]
pub(super) struct Providers {
    /// By method and modify index.
    slots: Arc<Mutex<BTreeMap<(String, u64), Slot>>>,
}

/// Whether kept keys will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// Keys of the last five minutes.
    Kept,
    /// A token names a key that is not among them.
    Newer,
}

impl Providers {
    fn slot(&self, method: &UsableMethod) -> Slot {
        let key = (method.method.name.clone(), method.method.modify_index);
        let mut slots = self.slots.lock();
        if !slots.contains_key(&key) {
            // Versions of the method that are gone, and then any: an entry is a fetch saved.
            slots.retain(|(name, _), _| *name != key.0);
            if slots.len() >= METHODS_MAX {
                slots.pop_first();
            }
        }
        Arc::clone(slots.entry(key).or_default())
    }

    /// The discovery document of a method's provider.
    ///
    /// # Errors
    /// [`LoginError::Provider`] where it cannot be fetched or used.
    pub(super) async fn document(
        &self,
        fetcher: &Fetcher,
        method: &UsableMethod,
        deadline: Deadline,
    ) -> Result<Arc<Discovery>, LoginError> {
        let issuer = &method.config.oidc_discovery_url;
        let failed = |error| LoginError::provider(&method.method.name, issuer, &error);
        let slot = self.slot(method);
        let mut entry = deadline.cut(slot.lock()).await.map_err(failed)?;
        fetched_document(&mut entry, fetcher, method, deadline)
            .await
            .map_err(failed)
    }

    /// The keys of a method's provider.
    ///
    /// # Errors
    /// [`LoginError::Provider`] where they cannot be fetched or used.
    pub(super) async fn keys(
        &self,
        fetcher: &Fetcher,
        method: &UsableMethod,
        age: Age,
        deadline: Deadline,
    ) -> Result<Keys, LoginError> {
        let config = &method.config;
        let provider = match config.jwks_url.is_empty() {
            true => &config.oidc_discovery_url,
            false => &config.jwks_url,
        };
        let failed = |error| LoginError::provider(&method.method.name, provider, &error);
        let slot = self.slot(method);
        let mut entry = deadline.cut(slot.lock()).await.map_err(failed)?;
        if let Some((since, keys)) = &entry.keys {
            let is_asked = entry.asked.is_some_and(|at| at.elapsed() < REFETCH_PAUSE);
            let is_enough = match age {
                Age::Kept => since.elapsed() < FRESH,
                Age::Newer => is_asked,
            };
            if is_enough {
                return Ok(Arc::clone(keys));
            }
        }
        entry.asked = Some(Instant::now());
        let fetched = fetched_keys(&mut entry, fetcher, method, deadline).await;
        let keys = Arc::new(fetched.map_err(failed)?);
        entry.keys = Some((Instant::now(), Arc::clone(&keys)));
        Ok(keys)
    }
}

async fn fetched_document(
    entry: &mut Entry,
    fetcher: &Fetcher,
    method: &UsableMethod,
    deadline: Deadline,
) -> Result<Arc<Discovery>, FetchError> {
    if let Some((since, document)) = &entry.document
        && since.elapsed() < FRESH
    {
        return Ok(Arc::clone(document));
    }
    let issuer = &method.config.oidc_discovery_url;
    let fetch = Fetch {
        url: &Discovery::url_of(issuer),
        authorities: &method.config.discovery_ca_pem,
        form: None,
        authorization: None,
    };
    let bytes = fetcher.document(fetch, deadline).await?;
    let document = Discovery::parse(&bytes, issuer);
    let document = document.map_err(|error| FetchError::Document(error.to_string()))?;
    let document = Arc::new(document);
    entry.document = Some((Instant::now(), Arc::clone(&document)));
    Ok(document)
}

async fn fetched_keys(
    entry: &mut Entry,
    fetcher: &Fetcher,
    method: &UsableMethod,
    deadline: Deadline,
) -> Result<Vec<VerifyingKey>, FetchError> {
    let config = &method.config;
    let (url, authorities) = match config.jwks_url.as_str() {
        "" => {
            let document = fetched_document(entry, fetcher, method, deadline).await?;
            (
                document.jwks_uri.clone(),
                config.discovery_ca_pem.as_slice(),
            )
        }
        url => (url.to_owned(), std::slice::from_ref(&config.jwks_ca_cert)),
    };
    let fetch = Fetch {
        url: &url,
        authorities,
        form: None,
        authorization: None,
    };
    let bytes = fetcher.document(fetch, deadline).await?;
    jwks::parse(&bytes).map_err(|error| FetchError::Document(error.to_string()))
}
