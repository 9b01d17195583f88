//! Reading a log back from its segments, or making a new one.
//!
//! Every segment must be there, be as long as it was prepared, follow the one before, and end where
//! the next says. Only the end of the newest may be torn, behind the recorded end of the log: that
//! group was not acknowledged, and is cut off. Anything else is damage, and the server does not
//! start: it would vote without what it acknowledged.
//!
//! A log of an earlier release has no recorded end. It must reach its newest snapshot instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::directory::{DirectoryError, Held, failed, hold, read_id_copy, settle_id_copy};
use super::disk::{Disk, DiskFile, Opening};
use super::log_end::{Reached, Recorded};
use super::places::Places;
use super::replay::Replay;
use super::segment::{self, Group, HEADER_BYTES, Header};
use super::segments::{Segments, bytes_min, number_of, path_of};
use super::standing::Standing;
use super::tail::Tail;
use crate::engine::LogId;
use crate::member::ServerId;

/// A log, ready to be used.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) id: ServerId,
    pub(super) directory: PathBuf,
    pub(super) held: Held,
    pub(super) tail: Tail,
    pub(super) places: Places,
    pub(super) segments: Segments,
    /// Whether the log's end was on record.
    pub(super) recorded: bool,
    pub(super) disk: Arc<dyn Disk>,
}

impl Recovered {
    /// Sees that the log was not cut before what the newest snapshot covers. Where its end was on
    /// record that was checked; a log that ends earlier is behind a snapshot it received then.
    pub(crate) fn check_covers(&self, snapshot: Option<LogId>) -> Result<(), DirectoryError> {
        let index = |position: Option<LogId>| position.map(|position| position.index);
        if self.recorded || index(self.tail.last) >= index(snapshot) {
            return Ok(());
        }
        let last = index(self.tail.last)
            .map_or_else(|| "no entry".to_owned(), |last| format!("entry {last}"));
        Err(DirectoryError::Damaged {
            path: self.directory.join("log"),
            reason: format!(
                "it ends with {last}, and the newest snapshot covers the entries up to {}: the log \
                 was cut",
                index(snapshot).unwrap_or_default()
            ),
        })
    }
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
    let recorded = Recorded::read(&**disk, directory)?;
    let recovered = match read(&**disk, &log, &recorded)? {
        Some(found) => found.finish(disk, held, directory)?,
        // The files were made, but the first group was cut off.
        None if named.is_some() => return Err(DirectoryError::LogRemoved { path: id_path }),
        None => create(disk, held, directory)?,
    };
    settle_id_copy(&**disk, directory, &id_path, named, recovered.id)?;
    Ok(recovered)
}

fn create(disk: &Arc<dyn Disk>, held: Held, directory: &Path) -> Result<Recovered, DirectoryError> {
    let log = &directory.join("log");
    let id = ServerId::random();
    let mut standing = Group::default();
    Standing::default().write(&mut standing);
    let segments = Segments::create(disk, log.to_owned(), id, &mut standing);
    let segments = segments.map_err(failed("creating the log in", log))?;
    let mut places = Places::default();
    places.add_segment(segments.number(), segments.file());
    Ok(Recovered {
        id,
        directory: directory.to_owned(),
        held,
        tail: Tail::default(),
        places,
        segments,
        recorded: false,
        disk: Arc::clone(disk),
    })
}

/// What the segments say.
struct Found {
    id: ServerId,
    replay: Replay,
    places: Places,
    newest: Newest,
    recorded: bool,
}

struct Newest {
    number: u64,
    file: Arc<dyn DiskFile>,
    end: u64,
}

