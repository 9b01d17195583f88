//! Snapshots: each whole or not at all.
//!
//! A file is written under a temporary name, synced, renamed, and the directory synced. The two
//! newest are kept: if the newest is damaged, it is set aside and the older one and the log give
//! the same state. The same bytes travel to servers that fell behind.

mod file;
mod hashed;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use self::file::SnapshotFile;
use self::file::write_file;
use super::disk::{Cursor, Disk, DiskFile, Opening};
use crate::engine::{LogId, SnapshotMeta};
use crate::machine::CheckpointSource;

const KEPT: usize = 2;
const SUFFIX: &str = "snapshot";
const TEMPORARY: &str = "tmp";
const DAMAGED: &str = "damaged";

/// A snapshot being received; its file vanishes with it unless it is finished.
#[derive(Debug)]
pub(crate) struct Incoming {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    end: Cursor,
    path: PathBuf,
    kept: bool,
}

impl Incoming {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.end.write_all(bytes)
    }

    /// Verifies what was received; still under its temporary name.
    pub(crate) fn finish(mut self) -> io::Result<SnapshotFile> {
        self.file.sync()?;
        let mut verified = SnapshotFile::verify(&self.disk, &self.path)?;
        self.kept = true;
        verified.temporary = true;
        Ok(verified)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.kept {
            // What stays behind is removed at the next start.
            let _ = self.disk.remove(&self.path);
        }
    }
}

/// The directory of snapshots.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    newest: Mutex<Option<Newest>>,
    next_temporary: AtomicU64,
}

#[derive(Debug, Clone)]
struct Newest {
    last: Option<LogId>,
    path: PathBuf,
}

impl SnapshotStore {
    /// Removes what was left half-written and finds the newest whole snapshot.
    pub(crate) fn open(disk: Arc<dyn Disk>, directory: PathBuf) -> io::Result<Self> {
        disk.make_private(&directory)?;
        for path in disk.list(&directory)? {
            if path
                .extension()
                .is_some_and(|extension| extension == TEMPORARY)
            {
                tracing::info!(path = %path.display(), "removing an unfinished snapshot");
                disk.remove(&path)?;
            }
        }
        let store = Self {
            disk,
            directory,
            newest: Mutex::default(),
            next_temporary: AtomicU64::new(0),
        };
        for path in store.list()?.into_iter().rev() {
            match SnapshotFile::verify(&store.disk, &path) {
                Ok(found) => {
                    store.set_newest(found.meta.last_log_id, path);
                    break;
                }
                Err(error) => {
                    tracing::error!(path = %path.display(), %error, "a snapshot is damaged, set aside");
                    store.disk.rename(&path, &path.with_extension(DAMAGED))?;
                }
            }
        }
        store.disk.sync_directory(&store.directory)?;
        Ok(store)
    }

    /// Writes a checkpoint out and makes it the newest snapshot. Blocking.
    pub(crate) fn write(
        &self,
        meta: &SnapshotMeta,
        source: &dyn CheckpointSource,
    ) -> io::Result<SnapshotFile> {
        let incoming = self.receive()?;
        write_file(&incoming.file, meta, source)?;
        self.adopt(incoming.finish()?)
    }

