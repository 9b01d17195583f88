//! The look at a staged artifact before it is put in its place: by noded, which does not trust the
//! process that staged it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{self, AtFlags, FileType, Mode};
use rustix::io::Errno;

use crate::merge::Owner;
use crate::place;
use crate::request::Shape;
use crate::staging::{ARTIFACT, Staging};

/// Directories below each other; archives have at most 128.
pub(crate) const DEPTH_MAX: usize = 256;
/// Links that lead to each other; as many as the kernel follows.
const LINKS_MAX: usize = 40;
/// The bits that an artifact does not keep.
const SET_ID_AND_STICKY: u32 = 0o7000;

/// A staged artifact that is not put in its place.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// A link would lead out of the allocation's directory.
    #[error("artifact includes symlink that resolves outside of sandbox: {} -> {target:?}", .path.display())]
    Escape {
        /// Below the artifact.
        path: PathBuf,
        /// The link's target.
        target: OsString,
    },
    /// Devices, pipes and sockets.
    #[error("artifact includes {}, which is no file, directory or link", .path.display())]
    Special {
        /// Below the artifact.
        path: PathBuf,
    },
    /// A tree that is too deep.
    #[error("artifact is deeper than 256 directories at {}", .path.display())]
    Depth {
        /// Below the artifact.
        path: PathBuf,
    },
    /// The artifact is no file, or no directory.
    #[error("the staged artifact is not what was announced")]
    Shape,
    /// An entry cannot be looked at.
    #[error("examining {} of the artifact", .path.display())]
    Operation {
        /// Below the artifact.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
}

impl InspectError {
    /// Whether another attempt could succeed: only where the look itself failed.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::Operation { .. })
    }
}

/// Whether links are judged (a node's `disable_artifact_inspection`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Links that leave the allocation's directory are refused.
    Judged,
    /// All are taken.
    Taken,
}

/// Looks at every entry: refuses devices and links that would leave the allocation's directory,
/// drops set-user-id, set-group-id and sticky bits, and gives all to `owner`. `destination` is
/// relative to the allocation's directory.
///
/// # Errors
/// The first entry that is refused.
pub fn inspect(
    staging: &Staging,
    shape: Shape,
    destination: &Path,
    links: Links,
    owner: Option<Owner>,
) -> Result<(), InspectError> {
    let path = PathBuf::new();
    let artifact = OsStr::new(ARTIFACT);
    let about = place::about(staging.directory(), artifact).map_err(failed(&path))?;
    let about = about.ok_or(InspectError::Shape)?;
    let mut inspection = Inspection {
        root: None,
        destination: destination
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part.to_owned()),
                _ => None,
            })
            .collect(),
        links,
        owner,
    };
    match (shape, place::kind(&about)) {
        (Shape::File, FileType::RegularFile) => {}
        (Shape::Tree, FileType::Directory) => {
            let root = place::open(staging.directory(), artifact);
            let root = root.map_err(failed(&path))?;
            let again = rustix::io::fcntl_dupfd_cloexec(&root, 0);
            inspection.root = Some(again.map_err(failed(&path))?);
            inspection.directory(&root, &path, 0)?;
        }
        _ => return Err(InspectError::Shape),
    }
    inspection.settle(staging.directory(), artifact, &about, &path)
}

fn failed(path: &Path) -> impl Fn(Errno) -> InspectError {
    let path = path.to_owned();
    move |source| InspectError::Operation {
        path: path.clone(),
        source,
    }
}

struct Inspection {
    /// The staged directory.
    root: Option<OwnedFd>,
    destination: Vec<OsString>,
    links: Links,
    owner: Option<Owner>,
}

