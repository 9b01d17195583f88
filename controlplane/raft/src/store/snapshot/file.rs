//! One snapshot file: a checkpoint of the machine with what it covers.
//!
//! ```text
//!   magic 8 | record length u32 | record | checkpoint ...
//!           | checkpoint length u64 | CRC-32 u32 | magic 8
//! ```
//!
//! Numbers are big-endian; the CRC covers everything before it but the length.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hashed::Hashed;
use crate::engine::SnapshotMeta;
use crate::machine::CheckpointSource;
use crate::record::{self, SnapshotRecord};
use crate::store::disk::{Cursor, Disk, DiskFile, Opening};

const MAGIC: &[u8; 8] = b"drvsnap1";
const END_MAGIC: &[u8; 8] = b"drvsend1";
const TRAILER_BYTES: u64 = 20;
/// A membership of a few servers: far below this.
const RECORD_BYTES_MAX: u32 = 1024 * 1024;
const BUFFER_BYTES: usize = 256 * 1024;

/// A whole, verified snapshot, opened. It stays readable when its file is removed.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    pub(crate) meta: SnapshotMeta,
    file: Arc<dyn DiskFile>,
    disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
    /// All bytes of the file.
    pub(crate) bytes: u64,
    checkpoint_start: u64,
    checkpoint_bytes: u64,
    /// Received and not adopted yet: the file goes when nobody wants it.
    pub(super) temporary: bool,
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if self.temporary {
            // What stays behind is removed at the next start.
            let _ = self.disk.remove(&self.path);
        }
    }
}

impl SnapshotFile {
    /// Opens and verifies a file: its frame, its length and its CRC.
    pub(super) fn verify(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<Self> {
        let file = disk.open(path, Opening::Reading)?;
        let bytes = file.length()?;
        let from_start = Cursor::new(Arc::clone(&file));
        let mut hashed = Hashed::new(BufReader::with_capacity(BUFFER_BYTES, from_start));
        let mut magic = [0; 8];
        hashed.read_exact(&mut magic)?;
        if &magic != MAGIC {
            return Err(damaged("it does not begin as a snapshot"));
        }
        let mut length = [0; 4];
        hashed.read_exact(&mut length)?;
        let record_bytes = u32::from_be_bytes(length);
        if record_bytes > RECORD_BYTES_MAX {
            return Err(damaged("its record is too long"));
        }
        let mut record = vec![0; record_bytes as usize];
        hashed.read_exact(&mut record)?;
        let meta = record::decode::<SnapshotRecord>("snapshot record", &record)?.try_into()?;
        let checkpoint_start = 12 + u64::from(record_bytes);
        let checkpoint_bytes = bytes
            .checked_sub(checkpoint_start + TRAILER_BYTES)
            .ok_or_else(|| damaged("it is cut off"))?;
        let copied = io::copy(&mut (&mut hashed).take(checkpoint_bytes), &mut io::sink())?;
        let crc = hashed.crc.clone().finalize();
        let mut trailer = [0; 20];
        hashed.read_exact(&mut trailer)?;
        if copied != checkpoint_bytes || trailer != encode_trailer(checkpoint_bytes, crc) {
            return Err(damaged("its end does not match its content"));
        }
        drop(hashed);
        Ok(Self {
            meta,
            file,
            disk: Arc::clone(disk),
            path: path.to_owned(),
            bytes,
            checkpoint_start,
            checkpoint_bytes,
            temporary: false,
        })
    }

    /// A reader of the checkpoint alone.
    pub(crate) fn checkpoint(&mut self) -> io::Result<impl Read + '_> {
        let mut cursor = Cursor::new(Arc::clone(&self.file));
        cursor.seek(self.checkpoint_start);
        let reader = BufReader::with_capacity(BUFFER_BYTES, cursor);
        Ok(reader.take(self.checkpoint_bytes))
    }

    /// The whole file from its start, to be sent.
    pub(crate) fn whole(&self) -> Cursor {
        Cursor::new(Arc::clone(&self.file))
    }

    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }
}

/// Writes a whole file: what it covers, and the checkpoint that `source` says.
pub(super) fn write_file(
    file: &Arc<dyn DiskFile>,
    meta: &SnapshotMeta,
    source: &dyn CheckpointSource,
) -> io::Result<()> {
    let record = record::encode(&SnapshotRecord::from(meta));
    let record_bytes = u32::try_from(record.len())
        .ok()
        .filter(|bytes| *bytes <= RECORD_BYTES_MAX)
        .ok_or_else(|| io::Error::other("the membership is too large for a snapshot"))?;
    let mut hashed = Hashed::new(BufWriter::with_capacity(
        BUFFER_BYTES,
        Cursor::new(Arc::clone(file)),
    ));
    hashed.write_all(MAGIC)?;
    hashed.write_all(&record_bytes.to_be_bytes())?;
    hashed.write_all(&record)?;
    let before = hashed.bytes;
    source.write_to(&mut hashed)?;
    let checkpoint_bytes = hashed.bytes - before;
    let Hashed {
        crc,
        inner: mut writer,
        ..
    } = hashed;
    writer.write_all(&encode_trailer(checkpoint_bytes, crc.finalize()))?;
    writer.flush()
}

fn encode_trailer(checkpoint_bytes: u64, crc: u32) -> [u8; 20] {
    let mut trailer = [0; 20];
    trailer[..8].copy_from_slice(&checkpoint_bytes.to_be_bytes());
    trailer[8..12].copy_from_slice(&crc.to_be_bytes());
    trailer[12..].copy_from_slice(END_MAGIC);
    trailer
}

fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
