//! The size of everything that an archive unpacks to, charged as it is read.

use std::io::{self, Read};

use super::ArchiveError;

/// The node's setting for sizes.
const SIZE_SETTING: &str = "artifact { decompression_size_limit }";
/// The node's setting for counts.
const COUNT_SETTING: &str = "artifact { decompression_file_count_limit }";

/// Limits of one archive, and how much of them is used. `None` is no limit.
#[derive(Debug, Clone)]
pub struct Budget {
    bytes_max: Option<u64>,
    entries_max: Option<u64>,
    bytes: u64,
    entries: u64,
}

/// Travels through `io::Error`, since a tree reads through [`Charged`].
#[derive(Debug, thiserror::Error)]
#[error("more than {max} {unit}")]
pub(super) struct BudgetExceeded {
    pub(super) max: u64,
    pub(super) unit: &'static str,
    pub(super) setting: &'static str,
}

impl Budget {
    /// Limits of one archive: bytes of all files together, and entries of any kind.
    pub fn new(bytes_max: Option<u64>, entries_max: Option<u64>) -> Self {
        Self {
            bytes_max,
            entries_max,
            bytes: 0,
            entries: 0,
        }
    }

    pub(super) fn charge_entry(&mut self) -> Result<(), ArchiveError> {
        self.entries += 1;
        match self.entries_max {
            Some(max) if self.entries > max => Err(ArchiveError::TooLarge {
                max,
                unit: "entries",
                setting: COUNT_SETTING,
            }),
            _ => Ok(()),
        }
    }

    fn charge(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        match self.bytes_max {
            Some(max) if self.bytes > max => Err(io::Error::other(BudgetExceeded {
                max,
                unit: "bytes",
                setting: SIZE_SETTING,
            })),
            _ => Ok(()),
        }
    }

    /// A reader whose bytes are charged, with a callback after each piece.
    pub(crate) fn charged<'a>(
        &'a mut self,
        content: &'a mut dyn Read,
        on_bytes: &'a mut dyn FnMut(u64),
    ) -> Charged<'a> {
        Charged {
            budget: self,
            content,
            on_bytes,
        }
    }
}

/// See [`Budget::charged`].
pub(crate) struct Charged<'a> {
    budget: &'a mut Budget,
    content: &'a mut dyn Read,
    on_bytes: &'a mut dyn FnMut(u64),
}

impl Read for Charged<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.budget.charge(count)?;
        (self.on_bytes)(self.budget.bytes);
        Ok(count)
    }
}
