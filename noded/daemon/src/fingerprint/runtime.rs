//! Whether the runtime directory has room for what is kept of running tasks.
//!
//! keeper goes on without its records where there is none, and only its own messages tell of it:
//! what it could not write is missed when it dies, for instance that a stopped task is to be killed
//! at a deadline.

use std::path::Path;

use protocol_model::Node;

use super::host::{self, Disk};
use crate::alloc_dir::{FREE_BYTES_MIN, FREE_INODES_MIN};

/// The node attribute that says so, `true` or `false`.
pub(super) const FULL: &str = "drover.run_dir.full";

/// Whether it is full. Before keeper first makes it, what it will be made in counts.
pub(super) fn is_full(run_dir: &Path) -> bool {
    let there = run_dir.ancestors().find(|path| path.exists());
    there.is_some_and(|path| has_no_room(host::disk(path)))
}

/// Tells the operator where the directory is full now and was not before.
pub(crate) fn tell(run_dir: &Path, before: Option<&Node>, now: &Node) {
    let full = |node: &Node| node.attributes.get(FULL).is_some_and(|full| full == "true");
    if full(now) && !before.is_some_and(full) {
        tracing::error!(
            path = %run_dir.display(),
            "the runtime directory is full: no task starts, and what keeper is told to do later it \
             does not remember when it dies; make room in it, or make its file system larger"
        );
    }
}

fn has_no_room(disk: Disk) -> bool {
    // One that cannot be measured is told of elsewhere; inodes that are not counted do not run out.
    let bytes_short = disk.total > 0 && disk.free < FREE_BYTES_MIN;
    bytes_short || disk.inodes_total > 0 && disk.inodes_free < FREE_INODES_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_inodes_run_out_and_what_is_not_counted_does_not() {
        let roomy = Disk {
            total: 1 << 30,
            used: 1 << 29,
            free: FREE_BYTES_MIN,
            inodes_total: 1000,
            inodes_free: FREE_INODES_MIN,
        };
        let free = FREE_BYTES_MIN - 1;
        let inodes_free = FREE_INODES_MIN - 1;
        assert!(!has_no_room(roomy));
        assert!(has_no_room(Disk { free, ..roomy }));
        assert!(has_no_room(Disk {
            inodes_free,
            ..roomy
        }));
        let inodes_total = 0;
        assert!(!has_no_room(Disk {
            inodes_total,
            inodes_free,
            ..roomy
        }));
        assert!(!has_no_room(Disk::default()));
    }
}
