//! The last step: an inspected artifact is renamed into its destination, entry by entry where a
//! directory is there already. A link that a task planted is refused or replaced, never followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;

use crate::archive::copy;
use crate::inspect::DEPTH_MAX;
use crate::place;
use crate::staging::{ARTIFACT, Staging};

/// Added to a name while a file is copied from another file system.
const UNFINISHED: &str = ".drover-new";

/// Owner of an artifact (a job's `chown`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: Uid,
    /// Group.
    pub gid: Gid,
}

/// An artifact that cannot be put in its place. A part of it may lie there.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The destination is no path below the allocation's directory.
    #[error("artifact destination path escapes alloc directory: {}", .path.display())]
    Escape {
        /// The destination.
        path: PathBuf,
    },
    /// Something of another kind is in the way.
    #[error("{} is {found} and in the way of the artifact", .path.display())]
    InTheWay {
        /// Below the allocation's directory.
        path: PathBuf,
        /// Its kind.
        found: &'static str,
    },
    /// A step failed.
    #[error("{operation} {}", .path.display())]
    Operation {
        /// Verb of the message.
        operation: &'static str,
        /// Below the allocation's directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
}

impl MergeError {
    /// Whether another attempt could succeed.
    pub fn is_recoverable(&self) -> bool {
        !matches!(self, Self::Escape { .. })
    }
}

fn failed(operation: &'static str, path: &Path) -> impl Fn(Errno) -> MergeError {
    let path = path.to_owned();
    move |source| match source {
        Errno::LOOP => MergeError::InTheWay {
            path: path.clone(),
            found: "a link",
        },
        Errno::NOTDIR => MergeError::InTheWay {
            path: path.clone(),
            found: "no directory",
        },
        source => MergeError::Operation {
            operation,
            path: path.clone(),
            source,
        },
    }
}

/// Moves the staged artifact to `destination`, relative to `base`, the allocation's directory.
/// Directories above it are made; an existing directory keeps its mode, its owner and its other
/// entries.
///
/// # Errors
/// Where the destination leads elsewhere, or something is in the way.
pub fn merge(
    staging: &Staging,
    base: BorrowedFd<'_>,
    destination: &Path,
) -> Result<(), MergeError> {
    let mut parts: Vec<&OsStr> = Vec::new();
    for part in destination.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => {
                return Err(MergeError::Escape {
                    path: destination.to_owned(),
                });
            }
        }
    }
    let artifact = OsStr::new(ARTIFACT);
    let mut above = duplicate(base, destination)?;
    let Some((name, directories)) = parts.split_last() else {
        let from = place::open(staging.directory(), artifact);
        let from = from.map_err(failed("opening the artifact for", destination))?;
        return move_children(&from, &above, destination, 0);
    };
    let mut path = PathBuf::new();
    for directory in directories {
        path.push(directory);
        above = place::open_or_make(&above, directory).map_err(failed("making", &path))?;
    }
    path.push(name);
    move_entry(staging.directory(), artifact, above.as_fd(), name, &path, 0)
}

