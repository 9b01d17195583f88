//! The guest's second disk: what is to be tried. Made anew for every start, read-only in the guest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::run_quietly;

/// Folders and files of the tree that the guest gets, and where it finds them below `/opt/drover`.
/// The quickstart finds its own files by their place in the tree.
const PARTS: &[(&str, &str)] = &[
    ("hack/vm/guest", "guest"),
    ("hack/quickstart", "hack/quickstart"),
    ("hack/prerequisites", "hack/prerequisites"),
    ("hack/jobs", "hack/jobs"),
    ("controlplane/units/.", "units/"),
    ("noded/units/.", "units/"),
];
/// For the file system itself.
const ROOM_MIB: u64 = 32;

/// Builds the disk `load.img` in `folder`.
///
/// # Errors
/// If a part is missing or there is no room.
pub(super) fn build<'a>(
    root: &Path,
    folder: &Path,
    binaries: &Path,
    programs: impl Iterator<Item = &'a str>,
) -> anyhow::Result<PathBuf> {
    let staging = folder.join("load");
    if staging.exists() {
        std::fs::remove_dir_all(&staging)
            .with_context(|| format!("remove {}", staging.display()))?;
    }
    for below in ["bin", "units", "hack"] {
        std::fs::create_dir_all(staging.join(below))?;
    }
    for program in programs {
        // Names of functions stay, for backtraces; what a debugger needs is most of the file.
        run_quietly(
            Command::new("strip")
                .args(["--strip-debug", "-o"])
                .arg(staging.join("bin").join(program))
                .arg(binaries.join(program)),
        )?;
    }
    for (from, to) in PARTS {
        run_quietly(
            Command::new("cp")
                .arg("-R")
                .arg(root.join(from))
                .arg(staging.join(to)),
        )?;
    }
    let disk = folder.join("load.img");
    if disk.exists() {
        std::fs::remove_file(&disk)?;
    }
    let size_mib = size_bytes(&staging)? / (1 << 20) + ROOM_MIB;
    run_quietly(
        Command::new("mke2fs")
            .args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0"])
            .args(["-L", "drover-load", "-d"])
            .arg(&staging)
            .arg(&disk)
            .arg(format!("{size_mib}M")),
    )?;
    std::fs::remove_dir_all(&staging)?;
    Ok(disk)
}

fn size_bytes(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            size_bytes(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (from, _) in PARTS {
            assert!(root.join(from).exists(), "{from}");
        }
    }
}
