//! The gateway: what nodes talk to.
//!
//! ```text
//!   node --- session stream ---> greeting  Hello, Welcome
//!                                session   heartbeats, the complete report, facts
//!        --- update streams ---> updates   batches, merged into few log entries (coalescer)
//!        <-- watch stream ------ watch     desired state, as a chain
//!   node <== second connection = calls     logs, files, exec, restarts: server to node, on demand
//!                                liveness  who was heard, told to the leader
//!                                detail    task events: kept in memory, never in the log
//!        --- query streams ----> queries   identities to sign, public keys, variables
//! ```
//!
//! A node's identity is its id together with its secret, checked by the replicated state when the
//! session is made; every later stream of that connection names the session's epoch, and an epoch
//! that is not the state's newest for that node is refused (`streams`). The second connection shows
//! the secret again.

pub mod admission;
mod answers;
pub mod calls;
mod coalescer;
pub mod detail;
mod frames;
mod greeting;
mod held;
mod hello;
mod knocks;
pub mod lateness;
pub mod liveness;
#[cfg(test)]
mod lone;
mod queries;
mod reports;
mod session;
mod specs;
mod streams;
mod sync;
mod task_api;
mod twins;
mod updates;
mod watch;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use controlplane_keyring::Keyring;
use controlplane_leader::Reading;
use controlplane_state::{Digest, SessionEpoch};
use parking_lot::{Mutex, MutexGuard};
use protocol_model::{AllocId, NodeId};
use protocol_transport::{Handshake, Place, Pool, Secret, StreamKind};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::config::{Config, LivenessConfig};

pub use calls::{CallNodeError, CallPlace, NodeCallStream, STALLED_MAX};
pub use coalescer::{Coalescer, CoalescerLoop};
use held::{Closed, SessionEntry, Sessions};
pub(crate) use task_api::{TaskAnswer, TaskRequests, ViaNode};

/// The largest frame between a node and a server.
pub const NODE_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A node that is not heard for this part of the time that it may be silent is perhaps elsewhere.
/// As a rule two heartbeats of one that rests are missing then, and ten of one that does not.
const HERE_PART: u32 = 2;

/// What the gateway is made of.
#[derive(Debug)]
pub struct Gateway {
    cluster: Cluster,
    liveness_config: LivenessConfig,
    sessions_max: usize,
    /// SHA-256 of the join token; `None` lets no new node in.
    join_token: Option<[u8; 32]>,
    sessions: Mutex<Sessions>,
    coalescer: Coalescer,
    heard: liveness::HeardLog,
    lateness: lateness::Lateness,
    admission: admission::Admission,
    detail: detail::DetailCache,
    knocks: Mutex<knocks::Knocks>,
    twins: Mutex<twins::Twins>,
    specs: specs::SpecCache,
    watch_turns: Semaphore,
    /// Signs identities.
    keyring: Keyring,
    /// The issuer that identities name.
    issuer: Option<String>,
    /// Questions for identities that are signed at a time.
    signing_places: Semaphore,
    /// Connections to other servers that carry nothing but calls.
    relays: Pool,
    places: calls::Places,
    /// The HTTP API that requests of tasks go to; unset where the server serves none.
    task_requests: OnceLock<Weak<dyn TaskRequests>>,
}

impl Gateway {
    /// A gateway to `cluster` that signs with `keyring`, and the loop that its updates need.
    pub fn new(cluster: Cluster, config: &Config, keyring: Keyring) -> (Arc<Self>, CoalescerLoop) {
        let (coalescer, updates) = Coalescer::new(cluster.clone(), config.merging);
        let join_token = config.node_join_token.as_ref().map(Secret::reveal);
        let relays = Pool::new(cluster.pool().endpoint().clone());
        let gateway = Arc::new(Self {
            relays,
            places: calls::Places::default(),
            coalescer,
            cluster,
            liveness_config: config.liveness,
            sessions_max: config.limits.sessions,
            join_token: join_token.map(|token| Sha256::digest(token).into()),
            sessions: Mutex::default(),
            heard: liveness::HeardLog::default(),
            lateness: lateness::Lateness::default(),
            admission: admission::Admission::default(),
            detail: detail::DetailCache::default(),
            knocks: Mutex::default(),
            twins: Mutex::default(),
            specs: specs::SpecCache::default(),
            watch_turns: Semaphore::new(watch::TURNS),
            task_requests: OnceLock::new(),
            keyring,
            issuer: config.oidc_issuer.clone(),
            signing_places: Semaphore::new(queries::places()),
        });
        (gateway, updates)
    }

