//! The directories of allocations, by descriptor: whatever a task put there, nothing above the
//! allocation's own directory is reached (`openat2`, `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`).
//!
//! ```text
//!   <root>/<alloc>/alloc/{data,logs,tmp}
//!   <root>/<alloc>/<task>/{local,secrets,private,tmp}
//! ```

mod access;
mod files;
mod measure;
mod remove;
mod staging;
mod sticky;

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use isolation::{Identity, scratch};
use protocol_model::AllocId;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

pub use access::{TaskAccess, group_of};
pub use files::FileAttributes;
pub(crate) use staging::STAGING;

/// Size of the secrets' memory file system unless the job says otherwise (Nomad's 1 MiB).
const SECRETS_BYTES: u64 = 1024 * 1024;
/// What must be left on the disk for another allocation. A full disk is seldom full to the byte.
pub(crate) const FREE_BYTES_MIN: u64 = 1024 * 1024;
/// An allocation of one task takes nine, and its log files.
pub(crate) const FREE_INODES_MIN: u64 = 64;
/// The directory that the tasks of an allocation share.
pub const SHARED: &str = "alloc";

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Why a directory or file of an allocation cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AllocDirError {
    /// An operation failed.
    #[error("{operation} {}", .path.display())]
    Operation {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A path leads out of its directory.
    #[error("{} leads out of the allocation's directory", .path.display())]
    Escapes {
        /// The path.
        path: PathBuf,
    },
    /// Something other than a regular file has the name of one that is to be written.
    #[error(
        "{} is no regular file but a link, directory, FIFO or device: remove it, or name another \
         file", .path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The name is taken by the shared directory, or is no plain name.
    #[error("{name:?} cannot be a task's directory")]
    TaskName {
        /// The name.
        name: String,
    },
    /// The secrets' file system could not be mounted.
    #[error("mounting the secrets directory")]
    Secrets(#[source] scratch::ScratchError),
    /// The disk is full: what is there goes on, and nothing is added.
    #[error(
        "no space for another allocation in {}: {free_kib} KiB and {free_inodes} inodes are left; \
         make room, or drain this node", .path.display()
    )]
    NoSpace {
        /// The directory of all allocations.
        path: PathBuf,
        /// What is left for tasks.
        free_kib: u64,
        /// Files and directories that can be made.
        free_inodes: u64,
    },
    /// Some of it could not be removed; the rest is gone.
    #[error("{failures} entries of {} could not be removed, first {first}", .path.display())]
    Remove {
        /// The allocation's directory.
        path: PathBuf,
        /// How many.
        failures: usize,
        /// The first, and why.
        first: String,
    },
}

/// The directory of all allocations.
#[derive(Debug)]
pub struct AllocRoot {
    path: PathBuf,
    directory: OwnedFd,
}