impl Inspection {
    fn directory(
        &self,
        directory: &OwnedFd,
        path: &Path,
        depth: usize,
    ) -> Result<(), InspectError> {
        if depth > DEPTH_MAX {
            return Err(InspectError::Depth {
                path: path.to_owned(),
            });
        }
        for name in place::names(directory).map_err(failed(path))? {
            let path = path.join(&name);
            let about = place::about(directory, &name).map_err(failed(&path))?;
            let Some(about) = about else { continue };
            match place::kind(&about) {
                FileType::Directory => {
                    let below = place::open(directory, &name).map_err(failed(&path))?;
                    self.directory(&below, &path, depth + 1)?;
                }
                FileType::RegularFile => {}
                FileType::Symlink => self.judge(&path)?,
                _ => return Err(InspectError::Special { path }),
            }
            self.settle(directory, &name, &about, &path)?;
        }
        Ok(())
    }

    /// Mode and owner. The owner first: a change of it drops bits of its own accord.
    fn settle(
        &self,
        above: impl AsFd,
        name: &OsStr,
        about: &fs::Stat,
        path: &Path,
    ) -> Result<(), InspectError> {
        if let Some(Owner { uid, gid }) = self.owner {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            fs::chownat(&above, name, Some(uid), Some(gid), flags).map_err(failed(path))?;
        }
        if place::kind(about) != FileType::Symlink && about.st_mode & SET_ID_AND_STICKY != 0 {
            let mode = Mode::from_raw_mode(about.st_mode & 0o777);
            fs::chmodat(&above, name, mode, AtFlags::empty()).map_err(failed(path))?;
        }
        Ok(())
    }

    /// Follows a link as it will lie, in the tree of the artifact and by name outside of it.
    fn judge(&self, path: &Path) -> Result<(), InspectError> {
        let first = self.target(path)?;
        let escape = || InspectError::Escape {
            path: path.to_owned(),
            target: first.clone(),
        };
        if self.links == Links::Taken {
            return Ok(());
        }
        let mut at = self.destination.clone();
        at.extend(path.iter().map(OsStr::to_owned));
        at.pop();
        let mut pending: VecDeque<OsString> = parts(&first).ok_or_else(escape)?.collect();
        let mut followed = 1;
        while let Some(part) = pending.pop_front() {
            match part.as_bytes() {
                b"" | b"." => continue,
                b".." => {
                    at.pop().ok_or_else(escape)?;
                    continue;
                }
                _ => at.push(part),
            }
            let Some(staged) = self.staged(&at) else {
                continue;
            };
            if let Some(target) = self.link_at(&staged)? {
                followed += 1;
                if followed > LINKS_MAX {
                    return Err(escape());
                }
                at.pop();
                for part in parts(&target).ok_or_else(escape)?.rev() {
                    pending.push_front(part);
                }
            }
        }
        Ok(())
    }

    /// A place below the allocation's directory as a path below the artifact.
    fn staged(&self, at: &[OsString]) -> Option<PathBuf> {
        let below = at.strip_prefix(self.destination.as_slice())?;
        (!below.is_empty()).then(|| below.iter().collect())
    }

    /// The target where a staged entry is a link. No part above it is one: each was followed.
    fn link_at(&self, staged: &Path) -> Result<Option<OsString>, InspectError> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        match place::about(root, staged.as_os_str()) {
            Ok(Some(about)) if place::kind(&about) == FileType::Symlink => {
                self.target(staged).map(Some)
            }
            Ok(_) | Err(Errno::NOTDIR) => Ok(None),
            Err(source) => Err(failed(staged)(source)),
        }
    }

    fn target(&self, path: &Path) -> Result<OsString, InspectError> {
        let root = self.root.as_ref().ok_or(InspectError::Shape)?;
        let target = fs::readlinkat(root, path, Vec::new()).map_err(failed(path))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }
}

/// The parts of a target; `None` for an absolute one.
fn parts(target: &OsStr) -> Option<impl DoubleEndedIterator<Item = OsString>> {
    let bytes = target.as_bytes();
    if bytes.starts_with(b"/") {
        return None;
    }
    let parts = bytes.split(|byte| *byte == b'/');
    Some(parts.map(|part| OsStr::from_bytes(part).to_owned()))
}
