//! Files of allocations, opened and written by descriptor.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use protocol_model::AllocId;
use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{AllocDirError, AllocRoot, DIRECTORY, failed};

/// What a mode may hold besides the kind of the file.
const PERMISSIONS: u32 = 0o777;

/// What a written file is like.
#[derive(Debug, Clone, Copy)]
pub struct FileAttributes {
    /// Permission bits. Those that give a user or group away (set-id) and the sticky bit are left
    /// out, as Nomad does: files of root are written here.
    pub mode: u32,
    /// Owner and group; `None` leaves them as they are. Both absent: noded's own.
    pub owner: Option<(Option<rustix::process::Uid>, Option<rustix::process::Gid>)>,
}

impl AllocRoot {
    /// Opens a file or directory of an allocation, `path` being relative to its directory.
    ///
    /// # Errors
    /// Where it is not there, or the path leads out of the directory by `..` or a link.
    pub fn open_beneath(
        &self,
        alloc: AllocId,
        path: &Path,
        flags: OFlags,
    ) -> Result<OwnedFd, AllocDirError> {
        let own = self.directory_of(alloc)?;
        let relative = relative(path);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        fs::openat2(
            &own,
            &relative,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        )
        .map_err(|source| match source {
            Errno::XDEV | Errno::LOOP => AllocDirError::Escapes {
                path: path.to_owned(),
            },
            source => failed("opening", path)(source),
        })
    }

    /// Writes a file whole: it appears with its content, mode and owner or not at all. The
    /// directories above it are made; none of them may be a link. `path` is a host path beneath the
    /// allocation's directory.
    ///
    /// # Errors
    /// Where the path leads elsewhere, or something cannot be written.
    pub fn write_file(
        &self,
        alloc: AllocId,
        path: &Path,
        content: &[u8],
        attributes: FileAttributes,
    ) -> Result<(), AllocDirError> {
        let (directory, name) = self.place_of(alloc, path)?;
        put(&directory, &name, path, content, attributes)
    }

    /// As [`Self::write_file`], where a task may have been before: a link, FIFO, device or
    /// directory at the path is left as it is.
    ///
    /// # Errors
    /// As [`Self::write_file`], and where something other than a regular file is there.
    pub fn replace_file(
        &self,
        alloc: AllocId,
        path: &Path,
        content: &[u8],
        attributes: FileAttributes,
    ) -> Result<(), AllocDirError> {
        let (directory, name) = self.place_of(alloc, path)?;
        match fs::statat(&directory, &name, fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if fs::FileType::from_raw_mode(found.st_mode).is_file() => {}
            Ok(_) => {
                let path = path.to_owned();
                return Err(AllocDirError::NotAFile { path });
            }
            Err(Errno::NOENT) => {}
            Err(source) => return Err(failed("looking at", path)(source)),
        }
        put(&directory, &name, path, content, attributes)
    }

    /// The directory of a file that is to be written, made where it is missing, and the file's name
    /// in it.
    fn place_of(&self, alloc: AllocId, path: &Path) -> Result<(OwnedFd, OsString), AllocDirError> {
        let escapes = || AllocDirError::Escapes {
            path: path.to_owned(),
        };
        let below = path
            .strip_prefix(self.path_of(alloc))
            .map_err(|_| escapes())?;
        let name = below.file_name().ok_or_else(escapes)?;
        let mut directory = self.directory_of(alloc)?;
        for part in below.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else {
                return Err(escapes());
            };
            directory = open_or_make(&directory, part, path)?;
        }
        Ok((directory, name.to_owned()))
    }
}

fn put(
    directory: &OwnedFd,
    name: &OsStr,
    path: &Path,
    content: &[u8],
    attributes: FileAttributes,
) -> Result<(), AllocDirError> {
    let mut temporary = name.to_owned();
    temporary.push(".drover-new");
    let done = put_beside(directory, &temporary, name, path, content, attributes);
    if done.is_err() {
        // A full file system gets its room back. Gone already is as good.
        let _ = fs::unlinkat(directory, &temporary, fs::AtFlags::empty());
    }
    done
}

fn put_beside(
    directory: &OwnedFd,
    temporary: &OsStr,
    name: &OsStr,
    path: &Path,
    content: &[u8],
    attributes: FileAttributes,
) -> Result<(), AllocDirError> {
    let at = |operation| failed(operation, path);
    // A file that an interrupted attempt left.
    match fs::unlinkat(directory, temporary, fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(source) => return Err(at("writing")(source)),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = fs::openat(directory, temporary, flags, Mode::from_raw_mode(0o600))
        .map_err(at("making"))?;
    write_all(&file, content).map_err(at("writing"))?;
    if let Some((uid, gid)) = attributes.owner {
        fs::fchown(&file, uid, gid).map_err(at("giving away"))?;
    }
    fs::fchmod(&file, Mode::from_raw_mode(attributes.mode & PERMISSIONS))
        .map_err(at("setting the mode of"))?;
    fs::renameat(directory, temporary, directory, name).map_err(at("renaming"))
}

/// A path of a request: absolute ones are meant from the allocation's directory on.
fn relative(path: &Path) -> PathBuf {
    let relative: PathBuf = path
        .components()
        .filter(|part| !matches!(part, Component::RootDir | Component::Prefix(_)))
        .collect();
    if relative.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        relative
    }
}

fn open_or_make(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<OwnedFd, AllocDirError> {
    let made = match fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(source) => return Err(failed("making the directory of", path)(source)),
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = fs::openat2(parent, name, DIRECTORY, Mode::empty(), resolve);
    let directory = opened.map_err(|source| match source {
        Errno::LOOP | Errno::XDEV => AllocDirError::Escapes {
            path: path.to_owned(),
        },
        source => failed("opening the directory of", path)(source),
    })?;
    if made {
        // The umask does not count.
        let mode = Mode::from_raw_mode(0o755);
        fs::fchmod(&directory, mode).map_err(failed("setting the mode of", path))?;
    }
    Ok(directory)
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