/// Reads every segment; `None` = there is no log yet.
fn read(disk: &dyn Disk, log: &Path, recorded: &Recorded) -> Result<Option<Found>, DirectoryError> {
    let mut numbers = list(disk, log)?;
    let Prepared { newest, unused } = set_prepared_aside(disk, log, &mut numbers)?;
    let Some(mut newest_bytes) = newest else {
        remove_unused(disk, log, unused)?;
        return Ok(None);
    };
    let mut reading = Reading::default();
    let mut length_before = None;
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
        check_length(&bytes, length_before).map_err(damaged)?;
        length_before = Some(bytes.len() as u64);
        if is_newest {
            let newest = Newest {
                number,
                file,
                end: end as u64,
            };
            reading.check_recorded(recorded, &newest).map_err(damaged)?;
            mend_end(&*newest.file, &bytes, end).map_err(failed("mending the end of", &path))?;
            reading.newest = Some(newest);
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
    remove_unused(disk, log, unused)?;
    Ok(Some(Found {
        id,
        replay: reading.replay,
        places: reading.places,
        newest,
        recorded: recorded.of(id).is_some(),
    }))
}

/// Sees that a segment is not shorter than it was prepared: its size follows from that of the one
/// before, of which a first segment says how far it was used at least.
fn check_length(bytes: &[u8], length_before: Option<u64>) -> Result<(), String> {
    let used_before = Header::decode(bytes).map_or(0, |header| header.previous_end);
    let least = bytes_min(length_before.unwrap_or(used_before));
    if bytes.len() as u64 >= least {
        return Ok(());
    }
    let length = bytes.len();
    Err(format!(
        "it has {length} bytes and was prepared with {least} at least: it was cut"
    ))
}

/// The newest segment with content, and one behind it that was only prepared.
struct Prepared {
    newest: Option<Vec<u8>>,
    unused: Option<PathBuf>,
}

/// Takes the last segment out of `numbers` if it was only prepared, or was being begun: nothing of
/// it was acknowledged, however much of the preparation a crash left.
fn set_prepared_aside(
    disk: &dyn Disk,
    log: &Path,
    numbers: &mut Vec<u64>,
) -> Result<Prepared, DirectoryError> {
    let content = |number| {
        let path = path_of(log, number);
        let bytes = disk.read(&path).map_err(failed("reading", &path))?;
        let has_content = segment::any_group_from(&bytes, number, HEADER_BYTES);
        Ok(has_content.then_some(bytes))
    };
    let Some(last) = numbers.last().copied() else {
        let (newest, unused) = (None, None);
        return Ok(Prepared { newest, unused });
    };
    let newest = content(last)?;
    if newest.is_some() {
        let unused = None;
        return Ok(Prepared { newest, unused });
    }
    numbers.pop();
    let mut newest = None;
    if let Some(before) = numbers.last().copied() {
        newest = content(before)?;
        if newest.is_none() {
            // The last is made only once this one is in use.
            let (path, reason) = (path_of(log, before), "nothing in it is whole".to_owned());
            return Err(DirectoryError::Damaged { path, reason });
        }
    }
    let unused = Some(path_of(log, last));
    Ok(Prepared { newest, unused })
}

fn remove_unused(
    disk: &dyn Disk,
    log: &Path,
    unused: Option<PathBuf>,
) -> Result<(), DirectoryError> {
    let Some(path) = unused else {
        return Ok(());
    };
    tracing::debug!(path = %path.display(), "removing a segment without content");
    disk.remove(&path).map_err(failed("removing", &path))?;
    disk.sync_directory(log).map_err(failed("syncing", log))
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
            "the last group of the log was incomplete (never acknowledged) and was cut off"
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
        directory: &Path,
    ) -> Result<Recovered, DirectoryError> {
        let log = &directory.join("log");
        let Newest { number, file, end } = self.newest;
        let segments = Segments::resume(disk, log.to_owned(), self.id, number, file, end);
        Ok(Recovered {
            id: self.id,
            directory: directory.to_owned(),
            held,
            tail: self.replay.tail(),
            places: self.places,
            segments: segments.map_err(failed("opening", log))?,
            recorded: self.recorded,
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

    /// Sees that the log reaches as far as it is on record to have reached.
    fn check_recorded(&self, recorded: &Recorded, newest: &Newest) -> Result<(), String> {
        let here = Reached {
            segment: newest.number,
            end: newest.end,
        };
        let Some(reached) = self.server.and_then(|server| recorded.of(server)) else {
            return Ok(());
        };
        if reached <= here {
            return Ok(());
        }
        let Reached { segment, end } = reached;
        Err(format!(
            "the log ends here, at offset {}, and reached offset {end} of segment {segment:016x}: \
             it was cut",
            here.end
        ))
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
