//! The KEKs of a server's machine: they survive its process, and nothing that a killed process does
//! reaches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use controlplane_keyring::{Kek, KekFileError, KekStore, LoadedKeks, MemoryKeks};

/// The KEKs on a machine. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct SimKeks {
    disk: Arc<MemoryKeks>,
}

/// They as one process has them.
#[derive(Debug, Clone)]
pub struct MountedKeks {
    disk: Arc<MemoryKeks>,
    is_killed: Arc<AtomicBool>,
}

impl SimKeks {
    /// For a process that begins.
    pub fn mount(&self) -> MountedKeks {
        MountedKeks {
            disk: Arc::clone(&self.disk),
            is_killed: Arc::default(),
        }
    }

    /// Their ids, as root keys name them.
    pub fn ids(&self) -> Vec<[u8; 8]> {
        let loaded = self.disk.load().map(|loaded| loaded.keks);
        let keks = loaded.unwrap_or_default();
        keks.iter().map(|kek| *kek.id().as_bytes()).collect()
    }
}

impl MountedKeks {
    /// The process is killed: what it stores from now on is lost.
    pub fn detach(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
    }
}

impl KekStore for MountedKeks {
    fn load(&self) -> Result<LoadedKeks, KekFileError> {
        self.disk.load()
    }

    fn store(&self, kek: &Kek) -> Result<(), KekFileError> {
        match self.is_killed.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.disk.store(kek),
        }
    }
}
