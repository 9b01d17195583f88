//! Artifacts: sources of job files, and archives of foreign servers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};

use noded_artifact::{
    ArchiveError, Budget, EntryPath, Getter, Source, Tree, masked, unpack_tar, unpack_zip,
};

use crate::Verdict;

/// Bytes and entries that a target unpacks at most.
const UNPACKED_BYTES_MAX: u64 = 1024 * 1024;
const ENTRIES_MAX: u64 = 64;
/// A block of a tar archive.
const BLOCK: usize = 512;

/// A source, and its options in the lines below (`name=value`).
pub fn artifact_source(data: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(data);
    let (source, options) = text.split_once('\n').unwrap_or((&text, ""));
    let options: BTreeMap<String, String> = options
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let once = masked(source);
    assert_eq!(masked(&once), once, "a masked URL has no secrets left");
    match Source::parse(source, &options) {
        Ok(parsed) => {
            assert!(!parsed.url.starts_with('-') && !parsed.url.contains(' '));
            if let Getter::Git {
                reference: Some(reference),
                ..
            } = &parsed.getter
            {
                assert!(!reference.starts_with('-'), "{reference}");
            }
            let subdirectory = parsed.subdirectory.unwrap_or_default();
            assert!(subdirectory.split('/').all(|part| part != ".."));
            Verdict::Understood
        }
        Err(error) => Verdict::refused(&error),
    }
}

/// A tar archive whose headers get the checksums that they should have.
pub fn artifact_tar(data: &[u8]) -> Verdict {
    let mut bytes = data.to_vec();
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = String::from_utf8_lossy(&header[124..135]).into_owned();
        let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).unwrap_or(0);
        at += BLOCK + size.min(bytes.len()).div_ceil(BLOCK) * BLOCK;
    }
    unpacked(|tree, budget| unpack_tar(&*bytes, tree, budget, &mut |_| {}))
}

/// A zip archive.
pub fn artifact_zip(data: &[u8]) -> Verdict {
    unpacked(|tree, budget| unpack_zip(Cursor::new(data), tree, budget, &mut |_| {}))
}

fn unpacked(
    unpack: impl FnOnce(&mut dyn Tree, &mut Budget) -> Result<(), ArchiveError>,
) -> Verdict {
    let mut budget = Budget::new(Some(UNPACKED_BYTES_MAX), Some(ENTRIES_MAX));
    let mut tree = Counted::default();
    let done = unpack(&mut tree, &mut budget);
    assert!(tree.bytes.get() <= UNPACKED_BYTES_MAX);
    assert!(tree.entries <= ENTRIES_MAX);
    match done {
        Ok(()) => Verdict::Understood,
        Err(error) => Verdict::refused(&error),
    }
}

/// A tree that keeps nothing.
#[derive(Default)]
struct Counted {
    bytes: Cell<u64>,
    entries: u64,
}

impl Counted {
    fn entry(&mut self, path: &EntryPath) {
        self.entries += 1;
        for part in path.above().chain([path.name()]) {
            assert!(part != ".." && part != "." && !part.is_empty());
            assert!(!part.as_encoded_bytes().contains(&b'/'));
        }
    }
}

impl Tree for Counted {
    fn directory(&mut self, path: &EntryPath, mode: u32) -> io::Result<()> {
        assert!(mode <= 0o777);
        self.entry(path);
        Ok(())
    }

    fn file(
        &mut self,
        path: &EntryPath,
        mode: u32,
        _modified: Option<u64>,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        assert!(mode <= 0o777);
        self.entry(path);
        let bytes = io::copy(content, &mut io::sink())?;
        self.bytes.set(self.bytes.get() + bytes);
        Ok(())
    }

    fn symlink(&mut self, path: &EntryPath, target: &[u8]) -> io::Result<()> {
        assert!(!target.is_empty() && !target.contains(&0));
        self.entry(path);
        Ok(())
    }

    fn hard_link(&mut self, path: &EntryPath, to: &EntryPath) -> io::Result<()> {
        self.entry(to);
        self.entries -= 1;
        self.entry(path);
        Ok(())
    }
}
