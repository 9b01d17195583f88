//! Sticky disks: a successor on the same node takes over its predecessor's data.
//!
//! ```text
//!   <previous>/alloc/data   --rename--> <alloc>/alloc/data
//!   <previous>/<task>/local --rename--> <alloc>/<task>/local
//! ```
//!
//! Both are on one file system, so that nothing is copied. A directory of the successor that holds
//! something already was moved before, or is in use: it stays. So a repetition is harmless.

use std::ffi::OsStr;
use std::path::Path;

use protocol_model::AllocId;
use rustix::fs::{self, Gid, Mode, OFlags};
use rustix::io::Errno;

use super::{AllocDirError, AllocRoot, DIRECTORY, SHARED, failed, group_of, make};

impl AllocRoot {
    /// Moves the data of `previous` to `alloc`, whose shared directories are there, and returns how
    /// many directories were moved. A predecessor that is not on this node has none.
    ///
    /// # Errors
    /// The first directory that could not be moved. It stays where it is, as do those after it.
    pub fn take_over<'t>(
        &self,
        alloc: AllocId,
        previous: AllocId,
        tasks: impl Iterator<Item = &'t str>,
    ) -> Result<u32, AllocDirError> {
        let Ok(from) = self.directory_of(previous) else {
            return Ok(0);
        };
        let to = self.directory_of(alloc)?;
        let (from_path, to_path) = (self.path_of(previous), self.path_of(alloc));
        let mut moved = 0;
        for task in [SHARED].into_iter().chain(tasks) {
            let name = if task == SHARED { "data" } else { "local" };
            let path = from_path.join(task);
            let flags = DIRECTORY | OFlags::NOFOLLOW;
            let source = match fs::openat(&from, task, flags, Mode::empty()) {
                // It had no such task.
                Err(Errno::NOENT) => continue,
                source => source.map_err(failed("opening", &path))?,
            };
            // Closed until the task is prepared, which gives it to its user.
            let target = make(&to, OsStr::new(task), 0o700, &to_path.join(task))?;
            match fs::renameat(&source, name, &target, name) {
                // Moved before; or in use.
                Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => continue,
                done => done.map_err(failed("moving", &path.join(name)))?,
            }
            if task == SHARED {
                hand_over(&target, alloc, &to_path.join(task).join(name))?;
            }
            moved += 1;
        }
        Ok(moved)
    }
}

/// The tasks of the successor share `data` by another group than those of its predecessor.
fn hand_over(
    shared: &impl std::os::fd::AsFd,
    alloc: AllocId,
    path: &Path,
) -> Result<(), AllocDirError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let flags = DIRECTORY | OFlags::NOFOLLOW;
    let data = fs::openat(shared, "data", flags, Mode::empty()).map_err(failed("opening", path))?;
    let group = Some(Gid::from_raw(group_of(alloc)));
    fs::fchown(&data, None, group).map_err(failed("giving away", path))
}
