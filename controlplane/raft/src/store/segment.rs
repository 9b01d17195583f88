//! A segment of the log as bytes: a header, then groups of records, then zeros.
//!
//! ```text
//!   segment   header | group | group | ... | zeros up to the end of the file
//!   header    magic 8 | server u64 | number u64 | previous end u64 | zero u32 | CRC-32 u32
//!   group     length u32 | CRC-32 u32 | records ... | zeros up to a multiple of 8
//!   record    sort u8 | length u32 | body
//! ```
//!
//! Numbers are big-endian. A group is what one sync makes durable, so a crash leaves at most one
//! torn group, with nothing whole behind it: whatever is found broken before something whole was
//! acknowledged, and is damage. A group's CRC covers the segment's number and the group's place in
//! it, so that bytes that got there by mistake are not taken for a group.

use crate::member::ServerId;

/// Begins every segment; the digits are the version of this layout.
pub(super) const MAGIC: &[u8; 8] = b"drvlog01";
pub(super) const HEADER_BYTES: usize = 40;
const GROUP_HEADER_BYTES: usize = 8;
const RECORD_HEADER_BYTES: usize = 5;
const ALIGNMENT: usize = 8;

/// What a group's records say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Sort {
    /// Pads a group; nothing follows it.
    End = 0,
    /// An encoded entry, right after the last one.
    Entry = 1,
    Vote = 2,
    /// The entries from this index on are gone.
    Truncated = 3,
    /// The entries up to this position are gone.
    Purged = 4,
    Committed = 5,
    /// The index of the entry that comes next: those before were written to segments before.
    Next = 6,
}

impl Sort {
    fn of(byte: u8) -> Option<Self> {
        let known = [
            Self::End,
            Self::Entry,
            Self::Vote,
            Self::Truncated,
            Self::Purged,
            Self::Committed,
            Self::Next,
        ];
        known.into_iter().find(|sort| *sort as u8 == byte)
    }
}

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Whose log it is.
    pub(super) server: ServerId,
    pub(super) number: u64,
    /// Where the last group of the segment before ends; 0 in the first of all.
    pub(super) previous_end: u64,
}

impl Header {
    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.server.as_u64().to_be_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.previous_end.to_be_bytes());
        let crc = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// `None` = these bytes do not begin a segment.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let decoded = Self {
            server: ServerId::from_u64(u64_at(header, 8)?),
            number: u64_at(header, 16)?,
            previous_end: u64_at(header, 24)?,
        };
        (decoded.encode() == header).then_some(decoded)
    }
}

/// A group being written. Its buffer is used again for the next one.
#[derive(Debug, Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
}

impl Group {
    /// Begins another group.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(GROUP_HEADER_BYTES, 0);
    }

    /// Adds a record; returns where its body begins, counted from the group's first byte.
    pub(super) fn push(&mut self, sort: Sort, body: &[u8]) -> usize {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.bytes.push(sort as u8);
        self.bytes.extend_from_slice(&length.to_be_bytes());
        let at = self.bytes.len();
        self.bytes.extend_from_slice(body);
        at
    }

    /// Whether there is no record in it.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.len() <= GROUP_HEADER_BYTES
    }

    /// Bytes that the finished group takes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len().next_multiple_of(ALIGNMENT)
    }

    /// Finishes the group for its place: `offset` in segment `number`.
    pub(super) fn finish(&mut self, number: u64, offset: u64) -> &[u8] {
        self.bytes.resize(self.len(), 0);
        let (header, body) = self.bytes.split_at_mut(GROUP_HEADER_BYTES);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        header[..4].copy_from_slice(&length.to_be_bytes());
        header[4..].copy_from_slice(&checksum(number, offset, body).to_be_bytes());
        &self.bytes
    }
}

fn checksum(number: u64, offset: u64, body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_be_bytes());
    crc.update(&offset.to_be_bytes());
    crc.update(body);
    crc.finalize()
}

/// The whole group at `offset` of segment `number`, without its header; `None` = there is none.
pub(super) fn group_at(segment: &[u8], number: u64, offset: usize) -> Option<&[u8]> {
    let header = segment.get(offset..offset.checked_add(GROUP_HEADER_BYTES)?)?;
    let length = u32_at(header, 0)? as usize;
    if length == 0 || !length.is_multiple_of(ALIGNMENT) {
        return None;
    }
    let start = offset + GROUP_HEADER_BYTES;
    let body = segment.get(start..start.checked_add(length)?)?;
    (checksum(number, offset as u64, body) == u32_at(header, 4)?).then_some(body)
}

/// Where the group at `offset` ends.
pub(super) fn group_end(offset: usize, body: &[u8]) -> usize {
    offset + GROUP_HEADER_BYTES + body.len()
}

/// Where a group's body begins.
pub(super) fn body_start(offset: usize) -> usize {
    offset + GROUP_HEADER_BYTES
}

