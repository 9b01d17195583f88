//! Where cgroup v2 is mounted: asked of the kernel, checked by the file system's magic number.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::io::Errno;

/// `CGROUP2_SUPER_MAGIC` (linux/magic.h).
const CGROUP2_MAGIC: u64 = 0x6367_7270;

/// A mounted cgroup v2 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub path: PathBuf,
    /// Whether version 1 hierarchies are mounted too: their controllers are missing here.
    pub version_1_beside: bool,
}

/// Why cgroup v2 cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The list of mounts could not be read.
    #[error("cannot read /proc/self/mountinfo")]
    MountInfo(#[source] io::Error),
    /// No such mount.
    #[error(
        "cgroup v2 is not mounted: boot with systemd.unified_cgroup_hierarchy=1, or mount it \
         with `mount -t cgroup2 cgroup2 /sys/fs/cgroup`"
    )]
    NotMounted,
    /// Something else is at the mount point.
    #[error("{path:?} is listed as cgroup v2 but is another file system")]
    Covered {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point could not be examined.
    #[error("cannot examine the cgroup mount {path:?}")]
    Examine {
        /// The mount point.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
}

/// Finds the mount of cgroup v2.
///
/// # Errors
/// There is none, or it is hidden behind another mount.
pub fn find_mount() -> Result<Mount, MountError> {
    let text = fs::read_to_string("/proc/self/mountinfo").map_err(MountError::MountInfo)?;
    let mount = parse(&text).ok_or(MountError::NotMounted)?;
    let examined = rustix::fs::statfs(&mount.path).map_err(|source| MountError::Examine {
        path: mount.path.clone(),
        source,
    })?;
    // The field's type differs between processors; the magic number fits them all.
    if u64::try_from(examined.f_type) == Ok(CGROUP2_MAGIC) {
        Ok(mount)
    } else {
        Err(MountError::Covered { path: mount.path })
    }
}

/// The first cgroup2 line that shows the root of the hierarchy (proc_pid_mountinfo(5)).
fn parse(text: &str) -> Option<Mount> {
    let mut path = None;
    let mut version_1_beside = false;
    for line in text.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        match right.split(' ').next() {
            Some("cgroup2") => {
                let mut fields = left.split(' ').skip(3);
                let (root, point) = (fields.next(), fields.next());
                // A bind of a part of the tree is no place to start from.
                if root == Some("/") && path.is_none() {
                    path = point.map(unescape);
                }
            }
            Some("cgroup") => version_1_beside = true,
            _ => {}
        }
    }
    path.map(|path| Mount {
        path,
        version_1_beside,
    })
}

/// Spaces and the like are written as three octal digits.
fn unescape(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_hybrid_host_is_found_beside_version_1() {
        let text = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let expected = Mount {
            path: PathBuf::from("/sys/fs/cgroup/unified"),
            version_1_beside: true,
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn the_mount_of_a_unified_host_is_found_with_optional_fields() {
        let text = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let expected = Mount {
            path: PathBuf::from("/sys/fs/cgroup"),
            version_1_beside: false,
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn a_part_of_the_tree_does_not_count_and_spaces_are_read() {
        assert_eq!(
            parse("35 24 0:30 /docker/x /mnt rw - cgroup2 cgroup2 rw"),
            None
        );
        let spaced = parse("35 24 0:30 / /a\\040b rw - cgroup2 cgroup2 rw");
        assert_eq!(spaced.map(|mount| mount.path), Some(PathBuf::from("/a b")));
        assert_eq!(parse("nonsense\n"), None);
    }
}