    /// Starts receiving a snapshot.
    pub(crate) fn receive(&self) -> io::Result<Incoming> {
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("{number}.{TEMPORARY}"));
        let file = self.disk.open(&path, Opening::New)?;
        Ok(Incoming {
            disk: Arc::clone(&self.disk),
            end: Cursor::new(Arc::clone(&file)),
            file,
            path,
            kept: false,
        })
    }

    /// Gives a verified snapshot its name, makes it the newest, and removes what is too old.
    pub(crate) fn adopt(&self, mut snapshot: SnapshotFile) -> io::Result<SnapshotFile> {
        let last = snapshot.meta.last_log_id;
        let path = self.directory.join(file_name(last));
        // At a restart the newest snapshot is installed from where it is.
        if snapshot.path == path {
            return Ok(snapshot);
        }
        // Somebody else's file is left where it is.
        if !snapshot.temporary {
            let mut incoming = self.receive()?;
            io::copy(&mut snapshot.whole(), &mut incoming.end)?;
            return self.adopt(incoming.finish()?);
        }
        self.disk.rename(&snapshot.path, &path)?;
        snapshot.temporary = false;
        snapshot.path.clone_from(&path);
        self.disk.sync_directory(&self.directory)?;
        // A slow build must not hide a newer snapshot that was installed meanwhile.
        let is_newest = self.newest().is_none_or(|newest| newest.last <= last);
        if is_newest {
            self.set_newest(last, path);
        }
        self.prune()?;
        Ok(snapshot)
    }

    /// What the newest snapshot covers; `None` = there is none.
    pub(crate) fn newest_position(&self) -> Option<LogId> {
        self.newest().and_then(|newest| newest.last)
    }

    /// Opens the newest snapshot, if there is one.
    pub(crate) fn current(&self) -> io::Result<Option<SnapshotFile>> {
        self.newest()
            .map(|newest| SnapshotFile::verify(&self.disk, &newest.path))
            .transpose()
    }

    fn prune(&self) -> io::Result<()> {
        let paths = self.list()?;
        let surplus = paths.len().saturating_sub(KEPT);
        for path in &paths[..surplus] {
            self.disk.remove(path)?;
        }
        Ok(())
    }

    /// The snapshots, oldest first: their names sort as their positions do.
    fn list(&self) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for path in self.disk.list(&self.directory)? {
            if path
                .extension()
                .is_some_and(|extension| extension == SUFFIX)
            {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn newest(&self) -> Option<Newest> {
        self.newest.lock().clone()
    }

    fn set_newest(&self, last: Option<LogId>, path: PathBuf) {
        *self.newest.lock() = Some(Newest { last, path });
    }
}

fn file_name(last: Option<LogId>) -> String {
    let (term, index) = last.map_or((0, 0), |log_id| (*log_id.leader_id, log_id.index));
    format!("{term:020}-{index:020}.{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    use super::*;
    use crate::store::host_disk::HostDisk;

    fn host() -> Arc<dyn Disk> {
        Arc::new(HostDisk)
    }

    struct Text(&'static str);

    impl CheckpointSource for Text {
        fn write_to(&self, sink: &mut dyn Write) -> io::Result<()> {
            sink.write_all(self.0.as_bytes())
        }
    }

    fn meta(index: u64) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: Some(LogId::new_term_index(1, index)),
            ..SnapshotMeta::default()
        }
    }

    fn store(directory: &Path) -> SnapshotStore {
        SnapshotStore::open(host(), directory.to_owned()).expect("opens")
    }

    fn text(snapshot: &mut SnapshotFile) -> String {
        io::read_to_string(snapshot.checkpoint().expect("seeks")).expect("reads")
    }

    #[test]
    fn a_snapshot_reads_back_after_a_restart() {
        let directory = tempfile::tempdir().expect("a directory");
        store(directory.path())
            .write(&meta(5), &Text("five"))
            .expect("writes");
        let mut found = store(directory.path())
            .current()
            .expect("reads")
            .expect("there is a snapshot");
        assert_eq!(found.meta, meta(5));
        assert_eq!(text(&mut found), "five");
    }

    #[test]
    fn the_two_newest_are_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store(directory.path());
        for index in 1..=4 {
            store.write(&meta(index), &Text("text")).expect("writes");
        }
        let names = [
            file_name(meta(3).last_log_id),
            file_name(meta(4).last_log_id),
        ];
        assert_eq!(
            store.list().expect("lists"),
            names.map(|name| directory.path().join(name))
        );
    }

    #[test]
    fn a_truncated_newest_snapshot_gives_way_to_the_older() {
        let directory = tempfile::tempdir().expect("a directory");
        {
            let store = store(directory.path());
            store.write(&meta(1), &Text("one")).expect("writes");
            store.write(&meta(2), &Text("two")).expect("writes");
        }
        let newest = directory.path().join(file_name(meta(2).last_log_id));
        let whole = fs::read(&newest).expect("reads");
        for length in 0..whole.len() {
            fs::write(&newest, &whole[..length]).expect("writes");
            let mut found = store(directory.path())
                .current()
                .expect("reads")
                .expect("the older");
            assert_eq!(text(&mut found), "one", "cut to {length} bytes");
        }
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        store(directory.path())
            .write(&meta(1), &Text("one"))
            .expect("writes");
        let path = directory.path().join(file_name(meta(1).last_log_id));
        let whole = fs::read(&path).expect("reads");
        for position in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[position] ^= 1;
            fs::write(&path, bytes).expect("writes");
            assert!(
                SnapshotFile::verify(&host(), &path).is_err(),
                "bit in byte {position}"
            );
        }
    }

    #[test]
    fn what_was_left_half_written_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store(directory.path());
        let mut incoming = store.receive().expect("creates");
        incoming.write(b"half").expect("writes");
        let path = incoming.path.clone();
        std::mem::forget(incoming);
        assert!(path.exists());
        super::SnapshotStore::open(host(), directory.path().to_owned()).expect("opens");
        assert!(!path.exists());
    }

    #[test]
    fn a_dropped_reception_leaves_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store(directory.path());
        let path = store.receive().expect("creates").path.clone();
        assert!(!path.exists());
        assert!(store.current().expect("reads").is_none());
    }
}
