//! The machine, as the consensus library drives it: apply, checkpoint, restore.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use protocol_error_chain::chain;

use super::log::LogFlusher;
use super::snapshot::{SnapshotFile, SnapshotStore};
use crate::engine::{Command, Entry, LogId, Response, SnapshotMeta, StoredMembership, TypeConfig};
use crate::machine::{CheckpointSource, Machine, Position};

/// Until a snapshot for which there was no room is tried again.
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// The nice value of what nobody waits for: a tenth of the time of everything else where processors
/// are short, so that it still ends.
const ASIDE: i32 = 10;

type SharedMachine = Arc<Mutex<Box<dyn Machine>>>;

/// Owns the machine. The lock is only ever contended by a restore, which the library orders
/// against everything else.
pub(crate) struct MachineAdapter {
    machine: SharedMachine,
    snapshots: Arc<SnapshotStore>,
    log: LogFlusher,
    applied: Option<LogId>,
    membership: StoredMembership,
}

impl std::fmt::Debug for MachineAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MachineAdapter")
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}

impl MachineAdapter {
    pub(crate) fn new(
        machine: Box<dyn Machine>,
        snapshots: Arc<SnapshotStore>,
        log: LogFlusher,
    ) -> Self {
        Self {
            machine: Arc::new(Mutex::new(machine)),
            snapshots,
            log,
            applied: None,
            membership: StoredMembership::default(),
        }
    }

    /// The newest entry given to the machine.
    pub(crate) fn applied(&self) -> Option<LogId> {
        self.applied
    }

    fn apply_entry(&mut self, entry: &Entry) -> io::Result<Response> {
        let position = position(entry.log_id);
        let machine = Arc::clone(&self.machine);
        // A half-applied entry must stop the server, not only this task.
        let applied = catch_unwind(AssertUnwindSafe(|| {
            let mut machine = machine.lock();
            match &entry.payload {
                EntryPayload::Normal(Command(bytes)) => machine.apply(position, bytes),
                EntryPayload::Blank | EntryPayload::Membership(_) => {
                    // Index 0 is where the log was born; to a machine it means "nothing yet".
                    if position.index > 0 {
                        machine.advance(position);
                    }
                    Ok(Vec::new())
                }
            }
        }));
        let response = applied
            .map_err(|_| {
                io::Error::other(format!("the machine panicked at index {}", position.index))
            })?
            .map_err(|error| {
                let text = format!("entry {}: {}", position.index, chain(&*error));
                io::Error::new(io::ErrorKind::InvalidData, text)
            })?;
        if let EntryPayload::Membership(membership) = &entry.payload {
            self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
        }
        self.applied = Some(entry.log_id);
        Ok(Response(response))
    }
}

