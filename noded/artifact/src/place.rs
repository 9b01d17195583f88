//! Directories by descriptor: opened and made without following a link.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Directories as they are made and opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
const NO_LINKS: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
/// Mode of directories that an artifact implies.
const IMPLIED: Mode = Mode::from_bits_retain(0o755);

/// Opens a directory below another; a link on the way is `ELOOP`.
pub(crate) fn open(parent: impl AsFd, path: &OsStr) -> Result<OwnedFd, Errno> {
    fs::openat2(parent, path, DIRECTORY, Mode::empty(), NO_LINKS)
}

/// Opens a directory, and makes it where it is not there.
pub(crate) fn open_or_make(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let made = match fs::mkdirat(&parent, name, IMPLIED) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let directory = open(&parent, name)?;
    if made {
        // The umask does not count.
        fs::fchmod(&directory, IMPLIED)?;
    }
    Ok(directory)
}

/// Kind, mode and the rest of an entry itself; `None` where there is none.
pub(crate) fn about(parent: impl AsFd, name: &OsStr) -> Result<Option<fs::Stat>, Errno> {
    match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The kind of an entry.
pub(crate) fn kind(stat: &fs::Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The names in a directory, in order.
pub(crate) fn names(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}
