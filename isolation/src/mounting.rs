//! Composing a task's root: every place is found by descriptor beneath it, never by a host path
//! and never through a symlink that an earlier run of the task may have planted.
//!
//! ```text
//! open_tree(task directory) -> root ── binds, mounts, devices, masks ── pivot_root -> "/"
//! ```
//!
//! Binds that stay connected with the host are taken before the child's mounts become private:
//! a taken tree belongs to no namespace yet, and stays a peer of the host's mount.
//!
//! Runs in the child, so nothing allocates.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use crate::spec::{Access, Propagation};
use crate::step::{FileSystem, Missing, MountFlags, Step};
use crate::sys;

/// Longest path that is taken apart (PATH_MAX).
const PATH_BYTES: usize = 4096;
/// Trees that one plan may take; more than any task mounts volumes of this kind.
pub(crate) const TAKEN_TREES_MAX: usize = 16;
/// Mode of directories made for mounts.
const DIRECTORY_MODE: u32 = 0o755;

/// The root under construction.
#[derive(Default)]
pub(crate) struct Composer<'a> {
    root: Option<OwnedFd>,
    /// The directory that was last written to. Forgotten with every mount, which may cover it.
    parent: Option<(&'a [u8], OwnedFd)>,
    /// Taken trees, in order.
    taken: [Option<OwnedFd>; TAKEN_TREES_MAX],
}

/// What a missing mount point is made as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Directory,
    File,
}

impl<'a> Composer<'a> {
    /// Runs one of the steps about files.
    pub(crate) fn run(&mut self, step: &'a Step) -> Result<(), Errno> {
        match step {
            Step::PrivateMounts => rustix::mount::mount_change(
                c"/",
                MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
            ),
            Step::OpenRoot { source } => self.open_root(source),
            Step::Bind {
                source,
                target,
                access,
                missing,
            } => self.bind(source, target, *access, *missing),
            Step::TakeTree {
                source,
                propagation,
            } => self.take(source, *propagation),
            Step::PlaceTree {
                tree,
                target,
                access,
            } => {
                let taken = self.taken.get_mut(usize::from(*tree));
                let tree = taken.and_then(Option::take).ok_or(Errno::BADF)?;
                self.place(&tree, target, *access)
            }
            Step::Mount {
                file_system,
                target,
                options,
                flags,
            } => self.mount(*file_system, target, options, *flags),
            Step::Directory { target, mode } => {
                let (parent, name) = self.parent_of(target)?;
                exists_is_fine(rustix::fs::mkdirat(
                    parent,
                    name,
                    Mode::from_raw_mode(*mode),
                ))
            }
            Step::Device {
                target,
                major,
                minor,
                mode,
            } => {
                let (parent, name) = self.parent_of(target)?;
                rustix::fs::mknodat(
                    parent,
                    name,
                    FileType::CharacterDevice,
                    Mode::from_raw_mode(*mode),
                    rustix::fs::makedev(*major, *minor),
                )
            }
            Step::Symlink { target, content } => {
                let (parent, name) = self.parent_of(target)?;
                rustix::fs::symlinkat(content.as_c_str(), parent, name)
            }
            Step::Mask { target } => self.mask(target),
            Step::ReadOnly { target } => self.read_only(target),
            Step::PivotRoot => self.pivot(),
            // The caller sends only the steps above here.
            _ => Err(Errno::INVAL),
        }
    }

