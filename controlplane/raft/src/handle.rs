//! One server's handle on the log.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::ReadPolicy;
use openraft::errors::{ClientWriteError, LinearizableReadError, RaftError};
use protocol_transport::{PeerIdentity, Pool};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::RaftConfig;
use crate::engine::Command;
use crate::error::{
    ChangeError, ProposeError, ReadError, SnapshotError, StoppedError, forwarded_leader,
};
use crate::formation::FormError;
use crate::machine::{Machine, Position};
use crate::member::{Leader, Membership, ServerId, ServerInfo};
use crate::network::call::{CallKind, ReadIndexAnswer};
use crate::network::server::ServeError;
use crate::open::{Inner, OpenError, open};
use crate::status::RaftStatus;
use crate::store::disk::Disk;
use crate::store::host_disk::HostDisk;
use crate::store::snapshot::SnapshotFile;

/// The pause before asking again when no leader is known. A new leader is a few milliseconds from
/// accepting, and a lost one some hundreds from being replaced.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// How long a shutdown waits for the last user of the log to let go of it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// A command that took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposed {
    pub index: u64,
    pub term: u64,
    /// What the machine answered.
    pub response: Vec<u8>,
}

/// A checkpoint of the machine, opened; it stays readable when a newer one replaces it.
#[derive(Debug)]
pub struct Checkpoint {
    pub position: Position,
    file: SnapshotFile,
}

impl Checkpoint {
    /// The checkpoint's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.file.checkpoint_bytes()
    }

    /// Reads exactly what the machine wrote. Blocking.
    ///
    /// # Errors
    /// When the file cannot be positioned.
    pub fn reader(&mut self) -> std::io::Result<impl Read + '_> {
        self.file.checkpoint()
    }
}

/// One server's part in the replicated log. Clones share it.
#[derive(Clone)]
pub struct Raft {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Raft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raft")
            .field("id", &self.inner.own_id)
            .finish_non_exhaustive()
    }
}

impl Raft {
    /// Opens the log in `directory`, or makes one; restores `machine`; starts taking part.
    ///
    /// When this returns, the machine has everything that this server knew to be committed. The
    /// rest follows once there is a leader: see [`Self::read_barrier`].
    ///
    /// `pool` reaches other servers; `own` is how they reach this one. A server alone in its
    /// cluster leads at once; others wait until every lease that they may have granted before has
    /// run out.
    ///
    /// # Errors
    /// When the settings contradict each other, or the directory is damaged, in use, or not this
    /// server's.
    pub async fn open(
        config: RaftConfig,
        directory: &Path,
        machine: impl Machine,
        pool: Pool,
        own: ServerInfo,
    ) -> Result<Self, OpenError> {
        let disk = Arc::new(HostDisk);
        Self::open_on(disk, config, directory, machine, pool, own).await
    }

