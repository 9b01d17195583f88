//! Sizes of allocations' directories: by descriptor, following nothing, on one file system.
//!
//! As in `remove`, the walk is a loop that holds one descriptor: a task can nest directories as
//! deep as its disk allows.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use protocol_model::AllocId;
use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::AllocRoot;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Entries of one allocation that are looked at. One with more is at least as large as these.
const ENTRIES_MAX: usize = 1_000_000;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

type Id = (u64, u64);

fn id_of(directory: &OwnedFd) -> Result<Id, Errno> {
    fs::fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}

impl AllocRoot {
    /// The bytes that each allocation occupies on the disk. Memory file systems, such as those of
    /// secrets, and other mounts are left out; so is an allocation whose directories are moved
    /// meanwhile. Blocks.
    pub fn sizes(&self) -> Vec<(AllocId, u64)> {
        let entries = super::remove::entries(&self.directory).unwrap_or_default();
        let allocs = entries.into_iter().filter_map(|(name, _)| {
            let name = String::from_utf8(name).ok()?;
            name.parse::<AllocId>().ok()
        });
        allocs
            .filter_map(|alloc| Some((alloc, self.size_of(alloc, ENTRIES_MAX).ok()?)))
            .collect()
    }

    fn size_of(&self, alloc: AllocId, entries_max: usize) -> Result<u64, Errno> {
        let name = alloc.to_string();
        let top = fs::openat(&self.directory, name, DIRECTORY, Mode::empty())?;
        let mut walk = Walk {
            device: id_of(&top)?.0,
            levels: Vec::new(),
            left: entries_max,
            bytes: 0,
            linked: BTreeSet::new(),
        };
        walk.run(top)?;
        Ok(walk.bytes)
    }
}

/// A directory that the walk is in, or below.
struct Level {
    id: Id,
    /// Directories in it that are still to be measured.
    left: Vec<Vec<u8>>,
}

struct Walk {
    device: u64,
    levels: Vec<Level>,
    /// Entries that may still be looked at.
    left: usize,
    bytes: u64,
    /// Files with several names that were counted.
    linked: BTreeSet<u64>,
}

impl Walk {
    fn run(&mut self, top: OwnedFd) -> Result<(), Errno> {
        let mut here = top;
        self.enter(&here)?;
        while self.left > 0 {
            let Some(level) = self.levels.last_mut() else {
                break;
            };
            if let Some(name) = level.left.pop() {
                here = self.descend(here, &name)?;
                continue;
            }
            self.levels.pop();
            let Some(above) = self.levels.last() else {
                break;
            };
            let parent = fs::openat(&here, "..", DIRECTORY, Mode::empty())?;
            if id_of(&parent)? != above.id {
                return Err(Errno::STALE);
            }
            here = parent;
        }
        Ok(())
    }

    /// Goes into a directory; stays where one is gone, closed or another file system.
    fn descend(&mut self, here: OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = (DIRECTORY, Mode::empty());
        let Ok(below) = fs::openat(&here, OsStr::from_bytes(name), flags.0, flags.1) else {
            return Ok(here);
        };
        if id_of(&below)?.0 != self.device {
            return Ok(here);
        }
        self.enter(&below)?;
        Ok(below)
    }

    /// Counts what is in a directory, and notes the directories in it.
    fn enter(&mut self, directory: &OwnedFd) -> Result<(), Errno> {
        let mut left = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c".." || self.left == 0 {
                continue;
            }
            self.left -= 1;
            let Ok(stat) = fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_directory && name != c"." {
                // Counted as its own `.`.
                left.push(name.to_bytes().to_vec());
                continue;
            }
            let is_first = is_directory || stat.st_nlink < 2 || self.linked.insert(stat.st_ino);
            if is_first {
                let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                self.bytes = self
                    .bytes
                    .saturating_add(blocks.saturating_mul(BLOCK_BYTES));
            }
        }
        let id = id_of(directory)?;
        self.levels.push(Level { id, left });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    const MIB: usize = 1024 * 1024;

    fn filled(path: &Path, bytes: usize) {
        std::fs::write(path, vec![7; bytes]).unwrap();
    }

    #[test]
    fn all_of_an_allocation_is_counted_once_and_nothing_outside_of_it() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        filled(&outside.path().join("large"), 64 * MIB);
        let alloc = AllocId::from_u128(7);
        let own = root.path().join(alloc.to_string());
        std::fs::create_dir_all(own.join("task/local/deep")).unwrap();
        filled(&own.join("task/local/deep/one"), 2 * MIB);
        filled(&own.join("task/two"), MIB);
        std::fs::hard_link(own.join("task/two"), own.join("again")).unwrap();
        symlink(outside.path(), own.join("task/link")).unwrap();
        symlink(outside.path().join("large"), own.join("large")).unwrap();
        // As large as any, and nothing of it is on the disk.
        let sparse = std::fs::File::create(own.join("sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        std::fs::create_dir(root.path().join("no-allocation")).unwrap();
        let sizes = AllocRoot::open(root.path()).unwrap().sizes();
        let [(id, bytes)] = sizes.as_slice() else {
            panic!("{sizes:?}");
        };
        assert_eq!(*id, alloc);
        let expected = 3 * MIB as u64..4 * MIB as u64;
        assert!(expected.contains(bytes), "{bytes}");
    }

    #[test]
    fn a_look_at_very_many_entries_ends_and_a_deep_one_needs_no_descriptors() {
        let root = tempfile::tempdir().unwrap();
        let alloc = AllocId::from_u128(7);
        let own = root.path().join(alloc.to_string());
        std::fs::create_dir(&own).unwrap();
        for number in 0..50 {
            filled(&own.join(number.to_string()), 4096);
        }
        let allocs = AllocRoot::open(root.path()).unwrap();
        let all = allocs.size_of(alloc, ENTRIES_MAX).unwrap();
        let some = allocs.size_of(alloc, 10).unwrap();
        assert!(some > 0 && some < all / 2, "{some} of {all}");
        let deep: std::path::PathBuf = std::iter::repeat_n("d", 1000).collect();
        std::fs::create_dir_all(own.join(&deep)).unwrap();
        filled(&own.join(&deep).join("f"), MIB);
        let more = allocs.size_of(alloc, ENTRIES_MAX).unwrap();
        assert!(more >= all + MIB as u64, "{more}");
    }
}