    fn root(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.root.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Recursive, because the task's secrets are a file system of their own.
    fn open_root(&mut self, source: &CStr) -> Result<(), Errno> {
        let tree = clone_tree(CWD, source, OpenTreeFlags::AT_RECURSIVE)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        sys::mount_setattr(tree.as_fd(), attributes)?;
        rustix::mount::move_mount(
            tree.as_fd(),
            c"",
            CWD,
            source,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?;
        self.root = Some(tree);
        Ok(())
    }

    fn bind(
        &mut self,
        source: &CStr,
        target: &'a CStr,
        access: Access,
        missing: Missing,
    ) -> Result<(), Errno> {
        let tree = match (
            clone_tree(CWD, source, OpenTreeFlags::AT_RECURSIVE),
            missing,
        ) {
            (Err(Errno::NOENT), Missing::Skip) => return Ok(()),
            (tree, _) => tree?,
        };
        self.place(&tree, target, access)
    }

    fn take(&mut self, source: &CStr, propagation: Propagation) -> Result<(), Errno> {
        let tree = clone_tree(CWD, source, OpenTreeFlags::AT_RECURSIVE)?;
        if propagation == Propagation::HostToTask {
            sys::receive_only(tree.as_fd())?;
        }
        let free = self.taken.iter_mut().find(|taken| taken.is_none());
        *free.ok_or(Errno::MFILE)? = Some(tree);
        Ok(())
    }

    fn place(&mut self, tree: &OwnedFd, target: &'a CStr, access: Access) -> Result<(), Errno> {
        let mut attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        if access == Access::ReadOnly {
            attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        sys::mount_setattr(tree.as_fd(), attributes)?;
        let place = match kind(tree)? {
            FileType::Directory => Place::Directory,
            _ => Place::File,
        };
        self.attach(tree, target, place)
    }

    fn mount(
        &mut self,
        file_system: FileSystem,
        target: &'a CStr,
        options: &[(CString, CString)],
        flags: MountFlags,
    ) -> Result<(), Errno> {
        let mount = new_mount(file_system, options, flags)?;
        self.attach(&mount, target, Place::Directory)
    }

    /// A directory disappears behind an empty read-only file system, a file behind /dev/null.
    fn mask(&mut self, target: &'a CStr) -> Result<(), Errno> {
        let Some(place) = found(self.find(target))? else {
            return Ok(());
        };
        let cover = if kind(&place)? == FileType::Directory {
            let flags = MountFlags {
                read_only: true,
                no_set_uid: true,
                no_devices: true,
                no_exec: true,
            };
            new_mount(FileSystem::Tmpfs, &[], flags)?
        } else {
            clone_tree(self.root()?, c"dev/null", OpenTreeFlags::empty())?
        };
        self.cover(&cover, &place)
    }

    fn read_only(&mut self, target: &'a CStr) -> Result<(), Errno> {
        let Some(place) = found(self.find(target))? else {
            return Ok(());
        };
        let flags = OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::AT_RECURSIVE;
        let tree = clone_tree(place.as_fd(), c"", flags)?;
        let attribute = MountAttrFlags::MOUNT_ATTR_RDONLY;
        sys::mount_setattr(tree.as_fd(), attribute)?;
        self.cover(&tree, &place)
    }

    /// The old root ends up below the new one and is detached from there (pivot_root(2)).
    fn pivot(&mut self) -> Result<(), Errno> {
        self.parent = None;
        rustix::process::fchdir(self.root()?)?;
        rustix::process::pivot_root(c".", c".")?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
        rustix::process::chdir(c"/")?;
        self.root = None;
        Ok(())
    }

    /// Puts a detached mount at `target`, which is made when it is not there.
    fn attach(&mut self, mount: &OwnedFd, target: &'a CStr, place: Place) -> Result<(), Errno> {
        let found = match self.find(target) {
            Err(Errno::NOENT) => {
                self.make(target, place)?;
                self.find(target)?
            }
            result => result?,
        };
        self.cover(mount, &found)
    }

    fn cover(&mut self, mount: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
        self.parent = None;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(mount.as_fd(), c"", place.as_fd(), c"", flags)
    }

    fn make(&mut self, target: &'a CStr, place: Place) -> Result<(), Errno> {
        let (parent, name) = self.parent_of(target)?;
        match place {
            Place::Directory => exists_is_fine(rustix::fs::mkdirat(
                parent,
                name,
                Mode::from_raw_mode(DIRECTORY_MODE),
            )),
            Place::File => rustix::fs::openat(
                parent,
                name,
                OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o644),
            )
            .map(drop),
        }
    }

    /// Opens a place without touching it.
    fn find(&self, target: &CStr) -> Result<OwnedFd, Errno> {
        find(self.root()?, target, OFlags::PATH)
    }

    /// The directory that `target` is in, made with all above it when missing, and the last name.
    fn parent_of(&mut self, target: &'a CStr) -> Result<(BorrowedFd<'_>, &'a CStr), Errno> {
        let bytes = target.to_bytes_with_nul();
        let Some(slash) = bytes.iter().rposition(|byte| *byte == b'/') else {
            return Ok((self.root()?, target));
        };
        let (prefix, name) = (&bytes[..slash], &bytes[slash + 1..]);
        let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
        let known = self
            .parent
            .as_ref()
            .is_some_and(|(known, _)| *known == prefix);
        if !known {
            let directory = make_path(self.root()?, prefix)?;
            self.parent = Some((prefix, directory));
        }
        let (_, directory) = self.parent.as_ref().ok_or(Errno::BADF)?;
        Ok((directory.as_fd(), name))
    }
}

/// Opens the directory `path` beneath `root`, making what is missing, one name at a time.
fn make_path(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut directory: Option<OwnedFd> = None;
    let mut buffer = [0_u8; PATH_BYTES];
    for name in path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
    {
        let room = buffer.get_mut(..=name.len()).ok_or(Errno::NAMETOOLONG)?;
        room[..name.len()].copy_from_slice(name);
        room[name.len()] = 0;
        let name = CStr::from_bytes_with_nul(room).map_err(|_| Errno::INVAL)?;
        let above = directory.as_ref().map_or(root, AsFd::as_fd);
        let below = match find(above, name, OFlags::PATH | OFlags::DIRECTORY) {
            Err(Errno::NOENT) => {
                let mode = Mode::from_raw_mode(DIRECTORY_MODE);
                exists_is_fine(rustix::fs::mkdirat(above, name, mode))?;
                find(above, name, OFlags::PATH | OFlags::DIRECTORY)?
            }
            result => result?,
        };
        directory = Some(below);
    }
    directory.ok_or(Errno::INVAL)
}

fn find(root: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat2(
        root,
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

fn clone_tree(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: OpenTreeFlags,
) -> Result<OwnedFd, Errno> {
    let always = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    rustix::mount::open_tree(directory, path, flags | always)
}

fn new_mount(
    file_system: FileSystem,
    options: &[(CString, CString)],
    flags: MountFlags,
) -> Result<OwnedFd, Errno> {
    let name = file_system.kernel_name();
    let context = rustix::mount::fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), key.as_c_str(), value.as_c_str())?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let MountFlags {
        read_only,
        no_set_uid,
        no_devices,
        no_exec,
    } = flags;
    let attributes = [
        (read_only, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (no_set_uid, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (no_devices, MountAttrFlags::MOUNT_ATTR_NODEV),
        (no_exec, MountAttrFlags::MOUNT_ATTR_NOEXEC),
    ]
    .into_iter()
    .filter_map(|(set, attribute)| set.then_some(attribute))
    .fold(MountAttrFlags::empty(), |all, attribute| all | attribute);
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn kind(fd: &OwnedFd) -> Result<FileType, Errno> {
    let status = rustix::fs::statat(fd, c"", AtFlags::EMPTY_PATH)?;
    Ok(FileType::from_raw_mode(status.st_mode))
}

/// Absence is an answer, not an error.
fn found(result: Result<OwnedFd, Errno>) -> Result<Option<OwnedFd>, Errno> {
    match result {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn exists_is_fine(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}
