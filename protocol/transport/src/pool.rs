//! One long-lived connection per server.
//!
//! A connection to a peer that restarted may look alive until its idle timeout, while every call
//! on it times out. So callers report timeouts, and a connection on which nothing succeeded for
//! [`PATIENCE`] is dropped and made anew.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout};

use crate::endpoint::{AddressError, ConnectError, Endpoint, close_code};
use crate::stream_kind::StreamKind;

/// How long a connection may answer nothing before a timed-out call gives it up. Longer than a
/// busy server's pauses, shorter than the time in which a restarted one wants to be heard.
const PATIENCE: Duration = Duration::from_millis(500);

/// Addresses that a pool remembers. Clusters have up to five servers; members come and go.
const SERVERS_MAX: usize = 64;

/// Why a stream could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no connection")]
    Connect(#[source] ConnectError),
    #[error("the connection broke")]
    Connection(#[source] quinn::ConnectionError),
    #[error("the new stream broke")]
    Stream(#[source] quinn::WriteError),
    #[error("no stream was free for {0:?}")]
    StreamsUsedUp(Duration),
}

/// Connections to servers, by the address they were configured with. Clones share them.
#[derive(Debug, Clone)]
pub struct Pool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    endpoint: Endpoint,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
}

#[derive(Debug)]
struct Slot {
    /// Held while connecting, so that callers share one attempt.
    state: tokio::sync::Mutex<SlotState>,
    /// When a call last succeeded on the current connection.
    last_success: Mutex<Instant>,
}

#[derive(Debug, Default)]
struct SlotState {
    connection: Option<quinn::Connection>,
    failed_at: Option<Instant>,
}

impl Pool {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            inner: Arc::new(Inner {
                endpoint,
                slots: Mutex::default(),
            }),
        }
    }

    /// The connection to `address` (`host:port`), made if there is none. Callers that waited for
    /// an attempt which failed share its failure instead of repeating it one after another.
    ///
    /// # Errors
    /// When the name cannot be resolved or no server of our region answers there.
    pub async fn connection(&self, address: &str) -> Result<quinn::Connection, ConnectError> {
        let slot = self.slot(address)?;
        let arrived = Instant::now();
        let mut state = slot.state.lock().await;
        if let Some(connection) = &state.connection {
            if connection.close_reason().is_none() {
                return Ok(connection.clone());
            }
            state.connection = None;
        }
        if state
            .failed_at
            .is_some_and(|failed_at| failed_at >= arrived)
        {
            return Err(ConnectError::FailedJustNow {
                address: address.to_owned(),
            });
        }
        match self.connect(address).await {
            Ok(connection) => {
                slot.succeeded();
                state.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                state.failed_at = Some(Instant::now());
                Err(error)
            }
        }
    }

    /// Opens a stream of `kind` to `address`, its first byte written.
    ///
    /// # Errors
    /// As [`Self::connection`]; and when the connection is broken or out of streams.
    pub async fn open(
        &self,
        address: &str,
        kind: StreamKind,
    ) -> Result<(quinn::SendStream, quinn::RecvStream), OpenError> {
        let connection = self.connection(address).await.map_err(OpenError::Connect)?;
        let limit = self.inner.endpoint.limits().handshake_timeout;
        let (mut send, recv) = timeout(limit, connection.open_bi())
            .await
            .map_err(|_| OpenError::StreamsUsedUp(limit))?
            .map_err(OpenError::Connection)?;
        kind.write(&mut send).await.map_err(OpenError::Stream)?;
        Ok((send, recv))
    }

    /// Notes that a call to `address` was answered.
    pub fn report_success(&self, address: &str) {
        if let Some(slot) = self.lock_slots().get(address) {
            slot.succeeded();
        }
    }

    /// Notes that a call to `address` was not answered in time. The connection is closed if
    /// nothing succeeded on it lately; the next call makes a new one.
    pub fn report_timeout(&self, address: &str) {
        let Some(slot) = self.lock_slots().get(address).cloned() else {
            return;
        };
        if slot.silent_for() < PATIENCE {
            return;
        }
        // When the lock is taken, somebody is connecting already.
        if let Ok(mut state) = slot.state.try_lock()
            && let Some(connection) = state.connection.take()
        {
            tracing::debug!(address, "connection answers nothing, dropped");
            connection.close(close_code::UNRESPONSIVE.into(), b"no answers");
        }
    }

    /// Closes and forgets the connection to `address`.
    pub async fn forget(&self, address: &str) {
        let slot = self.lock_slots().remove(address);
        if let Some(slot) = slot
            && let Some(connection) = slot.state.lock().await.connection.take()
        {
            connection.close(close_code::SHUTDOWN.into(), b"no longer needed");
        }
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.inner.endpoint
    }

    async fn connect(&self, address: &str) -> Result<quinn::Connection, ConnectError> {
        let resolved = resolve(address)
            .await
            .map_err(|source| ConnectError::Resolve {
                address: address.to_owned(),
                source,
            })?;
        self.inner.endpoint.connect(resolved).await
    }

    fn slot(&self, address: &str) -> Result<Arc<Slot>, ConnectError> {
        let mut slots = self.lock_slots();
        if let Some(slot) = slots.get(address) {
            return Ok(Arc::clone(slot));
        }
        if slots.len() >= SERVERS_MAX {
            return Err(ConnectError::PoolFull(SERVERS_MAX));
        }
        let slot = Arc::new(Slot::new());
        slots.insert(address.to_owned(), Arc::clone(&slot));
        Ok(slot)
    }

    fn lock_slots(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Slot>>> {
        self.inner.slots.lock()
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            state: tokio::sync::Mutex::default(),
            last_success: Mutex::new(Instant::now()),
        }
    }

    fn succeeded(&self) {
        *self.last_success.lock() = Instant::now();
    }

    fn silent_for(&self) -> Duration {
        self.last_success.lock().elapsed()
    }
}

async fn resolve(address: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = address.parse() {
        return Ok(address);
    }
    tokio::net::lookup_host(address)
        .await
        .map_err(AddressError::Lookup)?
        .next()
        .ok_or(AddressError::NoAddress)
}
