//! The cluster as the rest of the server sees it: one handle to read the state, to change it
//! through whoever leads (`change`, and `forwarded` at the other end), to ask other servers
//! (`call`), and to know who leads.

mod call;
mod change;
mod forwarded;
mod pace;
mod recheck;
mod renew;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use controlplane_raft::{Leader, Raft, RaftStatus, ReadError, ServerId};
use controlplane_state::Snapshot;
use protocol_model::UnixNanos;
use protocol_transport::Pool;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

pub use self::call::{CallError, SERVER_FRAME_BYTES_MAX};
pub use self::change::{ChangeError, Changed, LeadingError};
pub(crate) use self::forwarded::merged_reply;
pub(crate) use self::pace::SharedPace;
pub(crate) use self::renew::LockRenewal;
use self::renew::LockRenewals;
use crate::access::Access;
use crate::clock::WallClock;
use crate::config::Config;
use crate::machine::Hub;
use crate::planted::PlantedBug;
use crate::versions::Versions;

/// How long a change waits for a leader, over elections.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a refused call is tried again: about what an election's last round takes.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// A handle to the cluster. Clones share everything.
#[derive(Clone, Debug)]
pub struct Cluster {
    raft: Raft,
    hub: Arc<Hub>,
    pool: Pool,
    status: watch::Receiver<RaftStatus>,
    versions: Arc<Versions>,
    /// How long changes take.
    changes: SharedPace,
    /// How long what nodes report waits for the log.
    updates: SharedPace,
    clock: Arc<dyn WallClock>,
    access: Arc<Access>,
    /// The last term in which this server applied its own barrier as a leader.
    barred_term: Arc<AtomicU64>,
    renewals: LockRenewals,
}

impl Cluster {
    /// The handle to what `raft` replicates and `hub` tells of, by the time of `clock`.
    pub(crate) fn new(
        raft: Raft,
        hub: Arc<Hub>,
        pool: Pool,
        clock: Arc<dyn WallClock>,
        access: Arc<Access>,
    ) -> Self {
        let status = raft.status();
        Self {
            raft,
            hub,
            pool,
            status,
            versions: Arc::default(),
            changes: SharedPace::default(),
            updates: SharedPace::default(),
            clock,
            access,
            barred_term: Arc::default(),
            renewals: LockRenewals::default(),
        }
    }

    /// Callers and their rights.
    pub(crate) fn access(&self) -> &Arc<Access> {
        &self.access
    }

    /// Takes the settings of `config` that may change while a server runs: budgets, and labels of
    /// metrics.
    pub fn reconfigure(&self, config: &Config) {
        self.access.configure(config);
    }

    /// What the other servers run.
    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The newest state applied here.
    pub fn snapshot(&self) -> Snapshot {
        self.hub.snapshot()
    }

    /// Where changes of the state are told.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// How long the slowest change of late took; zero where none was made.
    pub(crate) fn slowest_change(&self, now: Instant) -> Duration {
        self.changes.peak(now)
    }

    /// How long changes take.
    #[cfg(test)]
    pub(crate) fn changes(&self) -> &SharedPace {
        &self.changes
    }

    /// How long what nodes report waits for the log: measured where it is proposed.
    pub(crate) fn updates(&self) -> &SharedPace {
        &self.updates
    }

    /// Now, by this server's clock.
    pub(crate) fn wall_clock(&self) -> UnixNanos {
        self.clock.now()
    }

    /// What tells this server the time.
    pub(crate) fn clock(&self) -> &Arc<dyn WallClock> {
        &self.clock
    }

    /// The log, for operators' routes.
    pub fn raft(&self) -> &Raft {
        &self.raft
    }

    /// Connections to other servers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// This server's part in the log right now.
    pub fn status(&self) -> RaftStatus {
        self.status.borrow().clone()
    }

    /// A watch on this server's part in the log; that the log grew is no news here.
    pub fn watch_status(&self) -> watch::Receiver<RaftStatus> {
        self.raft.standing()
    }

    /// This server's id.
    pub fn server_id(&self) -> ServerId {
        self.status.borrow().id
    }

    /// Whether this server leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.status.borrow().is_leader()
    }

    /// Whether this server leads in `term`, as far as it knows.
    pub fn leads_in(&self, term: u64) -> bool {
        leads_in(&self.raft.standing().borrow(), term)
    }

    /// Who leads, as far as this server knows.
    pub fn leader(&self) -> Option<Leader> {
        self.status.borrow().leader.clone()
    }

    /// How many servers vote.
    pub fn voters(&self) -> usize {
        self.status.borrow().membership.voters.len()
    }

    /// Waits until everything that was on a majority before this call is applied here, and answers
    /// the snapshot then: what a consistent read reads. Works on every member.
    ///
    /// # Errors
    /// When no leader answers in time.
    pub async fn consistent(&self) -> Result<Snapshot, ChangeError> {
        if self.access.planted().has(PlantedBug::NoReadBarrier) {
            return Ok(self.snapshot());
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.raft.read_barrier().await {
                Ok(_) => return Ok(self.snapshot()),
                Err(ReadError::NotLeader { .. } | ReadError::Unavailable { .. }) => {}
                Err(ReadError::Stopped(error)) => {
                    return Err(ChangeError::Stopped(error.to_string()));
                }
            }
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(ChangeError::NoLeader(PATIENCE));
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// The first snapshot that has applied `index`.
    ///
    /// # Errors
    /// When it does not come before `deadline`.
    pub async fn at_least(&self, index: u64, deadline: Instant) -> Result<Snapshot, ChangeError> {
        let mut newest = self.hub.watch();
        match timeout_at(
            deadline,
            newest.wait_for(|snapshot| snapshot.index() >= index),
        )
        .await
        {
            Ok(Ok(snapshot)) => Ok(snapshot.clone()),
            Ok(Err(_)) => Err(ChangeError::Stopped("the state is gone".to_owned())),
            Err(_) => Err(ChangeError::NoLeader(PATIENCE)),
        }
    }

    /// The HTTP address of the leader, where it is known.
    pub fn leader_http(&self) -> Option<String> {
        self.leader()?.info.map(|info| info.http_address)
    }

    /// The QUIC address of this server as others reach it.
    pub fn local_quic(&self) -> Option<SocketAddr> {
        self.pool.endpoint().local_address().ok()
    }
}

fn leads_in(status: &RaftStatus, term: u64) -> bool {
    status.is_leader() && status.term == term
}
