//! Keeping a network namespace alive by a name: a bind mount of it over an empty file, as `ip
//! netns` does it. What holds a pinned namespace is the mount, so that it outlives whoever made it;
//! a reboot ends it.
//!
//! A pin is seen in the mount namespace it was made in, so the processes that share pins must share
//! that too (no `PrivateTmp=`, `ProtectSystem=` or the like in a systemd unit).

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, Mode, OFlags, fstat, fstatfs, open, unlink};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, UnmountFlags, move_mount, open_tree, unmount};

use crate::sys;

/// What statfs(2) says of namespaces (linux/magic.h).
const NSFS_MAGIC: FsWord = 0x6e73_6673;

/// Why a namespace could not be kept, found or let go.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The descriptor is something else than a network namespace.
    #[error("what is to be pinned to {path} is no network namespace")]
    NotANamespace {
        /// Where it should have been pinned.
        path: PathBuf,
    },
    /// Another namespace has this name.
    #[error("another network namespace is pinned to {path}")]
    Taken {
        /// The name.
        path: PathBuf,
    },
    /// The file to mount over could not be made.
    #[error("cannot make {path}")]
    Create {
        /// The name.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The namespace could not be mounted.
    #[error("cannot mount a network namespace on {path}")]
    Mount {
        /// The name.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The pin could not be opened.
    #[error("cannot open the pinned network namespace {path}")]
    Open {
        /// The name.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The pin could not be unmounted.
    #[error("cannot unmount the network namespace {path}")]
    Unmount {
        /// The name.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The file below the mount could not be removed.
    #[error("cannot remove {path}")]
    Remove {
        /// The name.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// Keeps `namespace` alive under the name `path` until [`unpin`]. Its folder must exist, and only
/// the caller may write there. Pinning what is pinned there already succeeds; an empty file that a
/// crash left there is used.
///
/// # Errors
/// Another namespace is pinned there, the descriptor is no network namespace, or the kernel
/// refused, which it does without CAP_SYS_ADMIN.
pub fn pin(path: &Path, namespace: impl AsFd) -> Result<(), PinError> {
    let namespace = namespace.as_fd();
    if !is_network(namespace) {
        return Err(PinError::NotANamespace { path: path.into() });
    }
    if let Some(pinned) = open_pinned(path)? {
        return if identity(&pinned, path)? == identity(namespace, path)? {
            Ok(())
        } else {
            Err(PinError::Taken { path: path.into() })
        };
    }
    let flags =
        OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|source| PinError::Create {
        path: path.into(),
        source,
    })?;
    let mounted = || {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let mount = open_tree(namespace, c"", flags)?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&mount, c"", &file, c"", flags)
    };
    mounted().map_err(|source| PinError::Mount {
        path: path.into(),
        source,
    })
}

/// The namespace that is pinned under the name `path`; `None` where nothing is: no file, or one
/// that nothing is mounted on (a crash in the middle of [`pin`] or [`unpin`] leaves that).
///
/// # Errors
/// The name exists and cannot be opened.
pub fn open_pinned(path: &Path) -> Result<Option<OwnedFd>, PinError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(opened) if is_network(&opened) => Ok(Some(opened)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(source) => Err(PinError::Open {
            path: path.into(),
            source,
        }),
    }
}

/// Ends what [`pin`] began. The namespace itself goes on as long as a process is in it or somebody
/// holds a descriptor of it. Ending what is not there succeeds.
///
/// # Errors
/// The kernel refused. What was done stays done, so that it can be tried again.
pub fn unpin(path: &Path) -> Result<(), PinError> {
    match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // INVAL: nothing is mounted there.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(source) => {
            return Err(PinError::Unmount {
                path: path.into(),
                source,
            });
        }
    }
    match unlink(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(source) => Err(PinError::Remove {
            path: path.into(),
            source,
        }),
    }
}

/// By its file system and its kind: what a file is called says nothing of a mount.
fn is_network(descriptor: impl AsFd) -> bool {
    let descriptor = descriptor.as_fd();
    fstatfs(descriptor).is_ok_and(|stat| stat.f_type == NSFS_MAGIC)
        && sys::is_network_namespace(descriptor)
}

/// A namespace is told by device and inode (namespaces(7)).
fn identity(namespace: impl AsFd, path: &Path) -> Result<(u64, u64), PinError> {
    let stat = fstat(namespace).map_err(|source| PinError::Open {
        path: path.into(),
        source,
    })?;
    Ok((stat.st_dev, stat.st_ino))
}
