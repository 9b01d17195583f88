//! One file of a disk in memory, and what of it is not synced.

use std::io;
use std::sync::Arc;

use controlplane_raft::DiskFile;
use futures::future::BoxFuture;
use hack_sim::rng::Rng;
use parking_lot::{Mutex, MutexGuard};

use super::{Platters, SYNC};

/// What is lost or kept of a write together, as a disk's sectors are.
const SECTOR_BYTES: usize = 512;

/// A file's bytes as they are read, and what each write since the last sync replaced.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    unsynced: Vec<Replaced>,
}

#[derive(Debug)]
struct Replaced {
    at: usize,
    before: Vec<u8>,
    length_before: usize,
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same bytes, all of them synced.
    pub(super) fn copy(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            unsynced: Vec::new(),
        }
    }

    fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        let length_before = self.bytes.len();
        if length_before < end {
            self.bytes.resize(end, 0);
        }
        let before = self.bytes[at..end].to_vec();
        self.unsynced.push(Replaced {
            at,
            before,
            length_before,
        });
        self.bytes[at..end].copy_from_slice(bytes);
    }

    fn sync(&mut self) {
        self.unsynced.clear();
    }

    /// What the power takes: of each write since the last sync everything, nothing, or the sectors
    /// that chance takes.
    pub(super) fn lose_unsynced(&mut self, rng: &mut Rng) {
        while let Some(replaced) = self.unsynced.pop() {
            match rng.below(3) {
                0 => {}
                1 => self.undo(&replaced, |_| true),
                _ => self.undo(&replaced, |_| rng.chance(500)),
            }
        }
    }

    fn undo(&mut self, replaced: &Replaced, mut takes: impl FnMut(usize) -> bool) {
        let Replaced {
            at,
            before,
            length_before,
        } = replaced;
        let mut whole = true;
        for (number, sector) in before.chunks(SECTOR_BYTES).enumerate() {
            if !takes(number) {
                whole = false;
                continue;
            }
            let from = at + number * SECTOR_BYTES;
            self.bytes[from..from + sector.len()].copy_from_slice(sector);
        }
        if whole {
            self.bytes
                .truncate(self.bytes.len().min(*length_before.max(at)));
        }
    }
}

pub(super) fn lock(content: &Mutex<Content>) -> MutexGuard<'_, Content> {
    content.lock()
}

/// A file that one life of a machine has open.
#[derive(Debug)]
pub(super) struct OpenFile {
    platters: Platters,
    life: u64,
    content: Arc<Mutex<Content>>,
}

impl OpenFile {
    pub(super) fn new(platters: Platters, life: u64, content: Arc<Mutex<Content>>) -> Self {
        Self {
            platters,
            life,
            content,
        }
    }

    /// Writes a group; where the disk is to tear one, a part of it, and the power goes.
    fn write_group(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut inner = self.platters.writable(self.life)?;
        if std::mem::take(&mut inner.manners.tears_next) {
            let end = inner.rng.below(bytes.len() as u64 + 1);
            let written = &bytes[..usize::try_from(end).unwrap_or(0)];
            let mut content = lock(&self.content);
            content.write(written, place(offset));
            content.sync();
            inner.torn = true;
            return Err(io::Error::other("the power went while this was written"));
        }
        lock(&self.content).write(bytes, place(offset));
        Ok(())
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl DiskFile for OpenFile {
    fn length(&self) -> io::Result<u64> {
        drop(self.platters.of(self.life)?);
        Ok(lock(&self.content).bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        drop(self.platters.of(self.life)?);
        let content = lock(&self.content);
        let rest = content.bytes.get(place(offset)..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let _inner = self.platters.writable(self.life)?;
        lock(&self.content).write(bytes, place(offset));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let inner = self.platters.writable(self.life)?;
        if !inner.manners.lies {
            lock(&self.content).sync();
        }
        Ok(())
    }

    fn append<'a>(&'a self, bytes: &'a [u8], offset: u64) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            self.write_group(bytes, offset)?;
            let slow = self.platters.of(self.life)?.manners.slow;
            tokio::time::sleep(SYNC + slow).await;
            self.sync()
        })
    }
}
