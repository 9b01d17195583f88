//! Reading a log back from its segments, or making a new one.
//!
//! Every segment must be there, follow the one before, and end where the next says. Only the end of
//! the newest may be torn: that group was not acknowledged, and is cut off. Anything else that
//! cannot be read is damage, and the server does not start: it would vote without what it
//! acknowledged.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::directory::{DirectoryError, Held, failed, hold, read_id_copy, settle_id_copy};
use super::disk::{Disk, DiskFile, Opening};
use super::places::Places;
use super::replay::Replay;
use super::segment::{self, Group, HEADER_BYTES, Header};
use super::segments::{Segments, number_of, path_of};
use super::standing::Standing;
use super::tail::Tail;
use crate::member::ServerId;

/// A log, ready to be used.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) id: ServerId,
    pub(super) held: Held,
    pub(super) tail: Tail,
    pub(super) places: Places,
    pub(super) segments: Segments,
    pub(super) disk: Arc<dyn Disk>,
}

/// Opens the log in `directory`, or makes one. Blocking.
///
/// # Errors
/// See [`DirectoryError`].
pub(crate) fn open(disk: &Arc<dyn Disk>, directory: &Path) -> Result<Recovered, DirectoryError> {
    let held = hold(&**disk, directory)?;
    let old = directory.join("log.redb");
    if disk.exists(&old) {
        return Err(DirectoryError::OldLayout { path: old });
    }
    let id_path = directory.join("server-id");
    let named = read_id_copy(&**disk, &id_path)?;
    let log = directory.join("log");
    disk.make_private(&log).map_err(failed("preparing", &log))?;
    let syncing = failed("syncing", directory);
    disk.sync_directory(directory).map_err(syncing)?;
    let recovered = match read(&**disk, &log)? {
        Some(found) => found.finish(disk, held, &log)?,
        // The files were made, but the first group was cut off.
        None if named.is_some() => return Err(DirectoryError::LogRemoved { path: id_path }),
        None => create(disk, held, &log)?,
    };
    settle_id_copy(&**disk, directory, &id_path, named, recovered.id)?;
    Ok(recovered)
}

fn create(disk: &Arc<dyn Disk>, held: Held, log: &Path) -> Result<Recovered, DirectoryError> {
    let id = ServerId::random();
    let mut standing = Group::default();
    Standing::default().write(&mut standing);
    let segments = Segments::create(disk, log.to_owned(), id, &mut standing);
    let segments = segments.map_err(failed("creating the log in", log))?;
    let mut places = Places::default();
    places.add_segment(segments.number(), segments.file());
    Ok(Recovered {
        id,
        held,
        tail: Tail::default(),
        places,
        segments,
        disk: Arc::clone(disk),
    })
}

/// What the segments say.
struct Found {
    id: ServerId,
    replay: Replay,
    places: Places,
    newest: Newest,
}

struct Newest {
    number: u64,
    file: Arc<dyn DiskFile>,
    end: u64,
}

/// Reads every segment; `None` = there is no log yet.
fn read(disk: &dyn Disk, log: &Path) -> Result<Option<Found>, DirectoryError> {
    let mut numbers = list(disk, log)?;
    let Some(mut newest_bytes) = drop_prepared(disk, log, &mut numbers)? else {
        return Ok(None);
    };
    let mut reading = Reading::default();
    for (at, number) in numbers.iter().copied().enumerate() {
        let path = path_of(log, number);
        let is_newest = at + 1 == numbers.len();
        let bytes = if is_newest {
            Bytes::from(std::mem::take(&mut newest_bytes))
        } else {
            disk.read(&path).map_err(failed("reading", &path))?.into()
        };
        let damaged = |reason| DirectoryError::Damaged {
            path: path.clone(),
            reason,
        };
        let file = disk.open(&path, Opening::Existing);
        let file = file.map_err(failed("opening", &path))?;
        reading.places.add_segment(number, Arc::clone(&file));
        let end = reading.segment(number, &bytes).map_err(damaged)?;
        if is_newest {
            mend_end(&*file, &bytes, end).map_err(failed("mending the end of", &path))?;
            reading.newest = Some(Newest {
                number,
                file,
                end: end as u64,
            });
        }
    }
    let (Some(id), Some(newest)) = (reading.server, reading.newest) else {
        return Ok(None);
    };
    let damaged = |reason| DirectoryError::Damaged {
        path: log.to_owned(),
        reason,
    };
    reading.replay.check(&reading.places).map_err(damaged)?;
    Ok(Some(Found {
        id,
        replay: reading.replay,
        places: reading.places,
        newest,
    }))
}

