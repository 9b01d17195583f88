//! What running tasks were started with, kept for processes that join them later (`alloc exec`):
//! in the runtime directory, so that a restarted noded knows it and a rebooted host does not.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use isolation::SandboxSpec;
use noded_core::RunKey;
use serde::{Deserialize, Serialize};

/// The sandbox of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptSandbox {
    /// Which run it is of.
    pub run: RunKey,
    /// What it was planned from.
    pub spec: SandboxSpec,
}

/// The directory of sandboxes. It holds tasks' environments: only root may read it.
#[derive(Debug)]
pub struct SandboxStore {
    directory: PathBuf,
}

impl SandboxStore {
    /// Opens the store below the runtime directory.
    ///
    /// # Errors
    /// Where the directory cannot be made.
    pub fn open(run_dir: &Path) -> io::Result<Self> {
        let directory = run_dir.join("sandboxes");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        Ok(Self { directory })
    }

    /// Remembers a run's sandbox, in the place of an earlier run's.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn keep(&self, kept: &KeptSandbox) -> io::Result<()> {
        let path = self.path(&kept.run);
        let temporary = path.with_extension("new");
        // Written in one piece: this is on the way of every start.
        let text = serde_json::to_vec(kept)?;
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&text)?;
        std::fs::rename(&temporary, &path)
    }

    /// The sandbox of exactly this run.
    pub fn find(&self, run: &RunKey) -> Option<KeptSandbox> {
        let text = std::fs::read(self.path(run)).ok()?;
        let kept: KeptSandbox = serde_json::from_slice(&text).ok()?;
        (kept.run == *run).then_some(kept)
    }

    /// Forgets a run, unless a later one took its place.
    pub fn forget(&self, run: &RunKey) {
        if self.find(run).is_some() {
            // Gone already is as good.
            let _ = std::fs::remove_file(self.path(run));
        }
    }

    /// Task names are plain directory names: the cgroup of the same name was made before.
    fn path(&self, run: &RunKey) -> PathBuf {
        self.directory
            .join(format!("{}.{}.json", run.alloc, run.task))
    }
}
