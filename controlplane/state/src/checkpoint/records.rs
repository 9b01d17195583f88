//! The records of a checkpoint, one after another, down to the trailer that holds them together.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};

use serde::de::DeserializeOwned;

use super::error::RestoreError;
use super::format::{
    HEADER_BYTES, Header, RECORD_BYTES_MAX, Tag, TrailerRow, VERSION, VERSION_MIN,
};
use super::write::Section;

/// How much a checkpoint may unpack to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unpacked {
    /// Whatever it has: it is a server's own.
    All,
    /// So many bytes of records; one with more is refused.
    AtMost(u64),
}

pub(super) fn parse<T: DeserializeOwned>(tag: Tag, row: &[u8]) -> Result<T, RestoreError> {
    serde_json::from_slice(row).map_err(|source| RestoreError::Row {
        section: tag.name(),
        source,
    })
}

pub(super) type Decoder<R> = zstd::stream::read::Decoder<'static, BufReader<R>>;

pub(super) fn open<R: Read>(
    mut input: R,
    unpacked: Unpacked,
) -> Result<(Header, Records<Decoder<R>>), RestoreError> {
    let mut bytes = [0; HEADER_BYTES];
    input.read_exact(&mut bytes).map_err(RestoreError::Read)?;
    let header = Header::from_bytes(bytes).ok_or(RestoreError::Magic)?;
    let found = header.version;
    if !(VERSION_MIN..=VERSION).contains(&found) {
        return Err(RestoreError::Version { found });
    }
    let decoder = zstd::stream::read::Decoder::new(input).map_err(RestoreError::Read)?;
    let mut records = Records::new(decoder, unpacked);
    if found >= VERSION_WITH_WHOLE_CHECKSUM {
        records.crc.update(&bytes);
    }
    Ok((header, records))
}

/// The first version whose checksum covers the header too.
const VERSION_WITH_WHOLE_CHECKSUM: u32 = 2;

pub(super) struct Records<R> {
    input: R,
    crc: crc32fast::Hasher,
    buffer: Vec<u8>,
    pub(super) sections: Vec<Section>,
    unpacked: Unpacked,
    bytes: u64,
}

impl<R: Read> Records<R> {
    fn new(input: R, unpacked: Unpacked) -> Self {
        Self {
            input,
            crc: crc32fast::Hasher::new(),
            buffer: Vec::new(),
            sections: Vec::new(),
            unpacked,
            bytes: 0,
        }
    }

    /// The next record; nothing after a trailer that holds.
    pub(super) fn next(&mut self) -> Result<Option<(Tag, &[u8])>, RestoreError> {
        let mut head = [0; 5];
        self.input
            .read_exact(&mut head)
            .map_err(RestoreError::Read)?;
        let [tag, length @ ..] = head;
        let length = u32::from_be_bytes(length);
        let tag = Tag::from_byte(tag).ok_or(RestoreError::UnknownTag { tag })?;
        let section = tag.name();
        if length > RECORD_BYTES_MAX {
            return Err(RestoreError::RecordTooLong { section, length });
        }
        self.bytes += u64::from(length);
        if let Unpacked::AtMost(limit) = self.unpacked
            && self.bytes > limit
        {
            return Err(RestoreError::TooLong { limit });
        }
        self.buffer.clear();
        // Grows with what really comes: a damaged length costs no memory.
        let read = (&mut self.input)
            .take(u64::from(length))
            .read_to_end(&mut self.buffer)
            .map_err(RestoreError::Read)?;
        if read != length as usize {
            return Err(RestoreError::Read(io::ErrorKind::UnexpectedEof.into()));
        }
        self.crc.update(&head);
        self.crc.update(&self.buffer);
        if tag == Tag::Trailer {
            return self.check_trailer().map(|()| None);
        }
        self.count(section, u64::from(length));
        Ok(Some((tag, &self.buffer)))
    }

    fn count(&mut self, name: &'static str, bytes: u64) {
        match self
            .sections
            .iter_mut()
            .find(|section| section.name == name)
        {
            Some(section) => {
                section.records += 1;
                section.bytes += bytes;
            }
            None => self.sections.push(Section {
                name,
                records: 1,
                bytes,
            }),
        }
    }

    fn check_trailer(&mut self) -> Result<(), RestoreError> {
        let mut crc = [0; 4];
        self.input
            .read_exact(&mut crc)
            .map_err(RestoreError::Read)?;
        if u32::from_be_bytes(crc) != self.crc.clone().finalize() {
            return Err(RestoreError::Checksum);
        }
        // To the very end, which the compression checks too.
        if self.input.read(&mut crc).map_err(RestoreError::Read)? != 0 {
            return Err(RestoreError::Trailing);
        }
        let trailer: TrailerRow = parse(Tag::Trailer, &self.buffer)?;
        let found: BTreeMap<&str, u64> = self
            .sections
            .iter()
            .map(|section| (section.name, section.records))
            .collect();
        for (section, said) in trailer.records {
            let found = found.get(section.as_str()).copied().unwrap_or(0);
            if found != said {
                return Err(RestoreError::Count {
                    section,
                    said,
                    found,
                });
            }
        }
        Ok(())
    }
}
