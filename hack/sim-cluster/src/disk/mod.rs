//! A disk in memory: what was synced stays whatever happens, what was only written may be lost or
//! torn when the power goes; it may be slow, refuse writes, or tear one.
//!
//! ```text
//!   Platters    what a machine keeps, over all of its lives
//!   SimDisk     the disk as one life of the machine has it: the one before it has none any more
//! ```
//!
//! Names are durable at once: directories are not what is in doubt here.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use controlplane_raft::{Disk, DiskFile, Lock, Opening};
use futures::future::BoxFuture;
use hack_sim::rng::Rng;
use parking_lot::{Mutex, MutexGuard};

use file::{Content, OpenFile};

/// How long a sync takes on a disk that is well.
const SYNC: Duration = Duration::from_millis(1);

/// How a disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Manners {
    /// How much longer a sync takes.
    pub slow: Duration,
    /// Every write and sync fails.
    pub refuses: bool,
    /// The next group of the log is written in part, and then the machine has no power.
    pub tears_next: bool,
    /// A planted bug: syncs are acknowledged and do nothing.
    pub lies: bool,
}

/// What a machine keeps. Clones are the same platters.
#[derive(Debug, Clone)]
pub struct Platters {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    files: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    directories: BTreeSet<PathBuf>,
    manners: Manners,
    /// Which life of the machine has the disk.
    life: u64,
    /// Whether the power went in the middle of a write.
    torn: bool,
    /// Files as they were, for a planted bug.
    aside: Option<BTreeMap<PathBuf, Content>>,
    rng: Rng,
}

impl Platters {
    /// An empty disk.
    pub fn new(rng: Rng) -> Self {
        let inner = Inner {
            files: BTreeMap::new(),
            directories: BTreeSet::new(),
            manners: Manners::default(),
            life: 0,
            torn: false,
            aside: None,
            rng,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// The disk for the machine's next life; to the life before, every operation fails.
    pub fn mount(&self) -> SimDisk {
        let mut inner = self.inner.lock();
        inner.life += 1;
        inner.torn = false;
        SimDisk {
            platters: self.clone(),
            life: inner.life,
        }
    }

    /// Takes the disk from whoever has it: the process ends. What was written stays.
    pub fn detach(&self) {
        self.inner.lock().life += 1;
    }

    /// The power goes: what was not synced is lost, or some of it, or torn.
    pub fn cut_power(&self) {
        let mut inner = self.inner.lock();
        inner.life += 1;
        let Inner { files, rng, .. } = &mut *inner;
        for content in files.values() {
            file::lock(content).lose_unsynced(rng);
        }
    }

    /// A planted bug: keeps the disk as it is now, for [`Self::go_back`].
    pub fn put_aside(&self) {
        let mut inner = self.inner.lock();
        let copies = inner.files.iter().map(|(path, content)| {
            let copy = file::lock(content).copy();
            (path.clone(), copy)
        });
        inner.aside = Some(copies.collect());
    }

    /// A planted bug: the disk is as it was put aside.
    pub fn go_back(&self) {
        let mut inner = self.inner.lock();
        let Some(aside) = &inner.aside else {
            return;
        };
        let files = aside.iter().map(|(path, content)| {
            let content = Arc::new(Mutex::new(content.copy()));
            (path.clone(), content)
        });
        inner.files = files.collect();
    }

    /// Changes how the disk behaves.
    pub fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.inner.lock().manners);
    }

    /// Whether a write was torn since the machine started: it has no power then.
    pub fn is_torn(&self) -> bool {
        self.inner.lock().torn
    }

    /// The disk, where `life` has it.
    fn of(&self, life: u64) -> io::Result<MutexGuard<'_, Inner>> {
        let inner = self.inner.lock();
        match inner.life == life && !inner.torn {
            true => Ok(inner),
            false => Err(io::Error::other("this machine has no power")),
        }
    }

    /// The disk, where `life` has it and it takes writes.
    fn writable(&self, life: u64) -> io::Result<MutexGuard<'_, Inner>> {
        let inner = self.of(life)?;
        match inner.manners.refuses {
            true => Err(io::Error::other("the disk refuses to write")),
            false => Ok(inner),
        }
    }
}

/// See the top of this file.
#[derive(Debug, Clone)]
pub struct SimDisk {
    platters: Platters,
    life: u64,
}

impl SimDisk {
    fn opened(&self, content: &Arc<Mutex<Content>>) -> Arc<dyn DiskFile> {
        let content = Arc::clone(content);
        Arc::new(OpenFile::new(self.platters.clone(), self.life, content))
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for SimDisk {
    fn make_private(&self, directory: &Path) -> io::Result<()> {
        let mut inner = self.platters.of(self.life)?;
        inner.directories.insert(directory.to_owned());
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        // Only one life of a machine has its disk.
        drop(self.platters.of(self.life)?);
        Ok(Some(Box::new(Alone)))
    }

    fn exists(&self, path: &Path) -> bool {
        let inner = self.platters.inner.lock();
        inner.files.contains_key(path) || inner.directories.contains(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let inner = self.platters.of(self.life)?;
        let files = inner.files.keys();
        let inside = files.filter(|path| path.parent() == Some(directory));
        Ok(inside.cloned().collect())
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let inner = self.platters.of(self.life)?;
        let content = inner.files.get(path).ok_or_else(missing)?;
        Ok(file::lock(content).bytes().to_vec())
    }

    fn open(&self, path: &Path, opening: Opening) -> io::Result<Arc<dyn DiskFile>> {
        if matches!(opening, Opening::Reading | Opening::Existing) {
            let inner = self.platters.of(self.life)?;
            let content = inner.files.get(path).ok_or_else(missing)?;
            return Ok(self.opened(content));
        }
        let mut inner = self.platters.writable(self.life)?;
        if opening == Opening::New && inner.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Arc::default();
        inner.files.insert(path.to_owned(), Arc::clone(&content));
        Ok(self.opened(&content))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.platters.writable(self.life)?;
        let content = inner.files.remove(from).ok_or_else(missing)?;
        inner.files.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.platters.of(self.life)?;
        inner.files.remove(path).map(drop).ok_or_else(missing)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.platters.writable(self.life).map(drop)
    }

    fn run_writer(&self, _: &'static str, writer: BoxFuture<'static, ()>) -> io::Result<()> {
        // A thread would go on in real time.
        tokio::spawn(writer);
        Ok(())
    }

    fn run_beside(&self, _: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        work();
        Ok(())
    }
}

#[derive(Debug)]
struct Alone;

impl Lock for Alone {}