impl RaftStateMachine<TypeConfig> for MachineAdapter {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let response = self.apply_entry(&entry)?;
            if let Some(responder) = responder {
                responder.send(response);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        Builder {
            meta: SnapshotMeta {
                last_log_id: self.applied,
                last_membership: self.membership.clone(),
            },
            source: self.machine.lock().checkpoint().into(),
            snapshots: Arc::clone(&self.snapshots),
            log: self.log.clone(),
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        mut snapshot: SnapshotFile,
    ) -> Result<(), io::Error> {
        let Some(last) = meta.last_log_id else {
            return Ok(());
        };
        let machine = Arc::clone(&self.machine);
        let snapshots = Arc::clone(&self.snapshots);
        // In memory first: if the machine refuses it, the disk keeps what can be replayed.
        blocking(move || {
            machine
                .lock()
                .restore(&mut snapshot.checkpoint()?, position(last))
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            snapshots.adopt(snapshot).map(drop)
        })
        .await?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<openraft::alias::SmSnapshotOf<TypeConfig, Self>>, io::Error> {
        let snapshots = Arc::clone(&self.snapshots);
        let found = blocking(move || snapshots.current()).await?;
        Ok(found.map(|snapshot| Snapshot {
            meta: snapshot.meta.clone(),
            snapshot,
        }))
    }
}

/// A captured state, to be written out beside the applying of further commands.
pub(crate) struct Builder {
    meta: SnapshotMeta,
    source: Arc<dyn CheckpointSource>,
    snapshots: Arc<SnapshotStore>,
    log: LogFlusher,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(
        &mut self,
    ) -> Result<openraft::alias::SnapshotOf<TypeConfig, SnapshotFile>, io::Error> {
        // A log that ends before this snapshot will have been cut: its recorded end says so.
        self.log.flush().await?;
        let mut waits = false;
        loop {
            let (meta, source) = (self.meta.clone(), Arc::clone(&self.source));
            let snapshots = Arc::clone(&self.snapshots);
            match blocking(move || aside(|| snapshots.write(&meta, &*source))).await {
                Ok(snapshot) => {
                    return Ok(Snapshot {
                        meta: snapshot.meta.clone(),
                        snapshot,
                    });
                }
                // To the library any failure is the end of the server, but nothing depends on this
                // file: the log has it all, and is not shortened before there is a newer snapshot.
                Err(error) if is_full(&error) => {
                    if !waits {
                        tracing::error!(
                            error = chain(&error),
                            "no room for a snapshot of the state: it waits until there is, and the \
                             log on disk grows"
                        );
                    }
                    waits = true;
                    tokio::time::sleep(ROOM_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether an error comes from a full disk, however wrapped it is.
fn is_full(error: &io::Error) -> bool {
    let full = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        )
    };
    let inner = error.get_ref().map(|inner| inner as &dyn std::error::Error);
    let causes = std::iter::successors(inner, |error| error.source());
    let mut causes = causes.filter_map(|error| error.downcast_ref::<io::Error>());
    full(error) || causes.any(full)
}

fn position(log_id: LogId) -> Position {
    Position {
        term: *log_id.leader_id,
        index: log_id.index,
    }
}

/// Does what takes seconds of a processor on a thread that steps back: every server of a cluster
/// writes its snapshot at about the same entry, and nobody waits for it. (A thread of a pool could
/// not be raised again without privileges.)
fn aside<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        let working = thread.spawn_scoped(scope, || {
            // Each thread has a value of its own (setpriority(2), "C library/kernel differences").
            if let Err(error) = rustix::process::setpriority_process(None, ASIDE) {
                tracing::debug!(%error, "the snapshot takes as much time as everything else");
            }
            work()
        })?;
        let worked = working.join();
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests {
    use openraft::StorageError;
    use openraft::testing::log::{StoreBuilder, Suite};
    use tempfile::TempDir;

    use super::*;
    use crate::machine::{ApplyError, RestoreError};
    use crate::store::host_disk::HostDisk;
    use crate::store::log::LogStore;
    use crate::store::recovery;

    struct Nothing;

    /// Finds the disk full for the first two times, as deep in its causes as the state tells it.
    #[derive(Default)]
    struct Bulky {
        tries: std::sync::atomic::AtomicUsize,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the checkpoint cannot be written")]
    struct Unwritten(#[source] io::Error);

    impl CheckpointSource for Bulky {
        fn write_to(&self, sink: &mut dyn io::Write) -> io::Result<()> {
            sink.write_all(b"state")?;
            match self
                .tries
                .fetch_add(1, std::sync::atomic::Ordering::Relaxed)
            {
                0 | 1 => {
                    let full = io::Error::from(io::ErrorKind::StorageFull);
                    Err(io::Error::other(Unwritten(full)))
                }
                _ => Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn a_snapshot_for_which_there_is_no_room_waits_for_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let snapshots = SnapshotStore::open(Arc::new(HostDisk), directory.path().join("snapshots"))
            .expect("opens");
        let recovered = recovery::open(&(Arc::new(HostDisk) as _), directory.path());
        let log = LogStore::start(recovered.expect("opens")).expect("starts");
        let mut builder = Builder {
            meta: SnapshotMeta::default(),
            source: Arc::new(Bulky::default()),
            snapshots: Arc::new(snapshots),
            log: log.flusher(),
        };
        let built = builder
            .build_snapshot()
            .await
            .expect("is written in the end");
        assert_eq!(built.snapshot.checkpoint_bytes(), 5);
        let files = std::fs::read_dir(directory.path().join("snapshots")).expect("is there");
        assert_eq!(files.count(), 1, "nothing half-written is left");
    }

    impl Machine for Nothing {
        fn apply(&mut self, _: Position, _: &[u8]) -> Result<Vec<u8>, ApplyError> {
            Ok(Vec::new())
        }

        fn advance(&mut self, _position: Position) {}

        fn checkpoint(&self) -> Box<dyn CheckpointSource> {
            Box::new(Self)
        }

        fn restore(&mut self, _: &mut dyn io::Read, _: Position) -> Result<(), RestoreError> {
            Ok(())
        }
    }

    impl CheckpointSource for Nothing {
        fn write_to(&self, _sink: &mut dyn io::Write) -> io::Result<()> {
            Ok(())
        }
    }

    struct Stores;

    impl StoreBuilder<TypeConfig, LogStore, MachineAdapter, TempDir> for Stores {
        async fn build(
            &self,
        ) -> Result<(TempDir, LogStore, MachineAdapter), StorageError<TypeConfig>> {
            let directory = tempfile::tempdir().expect("a directory");
            let recovered =
                recovery::open(&(Arc::new(HostDisk) as _), directory.path()).expect("opens");
            let log = LogStore::start(recovered).expect("starts");
            let snapshots =
                SnapshotStore::open(Arc::new(HostDisk), directory.path().join("snapshots"))
                    .expect("opens");
            let machine =
                MachineAdapter::new(Box::new(Nothing), Arc::new(snapshots), log.flusher());
            Ok((directory, log, machine))
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_store_passes_the_library_suite() {
        Suite::test_all(Stores).await.expect("the suite passes");
    }
}
