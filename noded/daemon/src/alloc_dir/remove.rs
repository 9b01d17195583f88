//! Taking an allocation's directory away: by descriptor, following nothing, leaving other file
//! systems alone, going on after a failure.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use isolation::scratch;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::AllocDirError;

/// Deeper nesting is left and told: descriptors are held on the way down.
const DEPTH_MAX: usize = 256;

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
            .get_or_insert_with(|| format!("{}: {errno}", path.display()));
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
    let device = fs::fstat(root).map(|stat| stat.st_dev).unwrap_or_default();
    remove(
        root,
        OsStr::new(name),
        path,
        device,
        DEPTH_MAX,
        &mut failures,
    );
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

fn remove(
    parent: &OwnedFd,
    name: &OsStr,
    path: &Path,
    device: u64,
    depth_left: usize,
    failures: &mut Failures,
) {
    let directory = match fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return,
        Err(errno) => return failures.add(path, errno),
    };
    if depth_left == 0 {
        return failures.add(path, Errno::LOOP);
    }
    if !fs::fstat(&directory).is_ok_and(|stat| stat.st_dev == device) {
        // A mount that is not ours to empty.
        return failures.add(path, Errno::BUSY);
    }
    match entries(&directory) {
        Ok(entries) => {
            for (name, kind) in entries {
                let name = OsStr::from_bytes(&name);
                let below = path.join(name);
                if kind == FileType::Directory {
                    remove(&directory, name, &below, device, depth_left - 1, failures);
                } else {
                    unlink(&directory, name, &below, AtFlags::empty(), failures);
                }
            }
        }
        Err(errno) => failures.add(path, errno),
    }
    unlink(parent, name, path, AtFlags::REMOVEDIR, failures);
}

fn unlink(parent: impl AsFd, name: &OsStr, path: &Path, flags: AtFlags, failures: &mut Failures) {
    match fs::unlinkat(parent, name, flags) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => failures.add(path, errno),
    }
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
