//! How far the log reached, recorded beside it. A log that was cut at its end looks like one whose
//! last groups were never written; only something outside of it can tell the two apart.
//!
//! ```text
//!   log-end   slot 0 | slot 1     each in a sector of its own
//!   slot      magic 8 | server u64 | segment u64 | end u64 | zero u32 | CRC-32 u32
//! ```
//!
//! Numbers are big-endian. A slot is written once the log is durable up to the place that it names,
//! so a log that ends before either of them was cut.
//!
//! - Slot 1 is written after every group and not synced, which costs no wait. It survives the
//!   process, and after half a minute or so the host.
//! - Slot 0 is synced: at a start, where a segment begins, before a snapshot, at shutdown.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{DirectoryError, failed};
use super::disk::{Disk, DiskFile, Opening};
use super::segment::u64_at;
use crate::member::ServerId;

/// Begins every slot; the digits are the version of this layout.
const MAGIC: &[u8; 8] = b"drvlend1";
const SLOT_BYTES: usize = 40;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;
const SYNCED_SLOT: usize = 0;
const LATEST_SLOT: usize = 1;

/// A place in the log that is durable, with everything before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reached {
    pub(super) segment: u64,
    /// Where a group of it ends.
    pub(super) end: u64,
}

/// What the file says before the log is opened.
#[derive(Debug, Default)]
pub(super) struct Recorded(Vec<(ServerId, Reached)>);

impl Recorded {
    /// Reads the file. One that is missing, as beside a log of an earlier release, says nothing,
    /// and neither does a slot that is not whole.
    pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Self, DirectoryError> {
        let path = path_in(directory);
        let bytes = match disk.read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            bytes => bytes.map_err(failed("reading", &path))?,
        };
        Ok(Self::decode(&bytes))
    }

    fn decode(bytes: &[u8]) -> Self {
        let slots = bytes.chunks(SECTOR_BYTES).take(LATEST_SLOT + 1);
        Self(slots.filter_map(decode_slot).collect())
    }

    /// How far the log of `server` reached at least.
    pub(super) fn of(&self, server: ServerId) -> Option<Reached> {
        let own = self.0.iter().filter(|(owner, _)| *owner == server);
        own.map(|(_, reached)| *reached).max()
    }
}

/// The file, open for the writer.
#[derive(Debug)]
pub(super) struct LogEnd {
    file: Arc<dyn DiskFile>,
    server: ServerId,
}

impl LogEnd {
    /// Opens the file or makes it, and notes durably where the log ends now.
    pub(super) fn open(
        disk: &dyn Disk,
        directory: &Path,
        server: ServerId,
        reached: Reached,
    ) -> io::Result<Self> {
        let path = path_in(directory);
        let opening = match disk.exists(&path) {
            true => Opening::Existing,
            false => Opening::Emptied,
        };
        let file = disk.open(&path, opening)?;
        let end = Self { file, server };
        // Both slots: one of a server that was here before would stay.
        end.note(reached)?;
        end.note_durably(reached)?;
        disk.sync_directory(directory)?;
        Ok(end)
    }

    /// Notes how far the log is durable.
    pub(super) fn note(&self, reached: Reached) -> io::Result<()> {
        self.write(LATEST_SLOT, reached)
    }

    /// The same, so that it survives the host.
    pub(super) fn note_durably(&self, reached: Reached) -> io::Result<()> {
        self.write(SYNCED_SLOT, reached)?;
        self.file.sync()
    }

    fn write(&self, slot: usize, reached: Reached) -> io::Result<()> {
        let bytes = encode_slot(self.server, reached);
        self.file.write_at(&bytes, (slot * SECTOR_BYTES) as u64)
    }
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join("log-end")
}

fn encode_slot(server: ServerId, reached: Reached) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&server.as_u64().to_be_bytes());
    bytes[16..24].copy_from_slice(&reached.segment.to_be_bytes());
    bytes[24..32].copy_from_slice(&reached.end.to_be_bytes());
    let crc = crc32fast::hash(&bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode_slot(sector: &[u8]) -> Option<(ServerId, Reached)> {
    let slot = sector.get(..SLOT_BYTES)?;
    let server = ServerId::from_u64(u64_at(slot, 8)?);
    let reached = Reached {
        segment: u64_at(slot, 16)?,
        end: u64_at(slot, 24)?,
    };
    (encode_slot(server, reached) == slot).then_some((server, reached))
}

#[cfg(test)]
mod tests {
    use super::super::host_disk::HostDisk;
    use super::*;

    const OWN: ServerId = ServerId::from_u64(0xaa);

    fn at(segment: u64, end: u64) -> Reached {
        Reached { segment, end }
    }

    fn read(directory: &Path) -> Recorded {
        Recorded::read(&HostDisk, directory).expect("reads")
    }

    #[test]
    fn the_bytes_of_a_slot_are_frozen() {
        let mut expected = b"drvlend1".to_vec();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0xaa, 0, 0, 0, 0, 0, 0, 0, 2]);
        expected.extend([0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 0]);
        expected.extend(crc32fast::hash(&expected).to_be_bytes());
        assert_eq!(encode_slot(OWN, at(2, 0x1234)).as_slice(), expected);
        assert_eq!(decode_slot(&expected), Some((OWN, at(2, 0x1234))));
    }

    #[test]
    fn the_furthest_whole_slot_of_the_own_server_counts() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(read(directory.path()).of(OWN), None, "there is no file");
        let end = LogEnd::open(&HostDisk, directory.path(), OWN, at(1, 80)).expect("is made");
        end.note(at(1, 120)).expect("notes");
        assert_eq!(read(directory.path()).of(OWN), Some(at(1, 120)));
        end.note_durably(at(2, 48)).expect("notes");
        assert_eq!(read(directory.path()).of(OWN), Some(at(2, 48)));
        assert_eq!(read(directory.path()).of(ServerId::from_u64(0xbb)), None);
        let path = path_in(directory.path());
        let mut bytes = std::fs::read(&path).expect("reads");
        bytes[SYNCED_SLOT * SECTOR_BYTES + 20] ^= 1;
        assert_eq!(Recorded::decode(&bytes).of(OWN), Some(at(1, 120)));
        let other = ServerId::from_u64(0xcc);
        LogEnd::open(&HostDisk, directory.path(), other, at(1, 48)).expect("opens");
        assert_eq!(read(directory.path()).of(OWN), None, "another server's now");
    }

    #[test]
    fn a_cut_file_is_no_error() {
        let whole = [encode_slot(OWN, at(1, 80)).as_slice(), &[0; 600]].concat();
        for length in 0..SLOT_BYTES {
            assert_eq!(Recorded::decode(&whole[..length]).of(OWN), None);
        }
        assert_eq!(Recorded::decode(&whole).of(OWN), Some(at(1, 80)));
    }
}