    /// As [`Self::open`], on a disk of the caller's own: how a simulator keeps a log.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_on(
        disk: Arc<dyn Disk>,
        config: RaftConfig,
        directory: &Path,
        machine: impl Machine,
        pool: Pool,
        own: ServerInfo,
    ) -> Result<Self, OpenError> {
        let inner = open(config, disk, directory, Box::new(machine), pool, own).await?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Becomes a voter of a cluster, and returns then; at once if it is one already.
    ///
    /// `retry_join` are addresses of servers, in any cluster state. If one of them is in a
    /// cluster, that cluster is joined: as a learner, then as a voter. Otherwise, once
    /// `bootstrap_expect` servers that expect the same number know each other, the one with the
    /// lowest id collects a durable promise of each and forms the cluster. With 0 the server only
    /// joins; with 1 it forms a cluster alone.
    ///
    /// Runs as long as it takes; logs why it waits whenever that changes. May be cancelled.
    ///
    /// # Errors
    /// When the two settings cannot work together, or the disk or the log failed.
    pub async fn form(
        &self,
        bootstrap_expect: u32,
        retry_join: &[String],
    ) -> Result<(), FormError> {
        self.inner.formation.run(bootstrap_expect, retry_join).await
    }

    /// Replicates a command and waits until it was applied here.
    ///
    /// Waits for a place and a leader at most [`RaftConfig::patience`], and as long again for the
    /// outcome. Dropping the future does not take the command back.
    ///
    /// # Errors
    /// See [`ProposeError`], which says for each case whether something may have been written.
    pub async fn propose(&self, command: impl Into<Bytes>) -> Result<Proposed, ProposeError> {
        let command: Bytes = command.into();
        let bytes_max = self.inner.config.command_bytes_max;
        if command.len() > bytes_max {
            return Err(ProposeError::TooLarge {
                bytes: command.len(),
                bytes_max,
            });
        }
        let waited = self.inner.config.patience;
        let deadline = Instant::now() + waited;
        let Ok(Ok(_place)) = timeout_at(deadline, self.inner.proposals.acquire()).await else {
            return Err(ProposeError::Overloaded);
        };
        loop {
            let attempt = self.inner.core.client_write(Command(command.clone()));
            // Its own time: an attempt cut short would have an unknown outcome for no reason.
            let error = match timeout(waited, attempt).await {
                Err(_) => return Err(ProposeError::OutcomeUnknown),
                Ok(Ok(written)) => {
                    return Ok(Proposed {
                        index: written.log_id.index,
                        term: *written.log_id.leader_id,
                        response: written.data.0,
                    });
                }
                Ok(Err(RaftError::Fatal(fatal))) => {
                    return Err(ProposeError::Stopped(StoppedError::from_fatal(&fatal)));
                }
                Ok(Err(RaftError::APIError(error))) => error,
            };
            let ClientWriteError::ForwardToLeader(forward) = error else {
                return Err(ProposeError::OutcomeUnknown);
            };
            if let Some(leader) = self.other_leader(forwarded_leader(&forward)) {
                return Err(ProposeError::NotLeader { leader });
            }
            if !self.pause(deadline).await {
                return Err(ProposeError::Unavailable { waited });
            }
        }
    }

    /// Waits until the machine has everything that was committed when this was called, anywhere
    /// in the cluster: a read of local state is linearizable after it. Returns the index that the
    /// machine has reached at least. Works on every member; a follower asks the leader.
    ///
    /// # Errors
    /// When no leader with a majority is found in time, or the log has stopped.
    pub async fn read_barrier(&self) -> Result<u64, ReadError> {
        let waited = self.inner.config.patience;
        let deadline = Instant::now() + waited;
        loop {
            let attempt = async {
                if self.is_leader() {
                    self.leader_barrier().await
                } else {
                    self.ask_leader().await
                }
            };
            match timeout_at(deadline, attempt).await {
                Ok(Ok(Some(index))) => return Ok(index),
                Ok(Ok(None)) => {}
                Ok(Err(stopped)) => return Err(ReadError::Stopped(stopped)),
                Err(_) => return Err(ReadError::Unavailable { waited }),
            }
            if !self.pause(deadline).await {
                return Err(ReadError::Unavailable { waited });
            }
        }
    }

    /// As [`Self::read_barrier`], but refused with the leader's address on any other server.
    ///
    /// # Errors
    /// As [`Self::read_barrier`], and when another server leads.
    pub async fn leader_read_barrier(&self) -> Result<u64, ReadError> {
        let waited = self.inner.config.patience;
        let deadline = Instant::now() + waited;
        loop {
            if let Some(leader) = self.other_leader(self.leader()) {
                return Err(ReadError::NotLeader { leader });
            }
            match timeout_at(deadline, self.leader_barrier()).await {
                Ok(Ok(Some(index))) => return Ok(index),
                Ok(Ok(None)) => {}
                Ok(Err(stopped)) => return Err(ReadError::Stopped(stopped)),
                Err(_) => return Err(ReadError::Unavailable { waited }),
            }
            if !self.pause(deadline).await {
                return Err(ReadError::Unavailable { waited });
            }
        }
    }

    /// Answers one call of another server, on a stream whose kind was read as `Raft`.
    ///
    /// # Errors
    /// When the peer may not call, or the stream broke; [`ServeError::fault`] says whether to
    /// close the peer's connection.
    pub async fn serve_stream(
        &self,
        peer: &PeerIdentity,
        send: quinn::SendStream,
        recv: quinn::RecvStream,
    ) -> Result<(), ServeError> {
        self.inner.service.serve(peer, send, recv).await
    }

    /// Adds a server that receives the log without voting. It should be reachable.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn add_learner(&self, id: ServerId, info: ServerInfo) -> Result<(), ChangeError> {
        self.inner.members.add_learner(id, info).await
    }

    /// Makes a learner a voter.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn promote(&self, id: ServerId) -> Result<(), ChangeError> {
        self.inner.members.promote(id).await
    }

    /// Removes a server, voter or not; succeeds quietly when it is no member. A leader that
    /// removes itself hands the leadership over.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn remove_server(&self, id: ServerId) -> Result<(), ChangeError> {
        self.inner.members.remove(id).await
    }

    /// Changes how a member is reached.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn update_server(&self, id: ServerId, info: ServerInfo) -> Result<(), ChangeError> {
        self.inner.members.update(id, info).await
    }

    /// The voter that can take this leader's place soonest: one that answers, with the longest log.
    /// `None` on a server that does not lead, and on one that is alone.
    pub fn successor(&self) -> Option<ServerId> {
        self.inner.members.successor(self.inner.config.election_max)
    }

    /// Hands the leadership to another voter and waits until it leads.
    ///
    /// # Errors
    /// See [`ChangeError`]; an unknown outcome means that the target did not take over in time.
    pub async fn transfer_leadership(&self, to: ServerId) -> Result<(), ChangeError> {
        self.inner.members.transfer(to).await
    }

    /// Starts writing a snapshot, unless one is being written. [`RaftStatus::snapshot_index`]
    /// moves when it is done.
    ///
    /// # Errors
    /// When the log has stopped.
    pub async fn trigger_snapshot(&self) -> Result<(), StoppedError> {
        self.inner
            .core
            .trigger()
            .snapshot()
            .await
            .map_err(|fatal| StoppedError::from_fatal(&fatal))
    }

    /// Writes a snapshot that covers everything applied so far, and opens it.
    ///
    /// # Errors
    /// When nothing was applied yet, the disk fails, or it takes longer than
    /// [`RaftConfig::install_snapshot`].
    pub async fn checkpoint(&self) -> Result<Checkpoint, SnapshotError> {
        // Asked of the machine itself: the status learns of an applied command after its proposer.
        let applied = self
            .inner
            .core
            .with_state_machine(|machine| {
                let applied = machine.applied();
                Box::pin(async move { applied })
            })
            .await
            .map_err(|fatal| SnapshotError::Stopped(StoppedError::from_fatal(&fatal)))?;
        let wanted = applied.map_or(0, |log_id| log_id.index);
        if wanted == 0 {
            return Err(SnapshotError::Empty);
        }
        let limit = self.inner.config.install_snapshot;
        let deadline = Instant::now() + limit;
        let mut status = self.inner.status.clone();
        loop {
            {
                let status = status.borrow_and_update();
                if let Some(failure) = &status.failure {
                    return Err(SnapshotError::Stopped(failure.clone()));
                }
                if status.snapshot_index >= wanted {
                    break;
                }
            }
            // One that is being written already may cover too little: ask again when it is done.
            self.trigger_snapshot()
                .await
                .map_err(SnapshotError::Stopped)?;
            match timeout_at(deadline, status.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(SnapshotError::Stopped(StoppedError::ShutDown)),
                Err(_) => return Err(SnapshotError::Timeout(limit)),
            }
        }
        let snapshots = Arc::clone(&self.inner.snapshots);
        let opened = tokio::task::spawn_blocking(move || snapshots.current()).await;
        let file = match opened {
            Ok(opened) => opened
                .map_err(SnapshotError::Open)?
                .ok_or(SnapshotError::Empty)?,
            Err(error) => return Err(SnapshotError::Open(std::io::Error::other(error))),
        };
        let last = file.meta.last_log_id.ok_or(SnapshotError::Empty)?;
        let position = Position {
            term: *last.leader_id,
            index: last.index,
        };
        Ok(Checkpoint { position, file })
    }

    /// Stops taking part and closes the files. Peers elect another leader if this one led;
    /// transfer the leadership first to spare them the wait. Returns when the directory may be
    /// opened again, or after five seconds.
    pub async fn shutdown(&self) {
        let log = self.inner.log.lock().take();
        if self.inner.core.shutdown().await.is_err() {
            tracing::warn!("the raft task panicked or was aborted during shutdown");
        }
        let Some(log) = log else { return };
        if let Err(error) = log.flush().await {
            tracing::warn!(%error, "the committed index was not written");
        }
        drop(log);
        let mut closed = self.inner.closed.clone();
        // Nothing is ever sent: the only change is the end.
        if timeout(CLOSE_PATIENCE, closed.changed()).await.is_err() {
            tracing::warn!("the log was still open at shutdown");
        }
    }

    /// Ends when storage failed or the log's driver panicked, with the reason. The process must
    /// exit then, with this message. Never ends otherwise, not even by a shutdown.
    pub async fn failed(&self) -> StoppedError {
        let mut status = self.inner.standing.clone();
        let failed = |status: &RaftStatus| {
            status
                .failure
                .as_ref()
                .is_some_and(|failure| *failure != StoppedError::ShutDown)
        };
        if let Ok(status) = status.wait_for(failed).await
            && let Some(failure) = status.failure.clone()
        {
            return failure;
        }
        std::future::pending().await
    }

    /// A watch on this server's part. Updates may be skipped, never reordered.
    pub fn status(&self) -> watch::Receiver<RaftStatus> {
        self.inner.status.clone()
    }

    /// The same watch for those who ask for the role, the leader and the membership: it is quiet
    /// while the log only grows, and its indices are those of the last change.
    pub fn standing(&self) -> watch::Receiver<RaftStatus> {
        self.inner.standing.clone()
    }

    pub fn id(&self) -> ServerId {
        self.inner.own_id
    }

    /// Whether this server leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.inner.status.borrow().is_leader()
    }

    /// Whether this server leads and was answered by a majority, itself included, within the
    /// longest election timeout. A leader that was not may have been replaced; it does not cease by
    /// itself.
    pub fn hears_majority(&self) -> bool {
        self.inner
            .members
            .hears_majority(self.inner.config.election_max)
    }

    /// Who leads, as far as this server knows.
    pub fn leader(&self) -> Option<Leader> {
        self.inner.status.borrow().leader.clone()
    }

    /// The members, as far as this server knows.
    pub fn configuration(&self) -> Membership {
        self.inner.status.borrow().membership.clone()
    }

    /// How long ago a leader was last heard: zero on the leader, `None` if never.
    pub fn last_contact(&self) -> Option<Duration> {
        if self.is_leader() {
            Some(Duration::ZERO)
        } else {
            self.inner.service.last_contact()
        }
    }

    /// The leader's barrier; `None` when this server cannot say, because it does not lead or its
    /// majority is silent.
    async fn leader_barrier(&self) -> Result<Option<u64>, StoppedError> {
        if let Some(index) = self.inner.members.lone_barrier() {
            return Ok(Some(index));
        }
        for policy in [ReadPolicy::LeaseRead, ReadPolicy::ReadIndex] {
            match self.inner.core.ensure_linearizable(policy).await {
                Ok(read) => return Ok(Some(read.log_id().index)),
                Err(RaftError::Fatal(fatal)) => return Err(StoppedError::from_fatal(&fatal)),
                Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_))) => {
                    return Ok(None);
                }
                // The lease ran out: ask the majority.
                Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {}
            }
        }
        Ok(None)
    }

    /// A follower's barrier: the leader's index, then our own progress.
    async fn ask_leader(&self) -> Result<Option<u64>, StoppedError> {
        let mut status = self.inner.status.clone();
        let leader = {
            let status = status.borrow();
            if let Some(failure) = &status.failure {
                return Err(failure.clone());
            }
            status.leader.clone()
        };
        let Some(Leader {
            id,
            info: Some(info),
        }) = leader
        else {
            return Ok(None);
        };
        let limit = self.inner.config.election_max;
        let caller = &self.inner.caller;
        let answer = caller
            .call(&info.address, id.as_u64(), CallKind::ReadIndex, (), limit)
            .await;
        let Ok(ReadIndexAnswer::Index(index)) = answer else {
            return Ok(None);
        };
        let reached =
            |status: &RaftStatus| status.failure.is_some() || status.applied_index >= index;
        match status.wait_for(reached).await {
            Ok(status) => match &status.failure {
                None => Ok(Some(index)),
                Some(failure) => Err(failure.clone()),
            },
            Err(_) => Err(StoppedError::ShutDown),
        }
    }

    fn other_leader(&self, leader: Option<Leader>) -> Option<Leader> {
        leader.filter(|leader| leader.id != self.inner.own_id)
    }

    /// Waits a little; says whether there is time for another try.
    async fn pause(&self, deadline: Instant) -> bool {
        if Instant::now() + RETRY_PAUSE >= deadline {
            return false;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
        true
    }
}