/// Removes the last segment if it was only prepared, or was being begun: nothing of it was
/// acknowledged. Returns the content of the newest that is left.
fn drop_prepared(
    disk: &dyn Disk,
    log: &Path,
    numbers: &mut Vec<u64>,
) -> Result<Option<Vec<u8>>, DirectoryError> {
    let content = |number| {
        let path = path_of(log, number);
        let bytes = disk.read(&path).map_err(failed("reading", &path))?;
        let has_content = segment::any_group_from(&bytes, number, HEADER_BYTES);
        Ok(has_content.then_some(bytes))
    };
    let Some(last) = numbers.last().copied() else {
        return Ok(None);
    };
    if let Some(bytes) = content(last)? {
        return Ok(Some(bytes));
    }
    numbers.pop();
    let mut newest_bytes = None;
    if let Some(before) = numbers.last().copied() {
        newest_bytes = content(before)?;
        if newest_bytes.is_none() {
            // The last is made only once this one is in use.
            let (path, reason) = (path_of(log, before), "nothing in it is whole".to_owned());
            return Err(DirectoryError::Damaged { path, reason });
        }
    }
    let path = path_of(log, last);
    tracing::debug!(path = %path.display(), "removing a segment without content");
    disk.remove(&path).map_err(failed("removing", &path))?;
    disk.sync_directory(log).map_err(failed("syncing", log))?;
    Ok(newest_bytes)
}

