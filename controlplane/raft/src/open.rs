//! Starting a server's part in the log: files first, then the driver, then who answers peers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use parking_lot::Mutex;
use protocol_transport::Pool;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::compaction;
use crate::config::{ConfigError, RaftConfig};
use crate::engine::{Core, Fatal};
use crate::error::StoppedError;
use crate::formation::{Formation, Parts};
use crate::machine::Machine;
use crate::member::{ServerId, ServerInfo};
use crate::members::Members;
use crate::network::addresses::Addresses;
use crate::network::client::{Caller, Clients};
use crate::network::reach::Reach;
use crate::network::server::{Service, ServiceParts};
use crate::split_vote;
use crate::status::{RaftRole, RaftStatus};
use crate::store::directory::DirectoryError;
use crate::store::disk::Disk;
use crate::store::log::LogStore;
use crate::store::machine::MachineAdapter;
use crate::store::recovery;
use crate::store::snapshot::SnapshotStore;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the settings cannot work")]
    Config(#[source] ConfigError),
    #[error("opening the log")]
    Log(#[source] DirectoryError),
    #[error("starting the log's writer")]
    Writer(#[source] std::io::Error),
    #[error("opening the snapshots in {path}")]
    Snapshots {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("reading the promise to a cluster in {path}")]
    Promise {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("restoring the state from disk")]
    Restore(#[source] StoppedError),
}

/// What a [`crate::Raft`] shares.
pub(crate) struct Inner {
    pub(crate) config: RaftConfig,
    pub(crate) own_id: ServerId,
    pub(crate) core: Core,
    pub(crate) caller: Caller,
    pub(crate) members: Arc<Members>,
    pub(crate) formation: Formation,
    pub(crate) service: Service,
    pub(crate) snapshots: Arc<SnapshotStore>,
    pub(crate) status: watch::Receiver<RaftStatus>,
    pub(crate) standing: watch::Receiver<RaftStatus>,
    pub(crate) proposals: Semaphore,
    /// Taken at shutdown, to write the committed index a last time.
    pub(crate) log: Mutex<Option<LogStore>>,
    /// Whether the cluster goes on without this server.
    pub(crate) removed: AtomicBool,
    /// Ends when the log's file is closed.
    pub(crate) closed: watch::Receiver<()>,
}

/// Opens everything. See [`crate::Raft::open`].
pub(crate) async fn open(
    config: RaftConfig,
    disk: Arc<dyn Disk>,
    directory: &Path,
    machine: Box<dyn Machine>,
    pool: Pool,
    own_info: ServerInfo,
) -> Result<Inner, OpenError> {
    let library_config = Arc::new(config.build().map_err(OpenError::Config)?);
    let files = open_files(&disk, directory)?;
    let (own_id, log, snapshots) = (files.own_id, files.log, files.snapshots);
    let region = pool.endpoint().region().clone();
    let caller = Caller::new(pool, own_id.as_u64());
    let addresses = Addresses::default();
    let clients = Clients {
        caller: caller.clone(),
        addresses: addresses.clone(),
        append_limit: config.append,
        reach: Reach::default(),
    };
    let machine = MachineAdapter::new(machine, Arc::clone(&snapshots), log.flusher());
    let core = Core::build(
        own_id.as_u64(),
        library_config,
        clients,
        log.clone(),
        machine,
    );
    let core = core.await.map_err(|fatal| restore_error(&fatal))?;
    let votes_from = begin(&core, own_id, log.has_voted(), config.election_max).await?;
    let (status, standing) = look_after(&core, addresses, &log, &config, votes_from);
    let members = Arc::new(Members {
        core: core.clone(),
        caller: caller.clone(),
        own_id,
        status: status.clone(),
        patience: config.patience,
    });
    let formation = Formation::open(Parts {
        core: core.clone(),
        caller: caller.clone(),
        own_id,
        own_info,
        status: status.clone(),
        disk,
        directory: directory.to_owned(),
        admission: Arc::clone(&members) as _,
    })
    .map_err(|source| promise_error(directory, source))?;
    let service = Service::new(ServiceParts {
        core: core.clone(),
        own_id: own_id.as_u64(),
        region,
        snapshots: Arc::clone(&snapshots),
        snapshot_bytes_max: config.snapshot_bytes_max,
        formation: formation.clone(),
        votes_from,
    });
    Ok(Inner {
        proposals: Semaphore::new(config.proposals_max.min(Semaphore::MAX_PERMITS)),
        config,
        own_id,
        core,
        caller,
        members,
        formation,
        service,
        snapshots,
        status,
        standing,
        removed: AtomicBool::new(false),
        closed: log.closed(),
        log: Mutex::new(Some(log)),
    })
}

fn promise_error(directory: &Path, source: std::io::Error) -> OpenError {
    OpenError::Promise {
        path: directory.join("formation"),
        source,
    }
}

fn restore_error(fatal: &Fatal) -> OpenError {
    OpenError::Restore(StoppedError::from_fatal(fatal))
}

/// What is on disk, opened.
struct Files {
    own_id: ServerId,
    log: LogStore,
    snapshots: Arc<SnapshotStore>,
}

fn open_files(disk: &Arc<dyn Disk>, directory: &Path) -> Result<Files, OpenError> {
    let recovered = recovery::open(disk, directory).map_err(OpenError::Log)?;
    let own_id = recovered.id;
    let path = directory.join("snapshots");
    let snapshots = SnapshotStore::open(Arc::clone(disk), path.clone())
        .map_err(|source| OpenError::Snapshots { path, source })?;
    let covered = snapshots.newest_position();
    recovered.check_covers(covered).map_err(OpenError::Log)?;
    let log = LogStore::start(recovered).map_err(OpenError::Writer)?;
    Ok(Files {
        own_id,
        log,
        snapshots: Arc::new(snapshots),
    })
}

/// Starts the log's driver and says from when on votes may be given.
///
/// A leader counts on its followers' silence for one `lease` after they acknowledged it, and a
/// restart makes them forget. So a server that voted before neither votes nor stands for election
/// during the first `lease`, unless it is the only voter.
async fn begin(
    core: &Core,
    own_id: ServerId,
    restarted: bool,
    lease: Duration,
) -> Result<Instant, OpenError> {
    let now = Instant::now();
    if !restarted {
        core.run();
        return Ok(now);
    }
    core.runtime_config().elect(false);
    core.run();
    let voters: Vec<u64> = core
        .with_raft_state(|state| state.membership_state.effective().voter_ids().collect())
        .await
        .map_err(|fatal| restore_error(&fatal))?;
    if !voters.is_empty() {
        // What is told about the membership from now on is what was read from disk.
        let mut metrics = core.metrics();
        while metrics
            .borrow_watched()
            .membership_config
            .log_id()
            .is_none()
        {
            if metrics.changed().await.is_err() {
                return Err(OpenError::Restore(StoppedError::ShutDown));
            }
        }
    }
    if voters == [own_id.as_u64()] {
        core.runtime_config().elect(true);
        if let Err(error) = core.trigger().elect(false).await {
            tracing::warn!(
                %error,
                "the single voter was not elected at once; the election timeout starts another election"
            );
        }
        return Ok(now);
    }
    let core = core.clone();
    tokio::spawn(async move {
        tokio::time::sleep_until(now + lease).await;
        core.runtime_config().elect(true);
    });
    Ok(now + lease)
}

/// Follows the log's state, keeps the log short, and has split votes repeated in turn, for as long
/// as it runs.
fn look_after(
    core: &Core,
    addresses: Addresses,
    log: &LogStore,
    config: &RaftConfig,
    votes_from: Instant,
) -> (watch::Receiver<RaftStatus>, watch::Receiver<RaftStatus>) {
    let (status, standing) = follow_status(core, addresses);
    let appended = log.appended();
    let bytes_max = config.snapshot_bytes;
    let compaction = compaction::run(core.clone(), appended, bytes_max, status.clone());
    tokio::spawn(compaction);
    let shortest = config.election_min;
    let again = core.clone();
    // It asks first whether it would be elected.
    let stand = async move || again.trigger().elect(true).await.is_ok();
    let turns = split_vote::run(stand, standing.clone(), shortest, votes_from);
    tokio::spawn(turns);
    (status, standing)
}

/// Translates the library's metrics for as long as it runs: all of them, and those that do not
/// only say that the log grew.
fn follow_status(
    core: &Core,
    addresses: Addresses,
) -> (watch::Receiver<RaftStatus>, watch::Receiver<RaftStatus>) {
    let mut metrics = core.metrics();
    let first = RaftStatus::of(&metrics.borrow_watched());
    addresses.learn(&first.membership);
    let (of_standing, standing) = watch::channel(first.clone());
    let (of_status, status) = watch::channel(first);
    tokio::spawn(async move {
        while metrics.changed().await.is_ok() {
            let next = RaftStatus::of(&metrics.borrow_watched());
            if !of_standing.borrow().stands_as(&next) {
                addresses.learn(&next.membership);
                of_standing.send_replace(next.clone());
            }
            of_status.send_if_modified(|status| {
                let changed = *status != next;
                *status = next;
                changed
            });
        }
        for sender in [of_standing, of_status] {
            sender.send_modify(|status| {
                status.failure.get_or_insert(StoppedError::ShutDown);
                status.role = RaftRole::Stopped;
            });
        }
    });
    (status, standing)
}
