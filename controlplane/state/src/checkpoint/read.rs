//! Reading a checkpoint: into a state, or only looking at it.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use protocol_model::{Evaluation, Incarnation, UnixNanos};
use serde::de::DeserializeOwned;

use super::format::{
    AllocRow, HEADER_BYTES, Header, MetaRow, RECORD_BYTES_MAX, SpecRow, Tag, TrailerRow, VERSION,
    VERSION_MIN,
};
use super::write::Section;
use crate::record::{
    AclToken, DeploymentRecord, JobRecord, JobVersionRecord, Namespace, NodeRecord,
};
use crate::state::State;
use crate::tables::{AllocRecord, Table, Tables};

/// A checkpoint that cannot be read. The state that was to be restored is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Its source fails, or it is not whole.
    #[error("the checkpoint cannot be read, or ends too early")]
    Read(#[source] io::Error),
    /// It is no checkpoint.
    #[error("not a checkpoint of this program")]
    Magic,
    /// Another release wrote it.
    #[error(
        "checkpoint version {found} is not known: this release reads {VERSION_MIN} to {VERSION}"
    )]
    Version {
        /// The version.
        found: u32,
    },
    /// A newer release wrote records that this one does not know.
    #[error("a record of an unknown kind ({tag})")]
    UnknownTag {
        /// The kind's number.
        tag: u8,
    },
    /// A record is longer than it may be.
    #[error("a record of the {section} has {length} bytes: at most {RECORD_BYTES_MAX} are read")]
    RecordTooLong {
        /// The section.
        section: &'static str,
        /// Its length.
        length: u32,
    },
    /// A record is no row.
    #[error("a record of the {section} cannot be read")]
    Row {
        /// The section.
        section: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The bytes changed since they were written.
    #[error("the checksum does not match: the checkpoint is damaged")]
    Checksum,
    /// Something follows that belongs to no checkpoint.
    #[error("bytes follow the end of the checkpoint")]
    Trailing,
    /// It unpacks to more than a restore takes.
    #[error("its records have more than {limit} bytes in all")]
    TooLong {
        /// How many may be read.
        limit: u64,
    },
    /// The bytes of a restore under way are not what its record says.
    #[error("the bytes of the pending restore do not add up")]
    PendingRestore,
    /// The records do not add up.
    #[error("{section}: {found} records, the trailer says {said}")]
    Count {
        /// The section.
        section: String,
        /// What the trailer says.
        said: u64,
        /// What there was.
        found: u64,
    },
    /// The record that has to be there once is not.
    #[error("the checkpoint has no meta record")]
    NoMeta,
    /// A row refers to a specification that is not there.
    #[error("{subject} refers to a specification that is not in the checkpoint")]
    MissingSpec {
        /// The row.
        subject: String,
    },
}

/// How much a checkpoint may unpack to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unpacked {
    /// Whatever it has: it is a server's own.
    All,
    /// So many bytes of records; one with more is refused.
    AtMost(u64),
}

/// What a checkpoint is, without restoring it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointSummary {
    /// The version of its format.
    pub version: u32,
    /// The incarnation it was written in.
    pub incarnation: Option<Incarnation>,
    /// The index that the state was at.
    pub index: u64,
    /// The state's time.
    pub now: UnixNanos,
    /// Its sections in order.
    pub sections: Vec<Section>,
}

/// Reads a checkpoint to its end, checksum included, and says what is in it.
pub fn inspect(input: impl Read) -> Result<CheckpointSummary, RestoreError> {
    let (header, mut records) = open(input, Unpacked::All)?;
    let mut meta = None;
    while let Some((tag, row)) = records.next()? {
        if tag == Tag::Meta {
            meta = Some(parse::<MetaRow>(tag, row)?);
        }
    }
    let Header {
        version,
        incarnation,
        index,
    } = header;
    Ok(CheckpointSummary {
        version,
        incarnation,
        index,
        now: meta.ok_or(RestoreError::NoMeta)?.now,
        sections: records.sections,
    })
}

impl State {
    /// The state that a checkpoint describes: as it was, what is derived included.
    pub fn restore(input: impl Read) -> Result<Self, RestoreError> {
        Self::restore_at_most(input, Unpacked::All)
    }

