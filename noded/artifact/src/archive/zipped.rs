//! zip archives: the central directory first, then the contents one by one.

use std::io::{Read, Seek};

use zip::ZipArchive;
use zip::read::ZipFile;

use super::path::shown;
use super::{ArchiveError, Budget, EntryPath, LinkTarget, PERMISSIONS, Tree};

/// Kind of a file in its Unix mode.
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;

/// Unpacks a zip archive. `on_bytes` is called with the bytes written so far.
///
/// # Errors
/// For a damaged archive, a hostile name, a device, or more than the budget.
pub fn unpack_zip(
    stream: impl Read + Seek,
    tree: &mut dyn Tree,
    budget: &mut Budget,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let mut archive = ZipArchive::new(stream).map_err(reading)?;
    for offset in 0..archive.len() {
        budget.charge_entry()?;
        let mut entry = archive.by_index(offset).map_err(reading)?;
        unpack_entry(&mut entry, tree, budget, on_bytes)?;
    }
    Ok(())
}

fn reading(error: zip::result::ZipError) -> ArchiveError {
    ArchiveError::Stream {
        operation: "reading the archive".to_owned(),
        source: error.into(),
    }
}

fn unpack_entry(
    entry: &mut ZipFile<'_, impl Read>,
    tree: &mut dyn Tree,
    budget: &mut Budget,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let name = entry.name_raw().to_vec();
    let Some(path) = EntryPath::parse(&name)? else {
        return Ok(());
    };
    let mode = entry.unix_mode();
    let permissions = mode.map(|mode| mode & PERMISSIONS);
    let writing = || ArchiveError::stream(format!("writing entry {:?}", shown(&name)));
    match mode.map_or(0, |mode| mode & KIND) {
        _ if entry.is_dir() => tree
            .directory(&path, permissions.unwrap_or(0o755) | 0o700)
            .map_err(writing()),
        0 | REGULAR => {
            let mut content = budget.charged(entry, on_bytes);
            tree.file(&path, permissions.unwrap_or(0o644), None, &mut content)
                .map_err(writing())
        }
        DIRECTORY => tree
            .directory(&path, permissions.unwrap_or(0o755) | 0o700)
            .map_err(writing()),
        SYMLINK => {
            let mut target = Vec::new();
            let limit = LinkTarget::BYTES_MAX as u64 + 1;
            let mut content: &mut dyn Read = entry;
            let mut content = budget.charged(&mut content, on_bytes).take(limit);
            content.read_to_end(&mut target).map_err(writing())?;
            let target = LinkTarget::parse(&name, &target)?;
            tree.symlink(&path, target.as_bytes()).map_err(writing())
        }
        _ => Err(ArchiveError::Special {
            name: shown(&name),
            kind: "a device or a pipe",
        }),
    }
}