/// Whether there is a whole group anywhere from `from` on.
pub(super) fn any_group_from(segment: &[u8], number: u64, from: usize) -> bool {
    (from.next_multiple_of(ALIGNMENT)..segment.len())
        .step_by(ALIGNMENT)
        .any(|offset| group_at(segment, number, offset).is_some())
}

/// The records of a group, each with where its body begins in the group's body. A malformed record
/// is `None`, and the last.
pub(super) fn records(body: &[u8]) -> impl Iterator<Item = Option<(Sort, usize, &[u8])>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= body.len() {
            return None;
        }
        let found = record_at(body, at);
        at = found.map_or(body.len(), |(_, start, bytes)| start + bytes.len());
        match found {
            Some((Sort::End, ..)) => {
                at = body.len();
                None
            }
            found => Some(found),
        }
    })
}

fn record_at(body: &[u8], at: usize) -> Option<(Sort, usize, &[u8])> {
    let sort = Sort::of(*body.get(at)?)?;
    if sort == Sort::End {
        return Some((sort, at, &[]));
    }
    let start = at + RECORD_HEADER_BYTES;
    let length = u32_at(body, at + 1)? as usize;
    let bytes = body.get(start..start.checked_add(length)?)?;
    Some((sort, start, bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*found))
}

/// The number in eight bytes at `at`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*found))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: u64 = 3;

    fn segment(groups: &[&[(Sort, &[u8])]]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        for group in groups {
            let mut written = Group::default();
            written.clear();
            for (sort, body) in *group {
                written.push(*sort, body);
            }
            let offset = bytes.len() as u64;
            bytes.extend_from_slice(written.finish(NUMBER, offset));
        }
        bytes
    }

    #[test]
    fn the_bytes_of_a_segment_are_frozen() {
        let header = Header {
            server: ServerId::from_u64(0xaa),
            number: 2,
            previous_end: 0x1234,
        };
        let mut expected = b"drvlog01".to_vec();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0xaa, 0, 0, 0, 0, 0, 0, 0, 2]);
        expected.extend([0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 0]);
        expected.extend(crc32fast::hash(&expected).to_be_bytes());
        assert_eq!(header.encode().as_slice(), expected);
        assert_eq!(Header::decode(&expected), Some(header));
        let bytes = segment(&[&[(Sort::Vote, b"xyz")]]);
        let mut covered = [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 40].to_vec();
        covered.extend([2, 0, 0, 0, 3, b'x', b'y', b'z']);
        let crc = crc32fast::hash(&covered).to_be_bytes();
        assert_eq!(bytes[40..48], [[0, 0, 0, 8], crc].concat());
        assert_eq!(bytes[48..], covered[16..]);
    }

    #[test]
    fn a_group_reads_back_and_only_at_its_place() {
        let bytes = segment(&[&[(Sort::Entry, b"one"), (Sort::Committed, b"")]]);
        let body = group_at(&bytes, NUMBER, HEADER_BYTES).expect("is whole");
        let found: Vec<_> = records(body)
            .map(|record| record.expect("is whole"))
            .collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].0, found[0].2), (Sort::Entry, b"one".as_slice()));
        assert_eq!((found[1].0, found[1].2), (Sort::Committed, b"".as_slice()));
        assert!(group_at(&bytes, NUMBER + 1, HEADER_BYTES).is_none());
        let moved = [&[0; 8], bytes.as_slice()].concat();
        assert!(group_at(&moved, NUMBER, HEADER_BYTES + 8).is_none());
    }

    #[test]
    fn a_flipped_bit_anywhere_unmakes_a_group() {
        let whole = segment(&[&[(Sort::Entry, b"some bytes")]]);
        for bit in HEADER_BYTES * 8..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                group_at(&bytes, NUMBER, HEADER_BYTES).is_none(),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_whole_group_is_found_behind_a_broken_one() {
        let mut bytes = segment(&[&[(Sort::Vote, b"a")], &[(Sort::Vote, b"b")]]);
        bytes[HEADER_BYTES] = 0xff;
        assert!(group_at(&bytes, NUMBER, HEADER_BYTES).is_none());
        assert!(any_group_from(&bytes, NUMBER, HEADER_BYTES));
        let second = HEADER_BYTES + GROUP_HEADER_BYTES + ALIGNMENT;
        bytes[second] = 0xff;
        assert!(!any_group_from(&bytes, NUMBER, HEADER_BYTES));
    }

    #[test]
    fn a_malformed_record_ends_a_group_and_is_named() {
        let body = [Sort::Vote as u8, 0, 0, 0, 9, 1, 2, 3];
        assert_eq!(records(&body).collect::<Vec<_>>(), [None]);
        let unknown = [77, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(records(&unknown).collect::<Vec<_>>(), [None]);
    }
}