    /// As [`Self::restore`], for a checkpoint of unknown origin.
    pub fn restore_at_most(input: impl Read, unpacked: Unpacked) -> Result<Self, RestoreError> {
        let (header, mut records) = open(input, unpacked)?;
        let mut tables = Tables {
            index: header.index,
            ..Tables::default()
        };
        let mut meta = None;
        while let Some((tag, row)) = records.next()? {
            match tag {
                Tag::Meta => meta = Some(parse::<MetaRow>(tag, row)?),
                Tag::Spec
                | Tag::Job
                | Tag::JobVersion
                | Tag::Node
                | Tag::Eval
                | Tag::Deployment
                | Tag::Alloc
                | Tag::Namespace
                | Tag::AclToken
                | Tag::PendingRestore
                | Tag::RestoreChunk
                | Tag::Trailer => put(&mut tables, tag, row)?,
            }
        }
        let MetaRow {
            now,
            cluster,
            scheduler_config,
            acl_bootstrap_index,
            table_indexes,
            log_offset,
        } = meta.ok_or(RestoreError::NoMeta)?;
        tables.now = now;
        tables.log_offset = log_offset;
        tables.cluster = cluster;
        tables.scheduler_config = scheduler_config;
        tables.acl_bootstrap_index = acl_bootstrap_index;
        for table in Table::ALL {
            let index = table_indexes.get(&format!("{table:?}")).copied();
            // A table that the writer did not have yet: for all a reader can know, it just changed.
            tables.table_indexes[table as usize] = index.unwrap_or(header.index);
        }
        check_specs(&tables)?;
        let pending = tables.pending_restore.as_ref();
        if pending.is_some_and(|pending| !pending.adds_up()) {
            return Err(RestoreError::PendingRestore);
        }
        Ok(Self::from_tables(tables))
    }
}

fn put(tables: &mut Tables, tag: Tag, row: &[u8]) -> Result<(), RestoreError> {
    match tag {
        Tag::Spec => {
            let SpecRow { hash, job } = parse(tag, row)?;
            tables.put_spec(hash, &job);
        }
        Tag::Job => {
            let record: JobRecord = parse(tag, row)?;
            tables.put_job(record.job.key(), record);
        }
        Tag::JobVersion => {
            let record: JobVersionRecord = parse(tag, row)?;
            tables.put_job_version(&record.job.key(), record);
        }
        Tag::Node => tables.put_node(parse::<NodeRecord>(tag, row)?),
        Tag::Eval => tables.put_eval(&Arc::new(parse::<Evaluation>(tag, row)?)),
        Tag::Deployment => tables.put_deployment(parse::<DeploymentRecord>(tag, row)?),
        Tag::Alloc => {
            let AllocRow { alloc, mark } = parse(tag, row)?;
            tables.put_alloc(AllocRecord {
                alloc: alloc.into_owned(),
                mark,
            });
        }
        Tag::Namespace => {
            let namespace: Namespace = parse(tag, row)?;
            tables
                .namespaces
                .insert(namespace.name.clone(), Arc::new(namespace));
        }
        Tag::AclToken => {
            let token: AclToken = parse(tag, row)?;
            tables
                .acl_tokens
                .insert(token.accessor_id.clone(), Arc::new(token));
        }
        Tag::PendingRestore => tables.pending_restore = Some(parse(tag, row)?),
        Tag::RestoreChunk => {
            let pending = tables.pending_restore.as_mut();
            pending.ok_or(RestoreError::PendingRestore)?.refill(row);
        }
        Tag::Meta | Tag::Trailer => {}
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(tag: Tag, row: &[u8]) -> Result<T, RestoreError> {
    serde_json::from_slice(row).map_err(|source| RestoreError::Row {
        section: tag.name(),
        source,
    })
}

fn check_specs(tables: &Tables) -> Result<(), RestoreError> {
    let of_allocs = tables
        .allocs()
        .map(|alloc| (alloc.spec, format!("allocation {}", alloc.id)));
    let of_versions = tables
        .job_versions
        .values()
        .flat_map(|versions| versions.values());
    let of_versions = of_versions.map(|record| (record.spec, format!("job {}", record.job.id)));
    match of_allocs
        .chain(of_versions)
        .find(|(spec, _)| tables.spec(*spec).is_none())
    {
        Some((_, subject)) => Err(RestoreError::MissingSpec { subject }),
        None => Ok(()),
    }
}

type Decoder<R> = zstd::stream::read::Decoder<'static, BufReader<R>>;

fn open<R: Read>(
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

struct Records<R> {
    input: R,
    crc: crc32fast::Hasher,
    buffer: Vec<u8>,
    sections: Vec<Section>,
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
    fn next(&mut self) -> Result<Option<(Tag, &[u8])>, RestoreError> {
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