    /// Volatile detail of allocations whose nodes are in a session here.
    pub fn detail(&self) -> &detail::DetailCache {
        &self.detail
    }

    /// How far this server is behind with what it receives.
    pub(crate) fn lateness(&self) -> &lateness::Lateness {
        &self.lateness
    }

    /// How nodes come in.
    pub fn admission(&self) -> &admission::Admission {
        &self.admission
    }

    /// Whether nodes may be alive of which this server has heard nothing: what they sent may be
    /// unread, they wait at the door, or heartbeats are too rare for the usual silence.
    fn reading(&self, now: Instant) -> Reading {
        let reading = self.lateness.reading(now);
        let rare = self.lateness.pace() > self.liveness_config.calm_interval;
        match () {
            () if self.admission.is_slow(now) => Reading::Crowded,
            () if rare => Reading::Late,
            () => reading,
        }
    }

    /// Who was heard here lately.
    pub fn heard(&self) -> &liveness::HeardLog {
        &self.heard
    }

    /// Serves requests of tasks with `requests`, as long as it lives; only the first call counts.
    pub(crate) fn serve_tasks(&self, requests: Weak<dyn TaskRequests>) {
        let _ = self.task_requests.set(requests);
    }

    /// Where updates of nodes become entries of the log.
    pub(crate) fn coalescer(&self) -> &Coalescer {
        &self.coalescer
    }

    /// How long a node may be silent here before it is perhaps elsewhere.
    fn silence(&self) -> Duration {
        silence(self.liveness_config.silence, self.lateness.pace())
    }

    /// Whether a node is in a session here and nowhere else, for all that can be known: one that
    /// went on at another server may have said nothing of it here.
    pub fn is_here(&self, node: NodeId) -> bool {
        let since = self.sessions.lock().newest(node).map(|entry| entry.since);
        let heard = self.heard.last(node).max(since);
        heard.is_some_and(|heard| heard.elapsed() < self.silence() / HERE_PART)
    }

    /// How many nodes are in a session here.
    pub fn session_count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Serves a session: its stream, from the Hello on, which may come before the node's handshake
    /// is over.
    pub async fn serve_session(
        self: Arc<Self>,
        send: quinn::SendStream,
        recv: quinn::RecvStream,
        connection: &quinn::Connection,
        handshake: Handshake,
        place: Place,
    ) {
        greeting::serve(&self, send, recv, connection, handshake, &place).await;
        // However it ended: nothing is made for it any more.
        place.free();
    }

    /// Serves any other stream that a node opened.
    pub async fn serve(
        self: Arc<Self>,
        kind: StreamKind,
        send: quinn::SendStream,
        recv: quinn::RecvStream,
        connection: quinn::Connection,
    ) {
        match kind {
            StreamKind::NodeUpdates => {
                Box::pin(updates::serve(&self, send, recv, &connection)).await;
            }
            StreamKind::NodeWatch => Box::pin(watch::serve(&self, send, recv, &connection)).await,
            StreamKind::NodeQuery => {
                Box::pin(queries::serve(&self, send, recv, &connection)).await;
            }
            StreamKind::Bulk => Box::pin(calls::attach(&self, send, recv, connection)).await,
            StreamKind::TaskApi => Box::pin(task_api::serve(&self, send, recv, &connection)).await,
            StreamKind::NodeSession
            | StreamKind::Raft
            | StreamKind::Forward
            | StreamKind::NodeCall => {
                tracing::debug!(%kind, "stream refused: unknown kind for this role");
            }
        }
    }

    fn join_allowed(&self, token: &str) -> bool {
        // Digests are compared, so that the time says nothing about how much of a token is right.
        let given: [u8; 32] = Sha256::digest(token).into();
        self.join_token.is_some_and(|wanted| wanted == given)
    }

    /// Whether there is a place for a session of `node`.
    fn has_room(&self, node: NodeId) -> bool {
        let sessions = self.sessions.lock();
        sessions.len() < self.sessions_max || sessions.newest(node).is_some()
    }

