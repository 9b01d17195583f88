//! The journal's file as bytes: a magic, then records in frames.
//!
//! ```text
//!   magic | length crc32 record | length crc32 record | ... | torn tail
//! ```
//!
//! A process that is killed, or a host, leaves at most a torn tail: nothing whole follows it. Where
//! whole records do follow, the file was damaged later, and what follows is still true.

/// Begins the file; the digit is the version of the frames.
pub const MAGIC: &[u8; 8] = b"DRVRJNL1";
/// In front of each record.
pub const HEADER_BYTES: usize = 8;
/// A record is one allocation or one job; far below this.
pub const RECORD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How far behind damage a whole record is looked for, byte by byte, and how long it may be: the
/// search must end soon whatever the bytes are.
const SEARCH_BYTES_MAX: usize = 256 * 1024;

/// Why bytes are no journal.
#[derive(Debug, thiserror::Error)]
pub enum FramesError {
    /// They begin otherwise.
    #[error("this is not a journal")]
    Magic,
}

/// One record in its frame: length and checksum, both little endian, then the record.
#[must_use]
pub fn frame(record: &[u8]) -> Vec<u8> {
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(HEADER_BYTES + record.len());
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(&crc32fast::hash(record).to_le_bytes());
    framed.extend_from_slice(record);
    framed
}

/// A journal's bytes, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Every whole record, in order.
    pub records: Vec<&'a [u8]>,
    /// Bytes behind the last of them: those were never acknowledged.
    pub torn: usize,
    /// Bytes that are no records, with whole records behind them.
    pub damaged: usize,
}

/// Takes a file apart. What is damaged is skipped up to the next whole record.
///
/// # Errors
/// Where it is another file.
pub fn split(file: &[u8]) -> Result<Split<'_>, FramesError> {
    let mut rest = file
        .strip_prefix(MAGIC.as_slice())
        .ok_or(FramesError::Magic)?;
    let mut split = Split {
        records: Vec::new(),
        torn: 0,
        damaged: 0,
    };
    loop {
        if let Some((record, tail)) = next(rest, RECORD_BYTES_MAX) {
            split.records.push(record);
            rest = tail;
        } else if let Some(gap) = next_whole(rest) {
            split.damaged += gap;
            rest = &rest[gap..];
        } else {
            split.torn = rest.len();
            return Ok(split);
        }
    }
}

/// How far the next whole record is from here, where something is damaged.
fn next_whole(bytes: &[u8]) -> Option<usize> {
    let is_whole = |start: &usize| {
        bytes
            .get(*start..)
            .is_some_and(|rest| next(rest, SEARCH_BYTES_MAX).is_some())
    };
    // The record's own length is the first guess: mostly it is not what was hit.
    let stated = bytes
        .first_chunk()
        .map(|length| u32::from_le_bytes(*length) as usize);
    stated
        .and_then(|length| length.checked_add(HEADER_BYTES))
        .filter(is_whole)
        .or_else(|| (1..bytes.len().min(SEARCH_BYTES_MAX)).find(is_whole))
}

fn next(bytes: &[u8], length_max: usize) -> Option<(&[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
    let (length, checksum) = header.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let checksum = u32::from_le_bytes(checksum.try_into().ok()?);
    if length == 0 || length > length_max {
        return None;
    }
    let (record, tail) = rest.split_at_checked(length)?;
    (crc32fast::hash(record) == checksum).then_some((record, tail))
}