fn duplicate(directory: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, MergeError> {
    rustix::io::fcntl_dupfd_cloexec(directory, 0).map_err(failed("opening", path))
}

fn move_children(
    from: &OwnedFd,
    to: &OwnedFd,
    path: &Path,
    depth: usize,
) -> Result<(), MergeError> {
    if depth > DEPTH_MAX {
        return Err(failed("entering", path)(Errno::NAMETOOLONG));
    }
    for name in place::names(from).map_err(failed("reading the artifact for", path))? {
        let path = path.join(&name);
        move_entry(from.as_fd(), &name, to.as_fd(), &name, &path, depth)?;
    }
    Ok(())
}

fn move_entry(
    from: BorrowedFd<'_>,
    name: &OsStr,
    to: BorrowedFd<'_>,
    new_name: &OsStr,
    path: &Path,
    depth: usize,
) -> Result<(), MergeError> {
    let staged = place::about(from, name).map_err(failed("examining the artifact for", path))?;
    let staged = staged.ok_or(Errno::NOENT);
    let staged = staged.map_err(failed("examining the artifact for", path))?;
    let there = place::about(to, new_name).map_err(failed("examining", path))?;
    let is_directory = place::kind(&staged) == FileType::Directory;
    match (is_directory, there.as_ref().map(place::kind)) {
        (true, Some(FileType::Directory)) => {
            let below =
                place::open(from, name).map_err(failed("opening the artifact for", path))?;
            let target = place::open(to, new_name).map_err(failed("opening", path))?;
            move_children(&below, &target, path, depth + 1)
        }
        (true, None) => match fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
            Err(Errno::XDEV) => copy_directory(from, name, &staged, to, new_name, path, depth),
            renamed => renamed.map_err(failed("making", path)),
        },
        (true, Some(FileType::Symlink)) => Err(in_the_way(path, "a link")),
        (true, Some(_)) => Err(in_the_way(path, "a file")),
        (false, Some(FileType::Directory)) => Err(in_the_way(path, "a directory")),
        (false, _) => match fs::renameat(from, name, to, new_name) {
            Err(Errno::XDEV) => copy_file(from, name, &staged, to, new_name, path),
            renamed => renamed.map_err(failed("writing", path)),
        },
    }
}

fn in_the_way(path: &Path, found: &'static str) -> MergeError {
    MergeError::InTheWay {
        path: path.to_owned(),
        found,
    }
}

/// A new directory on another file system (`secrets/` is one).
fn copy_directory(
    from: BorrowedFd<'_>,
    name: &OsStr,
    staged: &fs::Stat,
    to: BorrowedFd<'_>,
    new_name: &OsStr,
    path: &Path,
    depth: usize,
) -> Result<(), MergeError> {
    let below = place::open(from, name).map_err(failed("opening the artifact for", path))?;
    let target = place::open_or_make(to, new_name).map_err(failed("making", path))?;
    move_children(&below, &target, path, depth + 1)?;
    let (uid, gid) = owner_of(staged);
    fs::fchown(&target, uid, gid).map_err(failed("giving away", path))?;
    let mode = Mode::from_raw_mode(staged.st_mode & 0o777);
    fs::fchmod(&target, mode).map_err(failed("setting the mode of", path))
}

fn owner_of(staged: &fs::Stat) -> (Option<Uid>, Option<Gid>) {
    let uid = Uid::from_raw(staged.st_uid);
    (Some(uid), Some(Gid::from_raw(staged.st_gid)))
}

fn copy_file(
    from: BorrowedFd<'_>,
    name: &OsStr,
    staged: &fs::Stat,
    to: BorrowedFd<'_>,
    new_name: &OsStr,
    path: &Path,
) -> Result<(), MergeError> {
    let (uid, gid) = owner_of(staged);
    let mut temporary = OsString::from(new_name);
    temporary.push(UNFINISHED);
    match fs::unlinkat(to, &temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed("writing", path)(errno)),
    }
    if place::kind(staged) == FileType::Symlink {
        let target = fs::readlinkat(from, name, Vec::new());
        let target = target.map_err(failed("reading the artifact for", path))?;
        fs::symlinkat(&target, to, &temporary).map_err(failed("writing", path))?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        fs::chownat(to, &temporary, uid, gid, flags).map_err(failed("giving away", path))?;
    } else {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let source = fs::openat(from, name, flags, Mode::empty());
        let source = source.map_err(failed("reading the artifact for", path))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let target = fs::openat(to, &temporary, flags, Mode::from_raw_mode(0o600));
        let mut target = File::from(target.map_err(failed("writing", path))?);
        if let Err(error) = copy(&mut File::from(source), &mut target) {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            // A full memory file system keeps no half file.
            let _ = fs::unlinkat(to, &temporary, AtFlags::empty());
            return Err(failed("writing", path)(errno));
        }
        fs::fchown(&target, uid, gid).map_err(failed("giving away", path))?;
        let mode = Mode::from_raw_mode(staged.st_mode & 0o777);
        fs::fchmod(&target, mode).map_err(failed("setting the mode of", path))?;
    }
    fs::renameat(to, &temporary, to, new_name).map_err(failed("writing", path))
}
