//! The entries of an archive as files, below a directory that stays open.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::archive::{EntryPath, Tree, copy};
use crate::place;
use crate::staging::ARTIFACT;

/// Entries as files below a directory. No part of a path is followed where it is a link.
#[derive(Debug)]
pub(crate) struct StagedTree {
    root: OwnedFd,
    /// Archives list one directory after the other: the last one stays open.
    last: Option<(Vec<OsString>, OwnedFd)>,
}

impl StagedTree {
    /// A tree below an open directory.
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { root, last: None }
    }

    fn above(&mut self, path: &EntryPath) -> io::Result<BorrowedFd<'_>> {
        let parts: Vec<OsString> = path.above().map(OsStr::to_owned).collect();
        if parts.is_empty() {
            return Ok(self.root.as_fd());
        }
        let directory = match self.last.take() {
            Some((last, directory)) if last == parts => directory,
            _ => self.make_all(&parts)?,
        };
        Ok(self.last.insert((parts, directory)).1.as_fd())
    }

    fn make_all(&self, parts: &[OsString]) -> io::Result<OwnedFd> {
        let mut directory = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        for part in parts {
            directory = place::open_or_make(&directory, part).map_err(|errno| match errno {
                Errno::LOOP => through_a_link(part),
                errno => errno.into(),
            })?;
        }
        Ok(directory)
    }

    /// Removes what an earlier entry of that name left, except directories.
    fn clear(above: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
        match fs::unlinkat(above, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

fn through_a_link(part: &OsStr) -> io::Error {
    io::Error::other(format!(
        "{part:?} is a symbolic link, and entries lie below it"
    ))
}

impl Tree for StagedTree {
    fn directory(&mut self, path: &EntryPath, mode: u32) -> io::Result<()> {
        let above = self.above(path)?;
        let directory = place::open_or_make(above, path.name())?;
        Ok(fs::fchmod(directory, Mode::from_raw_mode(mode))?)
    }

    fn file(
        &mut self,
        path: &EntryPath,
        mode: u32,
        modified: Option<u64>,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let above = self.above(path)?;
        Self::clear(above, path.name())?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(above, path.name(), flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        copy(content, &mut file)?;
        if let Some(seconds) = modified.and_then(|it| i64::try_from(it).ok()) {
            let time = Timespec {
                tv_sec: seconds,
                tv_nsec: 0,
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            fs::futimens(&file, &times)?;
        }
        Ok(fs::fchmod(&file, Mode::from_raw_mode(mode))?)
    }

    fn symlink(&mut self, path: &EntryPath, target: &[u8]) -> io::Result<()> {
        let above = self.above(path)?;
        Self::clear(above, path.name())?;
        Ok(fs::symlinkat(target, above, path.name())?)
    }

    fn hard_link(&mut self, path: &EntryPath, to: &EntryPath) -> io::Result<()> {
        let parts: Vec<OsString> = to.above().map(OsStr::to_owned).collect();
        let from = self.make_all(&parts)?;
        let above = self.above(path)?;
        let about = place::about(&from, to.name())?.ok_or(Errno::NOENT)?;
        if place::kind(&about) != FileType::RegularFile {
            return Err(io::Error::other("its target is no regular file"));
        }
        if place::about(above, path.name())?.is_some_and(|it| it.st_ino == about.st_ino) {
            return Ok(());
        }
        Self::clear(above, path.name())?;
        Ok(fs::linkat(
            from,
            to.name(),
            above,
            path.name(),
            AtFlags::empty(),
        )?)
    }
}

/// A tree that takes exactly one file, under the artifact's name.
#[derive(Debug)]
pub(crate) struct OnlyFile {
    tree: StagedTree,
    files: usize,
    refused: Option<&'static str>,
}

impl OnlyFile {
    pub(crate) fn new(tree: StagedTree) -> Self {
        Self {
            tree,
            files: 0,
            refused: None,
        }
    }

    /// Content of the archive, where that is not one file.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match self.files {
            0 => Some(self.refused.unwrap_or("none")),
            _ => self.refused,
        }
    }

    /// Whether an entry was refused, which ended the unpacking.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    fn refuse(&mut self, found: &'static str) -> io::Result<()> {
        self.refused = Some(found);
        Err(io::Error::other(found))
    }
}

impl Tree for OnlyFile {
    fn directory(&mut self, _: &EntryPath, _: u32) -> io::Result<()> {
        self.refuse("a directory")
    }

    fn file(
        &mut self,
        _: &EntryPath,
        mode: u32,
        modified: Option<u64>,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        self.files += 1;
        if self.files > 1 {
            return self.refuse("more");
        }
        let path = EntryPath::parse(ARTIFACT.as_bytes()).ok().flatten();
        let path = path.ok_or(Errno::INVAL)?;
        self.tree.file(&path, mode, modified, content)
    }

    fn symlink(&mut self, _: &EntryPath, _: &[u8]) -> io::Result<()> {
        self.refuse("a link")
    }

    fn hard_link(&mut self, _: &EntryPath, _: &EntryPath) -> io::Result<()> {
        self.refuse("a link")
    }
}
