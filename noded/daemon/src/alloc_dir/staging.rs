//! Staging directories: artifacts lie there until they are merged into a task's directory.
//!
//! ```text
//!   <root>/<alloc>/.staging/<name>/{home,tmp}     root's alone, on the file system of the tasks
//! ```

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use protocol_model::AllocId;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::{AllocDirError, AllocRoot, DIRECTORY, failed, make, remove};

/// No task is called so: the names of tasks do not begin with a dot.
pub(crate) const STAGING: &str = ".staging";
/// Directories that programs want which write in a staging directory.
const OF_PROGRAMS: [&str; 2] = ["home", "tmp"];

impl AllocRoot {
    /// Makes an empty staging directory; an older one of that name is removed.
    ///
    /// # Errors
    /// The allocation has no directory, or something cannot be made or removed.
    pub fn make_staging(
        &self,
        alloc: AllocId,
        name: &str,
    ) -> Result<(OwnedFd, PathBuf), AllocDirError> {
        self.drop_staging(alloc, name)?;
        let path = self.path_of(alloc).join(STAGING);
        let own = self.directory_of(alloc)?;
        let all = make(&own, OsStr::new(STAGING), 0o700, &path)?;
        let path = path.join(name);
        let directory = make(&all, OsStr::new(name), 0o700, &path)?;
        for name in OF_PROGRAMS {
            make(&directory, OsStr::new(name), 0o700, &path.join(name))?;
        }
        Ok((directory, path))
    }

    /// Removes a staging directory; an absent one is removed already.
    ///
    /// # Errors
    /// Some of it could not be removed; the rest is gone.
    pub fn drop_staging(&self, alloc: AllocId, name: &str) -> Result<(), AllocDirError> {
        let path = self.path_of(alloc).join(STAGING);
        match self.directory_of(alloc).map(|own| open(&own, STAGING)) {
            Ok(Ok(all)) => remove::remove_tree(&all, &path.join(name), name),
            Err(_) | Ok(Err(Errno::NOENT)) => Ok(()),
            Ok(Err(errno)) => Err(failed("opening", &path)(errno)),
        }
    }

    /// Removes all staging directories, which an earlier noded left.
    ///
    /// # Errors
    /// Some of them could not be removed; the rest is gone.
    pub fn drop_all_staging(&self) -> Result<(), AllocDirError> {
        let allocs = remove::entries(&self.directory).map_err(failed("reading", &self.path))?;
        let mut problem = Ok(());
        for (name, _) in allocs {
            let name = String::from_utf8_lossy(&name).into_owned();
            let Ok(own) = open(&self.directory, &name) else {
                continue;
            };
            let path = self.path.join(name).join(STAGING);
            if let Err(error) = remove::remove_tree(&own, &path, STAGING) {
                problem = Err(error);
            }
        }
        problem
    }
}

fn open(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = DIRECTORY | OFlags::NOFOLLOW;
    fs::openat(parent, Path::new(name), flags, Mode::empty())
}
