//! Taking an allocation's directory away: by descriptor, following nothing, leaving other file
//! systems alone, going on after a failure.
//!
//! A task can nest directories as deep as its disk allows, so the walk is a loop that holds one
//! descriptor. It goes up by `..` and makes sure that it arrives where it came from.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use isolation::scratch;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::AllocDirError;

/// Bytes of a path that a message shows: the rest of a longer one is left out of its middle.
const SHOWN_BYTES_MAX: usize = 256;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[derive(Debug, Default)]
struct Failures {
    count: usize,
    first: Option<String>,
}

impl Failures {
    fn add(&mut self, path: &Path, errno: Errno) {
        self.count += 1;
        self.first
            .get_or_insert_with(|| format!("{}: {errno}", shown(path)));
    }

    fn into_result(self, path: &Path) -> Result<(), AllocDirError> {
        match self.first {
            None => Ok(()),
            Some(first) => Err(AllocDirError::Remove {
                path: path.to_owned(),
                failures: self.count,
                first,
            }),
        }
    }
}

pub(super) fn remove_alloc(root: &OwnedFd, path: &Path, name: &str) -> Result<(), AllocDirError> {
    let mut failures = Failures::default();
    match fs::openat(root, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => unmount(&directory, path, &mut failures),
        Err(Errno::NOENT) => return Ok(()),
        Err(_) => {}
    }
    Walk::new(root, path, &mut failures).remove(name);
    failures.into_result(path)
}

/// Removes a directory that holds no mounts, or says which one it holds.
pub(super) fn remove_tree(root: &OwnedFd, path: &Path, name: &str) -> Result<(), AllocDirError> {
    let mut failures = Failures::default();
    Walk::new(root, path, &mut failures).remove(name);
    failures.into_result(path)
}

pub(super) fn drop_secrets(root: &OwnedFd, path: &Path, name: &str) -> Result<(), AllocDirError> {
    let mut failures = Failures::default();
    match fs::openat(root, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => unmount(&directory, path, &mut failures),
        Err(Errno::NOENT) => {}
        Err(errno) => failures.add(path, errno),
    }
    failures.into_result(path)
}

/// Takes the tasks' memory file systems away.
fn unmount(directory: &OwnedFd, path: &Path, failures: &mut Failures) {
    let mounts: Vec<PathBuf> = entries(directory)
        .unwrap_or_default()
        .into_iter()
        .map(|(name, _)| path.join(OsStr::from_bytes(&name)).join("secrets"))
        .filter(|path| path.is_dir())
        .collect();
    if let Err(errors) = scratch::unmount_all(&mounts) {
        for error in errors {
            failures.count += 1;
            failures.first.get_or_insert_with(|| error.to_string());
        }
    }
}

/// Which directory it is, whatever its name.
type Id = (u64, u64);

fn id_of(directory: &OwnedFd) -> Result<Id, Errno> {
    fs::fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}

/// A directory that the walk is in, or below.
struct Level {
    name: Vec<u8>,
    id: Id,
    /// Directories in it that are still to be removed.
    left: Vec<Vec<u8>>,
}

/// The removal of one tree.
struct Walk<'a> {
    root: &'a OwnedFd,
    /// Of the tree itself.
    path: &'a Path,
    levels: Vec<Level>,
    failures: &'a mut Failures,
}

impl<'a> Walk<'a> {
    fn new(root: &'a OwnedFd, path: &'a Path, failures: &'a mut Failures) -> Self {
        Self {
            root,
            path,
            levels: Vec::new(),
            failures,
        }
    }

    /// Removes the directory `name` of the root.
    fn remove(mut self, name: &str) {
        let root = self.root;
        let Some(mut here) = self.enter(root, name.as_bytes().to_vec()) else {
            return;
        };
        while let Some(level) = self.levels.last_mut() {
            if let Some(name) = level.left.pop() {
                here = self.enter(&here, name).unwrap_or(here);
                continue;
            }
            let Some(Level { name, .. }) = self.levels.pop() else {
                return;
            };
            here = match self.parent_of(&here) {
                Ok(parent) => parent,
                Err(errno) => return self.fail(Some(&name), errno),
            };
            self.unlink(&here, &name, AtFlags::REMOVEDIR);
        }
    }

    /// Opens a directory, removes what is none in it, and notes the directories.
    fn enter(&mut self, parent: &OwnedFd, name: Vec<u8>) -> Option<OwnedFd> {
        match self.opened(parent, &name) {
            Ok((directory, id)) => {
                let level = Level {
                    name,
                    id,
                    left: Vec::new(),
                };
                self.levels.push(level);
                let left = self.remove_files(&directory);
                if let Some(level) = self.levels.last_mut() {
                    level.left = left;
                }
                Some(directory)
            }
            Err(Errno::NOENT) => None,
            Err(errno) => {
                self.fail(Some(&name), errno);
                None
            }
        }
    }

    fn opened(&self, parent: &OwnedFd, name: &[u8]) -> Result<(OwnedFd, Id), Errno> {
        let directory = fs::openat(parent, OsStr::from_bytes(name), DIRECTORY, Mode::empty())?;
        let id = id_of(&directory)?;
        // A mount that is not ours to empty.
        match id_of(self.root)?.0 == id.0 {
            true => Ok((directory, id)),
            false => Err(Errno::BUSY),
        }
    }

    fn remove_files(&mut self, directory: &OwnedFd) -> Vec<Vec<u8>> {
        let found = entries(directory).unwrap_or_else(|errno| {
            self.fail(None, errno);
            Vec::new()
        });
        let mut directories = Vec::new();
        for (name, kind) in found {
            match kind {
                FileType::Directory => directories.push(name),
                _ => self.unlink(directory, &name, AtFlags::empty()),
            }
        }
        directories
    }

    /// The directory above `here`, which is the last level now; somebody may have moved `here`.
    fn parent_of(&self, here: &OwnedFd) -> Result<OwnedFd, Errno> {
        let parent = fs::openat(here, "..", DIRECTORY, Mode::empty())?;
        let expected = match self.levels.last() {
            Some(level) => level.id,
            None => id_of(self.root)?,
        };
        match id_of(&parent)? == expected {
            true => Ok(parent),
            false => Err(Errno::STALE),
        }
    }

    fn unlink(&mut self, parent: &OwnedFd, name: &[u8], flags: AtFlags) {
        match fs::unlinkat(parent, OsStr::from_bytes(name), flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => self.fail(Some(name), errno),
        }
    }

    /// Counts what could not be removed: `name` in the last level, or that level itself.
    fn fail(&mut self, name: Option<&[u8]>, errno: Errno) {
        let names = self.levels.iter().map(|level| level.name.as_slice());
        // The first name is the last part of the path of the tree.
        let below = names.chain(name).skip(1).map(OsStr::from_bytes);
        let path = match self.failures.first {
            None => self.path.join(below.collect::<PathBuf>()),
            Some(_) => PathBuf::new(),
        };
        self.failures.add(&path, errno);
    }
}

/// A path for a message.
fn shown(path: &Path) -> String {
    let whole = path.display().to_string();
    if whole.len() <= SHOWN_BYTES_MAX {
        return whole;
    }
    let half = SHOWN_BYTES_MAX / 2;
    let start = whole.floor_char_boundary(half);
    let end = whole.ceil_char_boundary(whole.len() - half);
    format!("{}[...]{}", &whole[..start], &whole[end..])
}

pub(super) fn entries(directory: &OwnedFd) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = fs::statat(directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        found.push((name.to_vec(), kind));
    }
    Ok(found)
}
