//! Renewals of locks on variables: taken by the leader's loop, without an entry of the log.
//!
//! ```text
//!  handler ── here, or LockRenewRequest ──► leader: read barrier ──► its loop (Locks::renew)
//! ```
//!
//! The barrier proves that no other server led when the renewal came. A server that leads next
//! gives every lock its whole time anew, after that.

use std::sync::Arc;

use bytes::Bytes;
use controlplane_raft::Leader;
use controlplane_state::{VariableKey, VariableRefusal};
use protocol_transport::StreamKind;
use protocol_wire::v1;
use protocol_wire::v1::lock_renew_reply::Kind;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{ChangeError, Cluster, PATIENCE, RETRY_PAUSE};

/// Renewals that wait for the leader's loop; more of them wait to be sent.
const RENEWALS_MAX: usize = 1024;

/// A renewal for the leader's loop. A loop that does not lead drops it.
#[derive(Debug)]
pub(crate) struct LockRenewal {
    /// The variable.
    pub(crate) key: VariableKey,
    /// The lock.
    pub(crate) id: Uuid,
    /// Takes the answer.
    pub(crate) answer: oneshot::Sender<Result<(), VariableRefusal>>,
}

/// The way of renewals to the leader's loop. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct LockRenewals {
    sender: mpsc::Sender<LockRenewal>,
    receiver: Arc<Mutex<mpsc::Receiver<LockRenewal>>>,
}

impl Default for LockRenewals {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(RENEWALS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        Self { sender, receiver }
    }
}

/// Why a lock was not renewed.
#[derive(Debug)]
enum RenewError {
    /// The caller does not hold it.
    Refused(VariableRefusal),
    /// No server that leads took it.
    NotLeader,
}

impl Cluster {
    /// The renewals for the leader's loop, which takes them for as long as it runs.
    pub(crate) fn renewals(&self) -> Arc<Mutex<mpsc::Receiver<LockRenewal>>> {
        Arc::clone(&self.renewals.receiver)
    }

    /// Renews a lock, here or at the leader.
    ///
    /// # Errors
    /// Where the caller does not hold it, and without a leader.
    pub(crate) async fn renew_lock(&self, key: &VariableKey, id: Uuid) -> Result<(), ChangeError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let leader = self.leader();
            let renewed = match leader {
                Some(leader) if leader.id != self.server_id() => {
                    self.renew_there(&leader, key, id).await
                }
                Some(_) => self.renew_as_leader(key, id).await,
                None => Err(RenewError::NotLeader),
            };
            match renewed {
                Ok(()) => return Ok(()),
                Err(RenewError::Refused(refusal)) => {
                    return Err(ChangeError::Refused(refusal.into()));
                }
                Err(RenewError::NotLeader) if Instant::now() + RETRY_PAUSE < deadline => {
                    sleep(RETRY_PAUSE).await;
                }
                Err(RenewError::NotLeader) => return Err(ChangeError::NoLeader(PATIENCE)),
            }
        }
    }

    async fn renew_there(
        &self,
        leader: &Leader,
        key: &VariableKey,
        id: Uuid,
    ) -> Result<(), RenewError> {
        let request = v1::LockRenewRequest {
            namespace: key.namespace.clone(),
            path: key.path.clone(),
            lock_id: Bytes::copy_from_slice(id.as_bytes()),
        };
        let called = self.call(leader, StreamKind::Forward, &request).await;
        let reply: v1::LockRenewReply = called.map_err(|_| RenewError::NotLeader)?;
        match Kind::try_from(reply.kind) {
            Ok(Kind::Renewed) => Ok(()),
            Ok(Kind::NotFound) => Err(RenewError::Refused(VariableRefusal::NotFound)),
            Ok(Kind::NotLocked) => Err(RenewError::Refused(VariableRefusal::NotLocked)),
            Ok(Kind::AnotherLock) => Err(RenewError::Refused(VariableRefusal::AnotherLock)),
            Ok(Kind::NotLeader | Kind::Unspecified) | Err(_) => Err(RenewError::NotLeader),
        }
    }

    /// Takes a renewal that another server sent.
    ///
    /// # Errors
    /// Where it names no lock.
    pub(crate) async fn serve_renewal(
        &self,
        request: v1::LockRenewRequest,
    ) -> Result<v1::LockRenewReply, String> {
        let v1::LockRenewRequest {
            namespace,
            path,
            lock_id,
        } = request;
        let id = Uuid::from_slice(&lock_id).map_err(|error| error.to_string())?;
        let key = VariableKey::new(namespace, path);
        let kind = match self.renew_as_leader(&key, id).await {
            Ok(()) => Kind::Renewed,
            Err(RenewError::Refused(VariableRefusal::NotFound)) => Kind::NotFound,
            Err(RenewError::Refused(VariableRefusal::NotLocked)) => Kind::NotLocked,
            Err(RenewError::Refused(_)) => Kind::AnotherLock,
            Err(RenewError::NotLeader) => Kind::NotLeader,
        };
        Ok(v1::LockRenewReply { kind: kind.into() })
    }

    async fn renew_as_leader(&self, key: &VariableKey, id: Uuid) -> Result<(), RenewError> {
        let not_leader = RenewError::NotLeader;
        if !self.is_leader() {
            return Err(not_leader);
        }
        if self.raft.read_barrier().await.is_err() || !self.is_leader() {
            return Err(not_leader);
        }
        let (answer, answered) = oneshot::channel();
        let renewal = LockRenewal {
            key: key.clone(),
            id,
            answer,
        };
        let sent = self.renewals.sender.send(renewal).await;
        sent.map_err(|_| RenewError::NotLeader)?;
        let renewed = answered.await.map_err(|_| RenewError::NotLeader)?;
        renewed.map_err(RenewError::Refused)
    }
}
