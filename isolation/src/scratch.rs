//! The small memory file systems that hold a task's secrets: in noded's own mount namespace, so
//! that noded writes them before the task exists; a task's root takes them along. keeper must
//! therefore live in the same mount namespace as noded (no `PrivateMounts=` in their units).

use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, unmount,
};

/// A mount that failed.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// The file system could not be mounted.
    #[error("cannot mount a memory file system at {path:?}")]
    Mount {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// It could not be taken away.
    #[error("cannot unmount {path:?}")]
    Unmount {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// Mounts a tmpfs of `size_bytes` on the existing directory `path`: no devices, no set-user-id, no
/// programs. `mode` is that of its root directory.
///
/// # Errors
/// The kernel refused.
pub fn mount(path: &Path, size_bytes: u64, mode: u32) -> Result<(), ScratchError> {
    attempt(path, size_bytes, mode).map_err(|source| ScratchError::Mount {
        path: path.to_owned(),
        source,
    })
}

fn attempt(path: &Path, size_bytes: u64, mode: u32) -> Result<(), Errno> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "size", size_bytes.to_string())?;
    fsconfig_set_string(&context, "mode", format!("{mode:o}"))?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(
        &mount,
        "",
        CWD,
        path,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

/// Takes mounts away, last first. A path that is no mount point, or gone, is done already.
///
/// # Errors
/// Every path that is still mounted.
pub fn unmount_all(paths: &[PathBuf]) -> Result<(), Vec<ScratchError>> {
    let errors: Vec<ScratchError> = paths
        .iter()
        .rev()
        .filter_map(
            |path| match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                Ok(()) | Err(Errno::INVAL | Errno::NOENT) => None,
                Err(source) => Some(ScratchError::Unmount {
                    path: path.clone(),
                    source,
                }),
            },
        )
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}