impl AllocRoot {
    /// Opens the root, which [`crate::data_dir::prepare`] has made.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, AllocDirError> {
        let directory =
            fs::open(path, DIRECTORY, Mode::empty()).map_err(failed("opening", path))?;
        Ok(Self {
            path: path.to_owned(),
            directory,
        })
    }

    /// The directory of one allocation, as a path.
    pub fn path_of(&self, alloc: AllocId) -> PathBuf {
        self.path.join(alloc.to_string())
    }

    /// Makes the directories that the tasks of an allocation share by its group, closed to
    /// everybody else on the host. Repeating it is harmless, and needs no room.
    ///
    /// # Errors
    /// Where one cannot be made, or the disk is full.
    pub fn build(&self, alloc: AllocId) -> Result<(), AllocDirError> {
        let path = self.path_of(alloc);
        if self.directory_of(alloc).is_err() {
            self.check_room()?;
        }
        let own = make(
            &self.directory,
            OsStr::new(&alloc.to_string()),
            0o700,
            &path,
        )?;
        let group = group_of(alloc);
        let path = path.join(SHARED);
        let shared = make_shared(&own, SHARED, 0o770, group, &path)?;
        for (name, mode) in [("data", 0o770), ("logs", 0o770), ("tmp", 0o1770)] {
            make_shared(&shared, name, mode, group, &path.join(name))?;
        }
        Ok(())
    }

    /// Whether another allocation would find room. A task that starts on a full disk fails later,
    /// at its own first line, where nobody sees why.
    fn check_room(&self) -> Result<(), AllocDirError> {
        let room =
            fs::fstatvfs(&self.directory).map_err(failed("measuring the disk of", &self.path))?;
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        // File systems that make inodes as they need them count none.
        let inodes_short = room.f_files > 0 && room.f_favail < FREE_INODES_MIN;
        if free < FREE_BYTES_MIN || inodes_short {
            return Err(AllocDirError::NoSpace {
                path: self.path.clone(),
                free_kib: free / 1024,
                free_inodes: room.f_favail,
            });
        }
        Ok(())
    }

    /// Makes the directories of one task, and gives those to their owner that are not yet its own.
    /// Repeating it is harmless.
    ///
    /// # Errors
    /// Where one cannot be made, or the memory file system for secrets cannot be mounted.
    pub fn build_task(
        &self,
        alloc: AllocId,
        task: &str,
        access: TaskAccess<'_>,
    ) -> Result<(), AllocDirError> {
        let plain = !task.is_empty() && !task.starts_with('.') && !task.contains(['/', '\0']);
        if !plain || task == SHARED {
            return Err(AllocDirError::TaskName {
                name: task.to_owned(),
            });
        }
        let own = self.directory_of(alloc)?;
        let modes = access.modes();
        let path = self.path_of(alloc).join(task);
        let directory = make(&own, OsStr::new(task), 0o700, &path)?;
        for (name, mode) in [("local", modes.local), ("tmp", modes.tmp)] {
            let path = path.join(name);
            let made = make(&directory, OsStr::new(name), mode, &path)?;
            give(&made, access, mode, &path)?;
        }
        make(
            &directory,
            OsStr::new("private"),
            0o700,
            &path.join("private"),
        )?;
        let secrets_path = path.join("secrets");
        let secrets = make(&directory, OsStr::new("secrets"), 0o700, &secrets_path)?;
        if rustix::process::geteuid().is_root() && !is_mount(&directory, &secrets)? {
            scratch::mount(&secrets_path, SECRETS_BYTES, 0o700).map_err(AllocDirError::Secrets)?;
        }
        // What is mounted there now, not what lies beneath.
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let mounted = fs::openat(&directory, "secrets", flags, Mode::empty())
            .map_err(failed("opening", &secrets_path))?;
        give(&mounted, access, 0o700, &secrets_path)?;
        // Last: nobody passes before everything below is as it is to be.
        give(&directory, access, modes.task, &path)?;
        set_mode(&directory, modes.task, &path)?;
        if access.passes_allocation() {
            set_mode(&own, 0o711, &self.path_of(alloc))?;
        }
        Ok(())
    }

    /// The allocation's directory itself.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn directory_of(&self, alloc: AllocId) -> Result<OwnedFd, AllocDirError> {
        let name = alloc.to_string();
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        fs::openat(&self.directory, &name, flags, Mode::empty())
            .map_err(failed("opening", &self.path_of(alloc)))
    }

    /// The secrets directory of a task.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn secrets_of(&self, alloc: AllocId, task: &str) -> Result<OwnedFd, AllocDirError> {
        let own = self.directory_of(alloc)?;
        let path = self.path_of(alloc).join(task);
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let directory =
            fs::openat(&own, task, flags, Mode::empty()).map_err(failed("opening", &path))?;
        fs::openat(&directory, "secrets", flags, Mode::empty())
            .map_err(failed("opening", &path.join("secrets")))
    }

    /// The tasks that have a directory in an allocation; none where it has none itself.
    pub fn tasks_of(&self, alloc: AllocId) -> Vec<String> {
        let Ok(directory) = self.directory_of(alloc) else {
            return Vec::new();
        };
        let entries = remove::entries(&directory).unwrap_or_default();
        entries
            .into_iter()
            .filter(|(_, kind)| *kind == fs::FileType::Directory)
            .filter_map(|(name, _)| String::from_utf8(name).ok())
            .filter(|name| name != SHARED && name != STAGING)
            .collect()
    }

    /// Takes the memory file systems of secrets away; logs and data stay. An allocation that is not
    /// there has none.
    ///
    /// # Errors
    /// What could not be taken away; the rest is gone.
    pub fn drop_secrets(&self, alloc: AllocId) -> Result<(), AllocDirError> {
        remove::drop_secrets(&self.directory, &self.path_of(alloc), &alloc.to_string())
    }

    /// Removes everything of an allocation, memory file systems included. One that is not there is
    /// removed already.
    ///
    /// # Errors
    /// What could not be removed; the rest is gone.
    pub fn destroy(&self, alloc: AllocId) -> Result<(), AllocDirError> {
        remove::remove_alloc(&self.directory, &self.path_of(alloc), &alloc.to_string())
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(Errno) -> AllocDirError {
    let path = path.to_owned();
    move |source| AllocDirError::Operation {
        operation,
        path,
        source,
    }
}

fn make(parent: impl AsFd, name: &OsStr, mode: u32, path: &Path) -> Result<OwnedFd, AllocDirError> {
    match fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            return fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
                .map_err(failed("opening", path));
        }
        Err(source) => return Err(failed("making", path)(source)),
    }
    let directory = fs::openat(parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
        .map_err(failed("opening", path))?;
    // The umask does not count.
    set_mode(&directory, mode, path)?;
    Ok(directory)
}

