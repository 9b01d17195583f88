//! What noded says through the io directory: names that appear and vanish, seen by inotify, and by
//! a scan at start and after an overflow.

use crate::io::{RETIRED_SUFFIX, SPEC_SUFFIX};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{self};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// One change to look into. The file's present state decides what it means, so a repeat or a late
/// one is harmless.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    /// The specification of this stream appeared or changed.
    Spec(String),
    /// This stream is to be drained and removed.
    Retired(String),
}

#[derive(Debug)]
pub(crate) struct IoDirectory {
    directory: OwnedFd,
    inotify: OwnedFd,
}

impl IoDirectory {
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = fs::OFlags::RDONLY | fs::OFlags::DIRECTORY | fs::OFlags::CLOEXEC;
        let directory = fs::open(path, flags, fs::Mode::empty())?;
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::MOVED_TO | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        inotify::add_watch(&inotify, path, events)?;
        Ok(Self { directory, inotify })
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn inotify(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// Every name that is there now.
    pub(crate) fn scan(&self) -> Result<BTreeSet<Change>, Errno> {
        let mut changes = BTreeSet::new();
        for entry in fs::Dir::read_from(&self.directory)? {
            changes.extend(entry?.file_name().to_str().ok().and_then(change_of));
        }
        Ok(changes)
    }

    /// What changed since the last call; all names when the kernel lost some events.
    pub(crate) fn changes(&self) -> Result<BTreeSet<Change>, Errno> {
        let mut changes = BTreeSet::new();
        let mut space = [MaybeUninit::uninit(); 16 * 1024];
        let mut reader = inotify::Reader::new(&self.inotify, &mut space);
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    changes.extend(self.scan()?);
                }
                Ok(event) => {
                    let name = event.file_name().and_then(|name| name.to_str().ok());
                    let change = name.and_then(change_of);
                    // A specification that was deleted outright counts as retired.
                    changes.extend(match change {
                        Some(Change::Spec(name)) if event.events().contains(ReadFlags::DELETE) => {
                            Some(Change::Retired(name))
                        }
                        Some(Change::Retired(_)) if event.events().contains(ReadFlags::DELETE) => {
                            None
                        }
                        other => other,
                    });
                }
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

fn change_of(file_name: &str) -> Option<Change> {
    if let Some(name) = file_name.strip_suffix(SPEC_SUFFIX) {
        return Some(Change::Spec(name.to_owned()));
    }
    file_name
        .strip_suffix(RETIRED_SUFFIX)
        .map(|name| Change::Retired(name.to_owned()))
}
