//! tar archives: headers judged one by one, contents streamed.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use tar::{Archive, Entry, EntryType};

use super::path::shown;
use super::{ArchiveError, Budget, EntryPath, LinkTarget, PERMISSIONS, Tree};

/// Bytes that may lie between the contents of two files: a header, its long names and attributes,
/// which the reader holds in memory, and padding.
const HEADER_BYTES_MAX: u64 = 1024 * 1024;
/// A directory's owner can always enter and change it, else later entries would have no place.
const OWNER: u32 = 0o700;

/// Unpacks a plain tar stream. `on_bytes` is called with the bytes written so far.
///
/// # Errors
/// For a damaged stream, a hostile name, a device, or more than the budget.
pub fn unpack_tar(
    stream: impl Read,
    tree: &mut dyn Tree,
    budget: &mut Budget,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let allowance = Rc::new(Cell::new(Some(HEADER_BYTES_MAX)));
    let stream = Guarded {
        stream,
        allowance: Rc::clone(&allowance),
    };
    let mut archive = Archive::new(stream);
    let entries = archive.entries().map_err(reading())?;
    for entry in entries {
        let mut entry = entry.map_err(reading())?;
        budget.charge_entry()?;
        allowance.set(None);
        unpack_entry(&mut entry, tree, budget, on_bytes)?;
        allowance.set(Some(HEADER_BYTES_MAX));
    }
    // To the end, where the checksum of a compressed stream lies. Padding may be long.
    allowance.set(Some(HEADER_BYTES_MAX));
    let mut rest = archive.into_inner().stream.take(HEADER_BYTES_MAX);
    io::copy(&mut rest, &mut io::sink()).map_err(reading())?;
    Ok(())
}

fn reading() -> impl FnOnce(io::Error) -> ArchiveError {
    ArchiveError::stream("reading the archive")
}

fn unpack_entry(
    entry: &mut Entry<'_, impl Read>,
    tree: &mut dyn Tree,
    budget: &mut Budget,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<(), ArchiveError> {
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        return Ok(());
    }
    let name = entry.path_bytes().into_owned();
    let mode = entry.header().mode().map_err(reading())? & PERMISSIONS;
    let writing = || ArchiveError::stream(format!("writing entry {:?}", shown(&name)));
    let Some(path) = EntryPath::parse(&name)? else {
        // The tree itself.
        return Ok(());
    };
    match kind {
        EntryType::Directory => tree.directory(&path, mode | OWNER).map_err(writing()),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            // Archives older than ustar write a directory as a file whose name ends so.
            if name.ends_with(b"/") {
                return tree.directory(&path, mode | OWNER).map_err(writing());
            }
            let modified = entry.header().mtime().ok();
            let mut content = budget.charged(entry, on_bytes);
            tree.file(&path, mode, modified, &mut content)
                .map_err(writing())
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            let target = LinkTarget::parse(&name, &target)?;
            tree.symlink(&path, target.as_bytes()).map_err(writing())
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            let to = EntryPath::parse(&target).ok().flatten();
            let to = to.ok_or_else(|| ArchiveError::HardLink {
                name: shown(&name),
                target: shown(&target),
            })?;
            tree.hard_link(&path, &to).map_err(writing())
        }
        kind => Err(ArchiveError::Special {
            name: shown(&name),
            kind: described(kind),
        }),
    }
}

fn described(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Char => "a character device",
        EntryType::Block => "a block device",
        EntryType::Fifo => "a named pipe",
        _ => "of an unknown kind",
    }
}

/// Refuses what lies between two contents and is longer than [`HEADER_BYTES_MAX`].
struct Guarded<R> {
    stream: R,
    /// `None` while a content is read, which the budget limits.
    allowance: Rc<Cell<Option<u64>>>,
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        if let Some(allowance) = self.allowance.get() {
            let left = allowance
                .checked_sub(count as u64)
                .ok_or_else(|| io::Error::other("the header of an entry is longer than 1 MiB"))?;
            self.allowance.set(Some(left));
        }
        Ok(count)
    }
}