fn set_mode(directory: &OwnedFd, mode: u32, path: &Path) -> Result<(), AllocDirError> {
    fs::fchmod(directory, Mode::from_raw_mode(mode)).map_err(failed("setting the mode of", path))
}

/// Makes a directory for the tasks of an allocation. One that an earlier release made, open to
/// everybody, stays as it is: what runs in it may not be in the group.
fn make_shared(
    parent: &OwnedFd,
    name: &str,
    mode: u32,
    group: u32,
    path: &Path,
) -> Result<OwnedFd, AllocDirError> {
    let directory = make(parent, OsStr::new(name), 0o700, path)?;
    let found = fs::fstat(&directory).map_err(failed("examining", path))?;
    // Also one that a crash left half made.
    if found.st_mode & 0o7777 == 0o700 && rustix::process::geteuid().is_root() {
        let group = Some(rustix::process::Gid::from_raw(group));
        fs::fchown(&directory, None, group).map_err(failed("giving away", path))?;
        set_mode(&directory, mode, path)?;
    }
    Ok(directory)
}

/// Gives a directory with its mode to its owner; one that is its owner's stays as that made it. The
/// owner comes last: a directory that a crash left half made is not its owner's yet.
fn give(
    directory: &OwnedFd,
    access: TaskAccess<'_>,
    mode: u32,
    path: &Path,
) -> Result<(), AllocDirError> {
    let found = fs::fstat(directory).map_err(failed("examining", path))?;
    let (uid, gid) = match access.owner {
        None => return Ok(()),
        Some(Identity::Keeper) => (rustix::process::geteuid().as_raw(), found.st_gid),
        Some(Identity::User { uid, gid, .. }) => (*uid, *gid),
    };
    let is_its_own = (found.st_uid, found.st_gid) == (uid, gid);
    if is_its_own && !access.anew {
        return Ok(());
    }
    set_mode(directory, mode, path)?;
    let (uid, gid) = (
        rustix::process::Uid::from_raw(uid),
        rustix::process::Gid::from_raw(gid),
    );
    fs::fchown(directory, Some(uid), Some(gid)).map_err(failed("giving away", path))
}

/// Whether `child` is on another file system than its parent.
fn is_mount(parent: &OwnedFd, child: &OwnedFd) -> Result<bool, AllocDirError> {
    let device = |directory: &OwnedFd| {
        fs::fstat(directory)
            .map(|stat| stat.st_dev)
            .map_err(failed("examining", Path::new("secrets")))
    };
    Ok(device(parent)? != device(child)?)
}

#[cfg(test)]
mod tests;