fn list(disk: &dyn Disk, log: &Path) -> Result<Vec<u64>, DirectoryError> {
    let paths = disk.list(log).map_err(failed("listing", log))?;
    let mut numbers: Vec<u64> = paths.iter().filter_map(|path| number_of(path)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Clears what is behind the last whole group, and writes what is whole once more: a sync that
/// failed before may have left it in memory only.
fn mend_end(file: &dyn DiskFile, bytes: &[u8], end: usize) -> std::io::Result<()> {
    if bytes[end..].iter().any(|byte| *byte != 0) {
        tracing::warn!(
            offset = end,
            "the log ended in a torn group, which is cut off"
        );
        file.write_at(&vec![0; bytes.len() - end], end as u64)?;
    }
    file.write_at(&bytes[..end], 0)?;
    file.sync()
}

impl Found {
    fn finish(
        self,
        disk: &Arc<dyn Disk>,
        held: Held,
        log: &Path,
    ) -> Result<Recovered, DirectoryError> {
        let Newest { number, file, end } = self.newest;
        let segments = Segments::resume(disk, log.to_owned(), self.id, number, file, end);
        Ok(Recovered {
            id: self.id,
            held,
            tail: self.replay.tail(),
            places: self.places,
            segments: segments.map_err(failed("opening", log))?,
            disk: Arc::clone(disk),
        })
    }
}

/// What one segment of a log holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentContent {
    /// Entries that are in it and were neither taken back nor removed within it.
    pub entries: usize,
    /// Where its last whole group ends, in bytes.
    pub end: usize,
}

/// Reads a segment on its own, as a start does: for who looks at a log without using it.
///
/// # Errors
/// Why it is damaged.
pub fn inspect_segment(number: u64, bytes: &Bytes) -> Result<SegmentContent, String> {
    let mut reading = Reading::default();
    let end = reading.segment(number, bytes)?;
    let entries = reading.places.len();
    Ok(SegmentContent { entries, end })
}

/// The segments read so far.
#[derive(Default)]
struct Reading {
    server: Option<ServerId>,
    /// The last segment's number, and where it ended.
    last: Option<(u64, usize)>,
    replay: Replay,
    places: Places,
    newest: Option<Newest>,
}

impl Reading {
    /// Takes the next segment; returns where its last whole group ends.
    fn segment(&mut self, number: u64, bytes: &Bytes) -> Result<usize, String> {
        let header = Header::decode(bytes).ok_or("its header is damaged")?;
        if header.number != number {
            return Err(format!("it is segment {:016x}", header.number));
        }
        let server = *self.server.get_or_insert(header.server);
        if server != header.server {
            let found = header.server;
            return Err(format!("it belongs to server {found}, others to {server}"));
        }
        if let Some((last, end)) = self.last {
            if last + 1 != number {
                return Err(format!("segment {:016x} before it is missing", number - 1));
            }
            if header.previous_end != end as u64 {
                return Err(format!(
                    "the segment before it is damaged at offset {end}: it should end at {}",
                    header.previous_end
                ));
            }
        }
        let mut end = HEADER_BYTES;
        while let Some(body) = segment::group_at(bytes, number, end) {
            self.replay
                .group(number, end, body, bytes, &mut self.places)?;
            end = segment::group_end(end, body);
        }
        if segment::any_group_from(bytes, number, end) {
            return Err(format!("it is damaged at offset {end}"));
        }
        self.last = Some((number, end));
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::host_disk::HostDisk;

    fn open(directory: &Path) -> Result<Recovered, DirectoryError> {
        super::open(&(Arc::new(HostDisk) as Arc<dyn Disk>), directory)
    }

    #[test]
    fn a_directory_keeps_its_id() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = open(directory.path()).expect("opens").id;
        assert_eq!(open(directory.path()).expect("opens again").id, first);
        let other = tempfile::tempdir().expect("a directory");
        assert_ne!(open(other.path()).expect("opens").id, first);
    }

    #[test]
    fn what_is_made_is_for_its_owner_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("raft");
        fs::create_dir(&path).expect("is made");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is set");
        drop(open(&path).expect("opens"));
        let mode = |path: &Path| path.metadata().expect("metadata").permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join("log")), 0o700);
        assert_eq!(mode(&path_of(&path.join("log"), 1)), 0o600);
        assert_eq!(mode(&path.join("server-id")), 0o600);
    }

    #[test]
    fn a_lost_copy_of_the_id_is_written_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let id = open(directory.path()).expect("opens").id;
        let copy = directory.path().join("server-id");
        fs::remove_file(&copy).expect("removes");
        assert_eq!(open(directory.path()).expect("opens").id, id);
        assert_eq!(
            fs::read_to_string(copy).expect("reads").trim(),
            id.to_string()
        );
    }

    #[test]
    fn an_id_without_its_log_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        open(directory.path()).expect("opens");
        fs::remove_dir_all(directory.path().join("log")).expect("removes");
        let error = open(directory.path()).expect_err("must refuse");
        assert!(
            matches!(error, DirectoryError::LogRemoved { .. }),
            "{error:?}"
        );
    }

    #[test]
    fn the_id_of_another_server_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        open(directory.path()).expect("opens");
        fs::write(directory.path().join("server-id"), "00000000000000aa\n").expect("writes");
        let error = open(directory.path()).expect_err("must refuse");
        assert!(
            matches!(error, DirectoryError::OtherServer { .. }),
            "{error:?}"
        );
    }

    #[test]
    fn a_directory_in_use_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let _holder = open(directory.path()).expect("opens");
        let error = open(directory.path()).expect_err("must refuse");
        assert!(matches!(error, DirectoryError::InUse { .. }), "{error:?}");
    }
}