    fn knocks(&self) -> MutexGuard<'_, knocks::Knocks> {
        self.knocks.lock()
    }

    /// Logs two daemons with one identity, where that is certain and was not said lately. `address`
    /// is where the newer of them says Hello.
    fn note_rival(&self, node: NodeId, address: IpAddr, other: Option<IpAddr>) {
        let twins = self.twins.lock();
        let mut twins = twins;
        if twins.on_rival(node, Instant::now()) {
            let other = other.map_or_else(|| "another server".to_owned(), |it| it.to_string());
            tracing::error!(
                %node, %address, %other,
                "two daemons have the identity of one node and end each other's sessions: a \
                 data_dir was copied; stop one of them, and start it with an empty data_dir if it \
                 is to be a node of its own"
            );
        }
    }

    /// Where the newest session of `node` comes from, if it is here.
    fn session_address(&self, node: NodeId) -> Option<IpAddr> {
        let sessions = self.sessions.lock();
        let connection = &sessions.newest(node)?.connection;
        Some(connection.remote_address().ip().to_canonical())
    }

    /// Takes a session up that was made on `connection`. `false` where there are too many already.
    /// A connection that ended while its Hello was on its way takes nobody's place.
    fn open_session(
        &self,
        node: NodeId,
        epoch: SessionEpoch,
        connection: &quinn::Connection,
        since: Instant,
        calls: &Arc<calls::CallLine>,
    ) -> bool {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= self.sessions_max && sessions.newest(node).is_none() {
            return false;
        }
        // One that is over before it is here ends by itself, and must not end the one after it.
        let snapshot = self.cluster.snapshot();
        let newest = snapshot.node(node).map(|record| record.session.epoch);
        if connection.close_reason().is_none() && newest == Some(epoch) {
            let entry = SessionEntry::new(epoch, connection.clone(), since, Arc::clone(calls));
            sessions.open(node, entry);
        }
        true
    }

    /// Forgets a session and what was kept for it, unless a newer one took its place, or the same
    /// one goes on over another connection.
    fn close_session(&self, node: NodeId, epoch: SessionEpoch, connection: &quinn::Connection) {
        {
            let mut sessions = self.sessions.lock();
            if sessions.close(node, epoch, connection) != Closed::Last {
                return;
            }
            // Under the lock: a batch that is still on its way brings nothing back.
            self.detail.forget(node);
        }
        self.heard.forget(node);
        self.cluster.hub().forget_node(node);
    }

    /// The events that this server keeps, while the session is here: what comes later would stay
    /// for ever, and hide what the session's next server is told.
    fn with_detail(
        &self,
        node: NodeId,
        epoch: SessionEpoch,
        take: impl FnOnce(&detail::DetailCache),
    ) {
        let mut sessions = self.sessions.lock();
        if sessions.of_epoch(node, epoch).is_some() {
            take(&self.detail);
        }
    }

    fn set_known(&self, node: NodeId, epoch: SessionEpoch, known: BTreeMap<AllocId, u64>) {
        if let Some(entry) = self.sessions.lock().of_epoch(node, epoch) {
            entry.known = Some(Arc::new(known));
        }
    }

    /// The way to the node's connection for calls, if the session is here.
    fn line_of(&self, node: NodeId, epoch: SessionEpoch) -> Option<Arc<calls::CallLine>> {
        let mut sessions = self.sessions.lock();
        let entry = sessions.of_epoch(node, epoch)?;
        Some(Arc::clone(&entry.calls))
    }
}

/// How long a node may be silent that is asked for heartbeats at this pace. It may have been told
/// the pace before, which is twice as long, and one heartbeat may be lost.
fn silence(usual: Duration, pace: Duration) -> Duration {
    usual.max(pace * 4)
}

/// SHA-256 of a secret.
pub fn digest(secret: &[u8]) -> Digest {
    Digest(Sha256::digest(secret).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_asked_for_rare_heartbeats_may_be_silent_for_longer() {
        let usual = Duration::from_millis(2_600);
        for (pace, seconds) in [(0, 2.6), (500, 2.6), (1_000, 4.0), (4_000, 16.0)] {
            let silence = silence(usual, Duration::from_millis(pace));
            assert_eq!(silence, Duration::from_secs_f64(seconds), "{pace} ms");
        }
    }
}
