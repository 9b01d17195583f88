//! Writing a checkpoint.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::Serialize;

use super::format::{AllocRow, Header, MetaRow, RECORD_BYTES_MAX, SpecRow, Tag, TrailerRow};
use crate::tables::Tables;

/// zstd's level: a checkpoint is written in the background and read once.
const LEVEL: i32 = 3;

/// A checkpoint that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Its destination refuses.
    #[error("the checkpoint cannot be written")]
    Write(#[source] io::Error),
    /// A row is not representable.
    #[error("a row of the {section} cannot be written")]
    Row {
        /// The section.
        section: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A row is longer than would be read.
    #[error("a row of the {section} has {length} bytes: at most {RECORD_BYTES_MAX} can be written")]
    RowTooLong {
        /// The section.
        section: &'static str,
        /// Its length.
        length: usize,
    },
}

/// One section of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// How many records it has.
    pub records: u64,
    /// How many bytes those have, before compression.
    pub bytes: u64,
}

impl Tables {
    /// Writes the state as a checkpoint, and says what is in it. `out` is best buffered.
    pub fn write_checkpoint(&self, mut out: impl Write) -> Result<Vec<Section>, WriteError> {
        let header = Header::of(self).to_bytes();
        out.write_all(&header).map_err(WriteError::Write)?;
        let encoder = zstd::stream::write::Encoder::new(out, LEVEL).map_err(WriteError::Write)?;
        let mut records = Records::new(encoder, &header);
        self.write_records(&mut records)?;
        let (encoder, sections) = records.finish()?;
        encoder
            .finish()
            .and_then(|mut out| out.flush())
            .map_err(WriteError::Write)?;
        Ok(sections)
    }

    /// In the order in which a reader can put them: what is referred to comes first.
    fn write_records<W: Write>(&self, records: &mut Records<W>) -> Result<(), WriteError> {
        records.put(Tag::Meta, &MetaRow::of(self))?;
        for namespace in self.namespaces.values() {
            records.put(Tag::Namespace, namespace)?;
        }
        for pool in self.node_pools.values() {
            records.put(Tag::NodePool, pool)?;
        }
        self.write_access(records)?;
        for variable in self.variables.rows.values() {
            records.put(Tag::Variable, variable)?;
        }
        for (hash, spec) in &self.specs {
            let row = SpecRow {
                hash: *hash,
                job: Cow::Borrowed(&spec.job),
            };
            records.put(Tag::Spec, &row)?;
        }
        for version in self
            .job_versions
            .values()
            .flat_map(|versions| versions.values())
        {
            records.put(Tag::JobVersion, version)?;
        }
        for job in self.jobs.values() {
            records.put(Tag::Job, job)?;
        }
        for node in self.nodes.values() {
            records.put(Tag::Node, node)?;
        }
        // By id, as they have always been written.
        let evals = self.eval_slots.iter();
        for eval in evals.filter_map(|(id, index)| self.evals.get(&(*index, *id))) {
            records.put(Tag::Eval, eval)?;
        }
        for deployment in self.deployments.values() {
            records.put(Tag::Deployment, deployment)?;
        }
        for record in self.allocs.values() {
            let row = AllocRow {
                alloc: Cow::Borrowed(&record.alloc),
                mark: record.mark,
                key: record.key,
            };
            records.put(Tag::Alloc, &row)?;
        }
        if let Some(pending) = &self.pending_restore {
            records.put(Tag::PendingRestore, pending)?;
            for chunk in pending.chunks() {
                records.put_bytes(Tag::RestoreChunk, chunk)?;
            }
        }
        Ok(())
    }

    fn write_access<W: Write>(&self, records: &mut Records<W>) -> Result<(), WriteError> {
        let access = &self.access;
        for key in access.root_keys.values() {
            records.put(Tag::RootKey, key)?;
        }
        for policy in access.policies.values() {
            records.put(Tag::AclPolicy, policy)?;
        }
        for role in access.roles.values() {
            records.put(Tag::AclRole, role)?;
        }
        for token in access.tokens.values() {
            records.put(Tag::AclToken, token)?;
        }
        for method in access.auth_methods.values() {
            records.put(Tag::AclAuthMethod, method)?;
        }
        for rule in access.binding_rules.values() {
            records.put(Tag::AclBindingRule, rule)?;
        }
        for token in access.one_time_tokens.values() {
            records.put(Tag::OneTimeToken, token)?;
        }
        Ok(())
    }
}

struct Records<W> {
    out: W,
    crc: crc32fast::Hasher,
    buffer: Vec<u8>,
    sections: Vec<Section>,
}

impl<W: Write> Records<W> {
    fn new(out: W, header: &[u8]) -> Self {
        let mut crc = crc32fast::Hasher::new();
        crc.update(header);
        Self {
            out,
            crc,
            buffer: Vec::new(),
            sections: Vec::new(),
        }
    }

    fn put<T: Serialize>(&mut self, tag: Tag, row: &T) -> Result<(), WriteError> {
        let section = tag.name();
        self.begin(tag);
        serde_json::to_writer(&mut self.buffer, row)
            .map_err(|source| WriteError::Row { section, source })?;
        self.end(section)
    }

    fn put_bytes(&mut self, tag: Tag, bytes: &[u8]) -> Result<(), WriteError> {
        self.begin(tag);
        self.buffer.extend_from_slice(bytes);
        self.end(tag.name())
    }

    fn begin(&mut self, tag: Tag) {
        self.buffer.clear();
        self.buffer.push(tag as u8);
        self.buffer.extend([0; 4]);
    }

    /// Writes the record that the buffer holds, and counts it.
    fn end(&mut self, section: &'static str) -> Result<(), WriteError> {
        let length = self.buffer.len() - 5;
        let prefix = u32::try_from(length)
            .ok()
            .filter(|length| *length <= RECORD_BYTES_MAX)
            .ok_or(WriteError::RowTooLong { section, length })?;
        self.buffer[1..5].copy_from_slice(&prefix.to_be_bytes());
        self.crc.update(&self.buffer);
        self.out
            .write_all(&self.buffer)
            .map_err(WriteError::Write)?;
        let bytes = u64::from(prefix);
        match self.sections.last_mut() {
            Some(last) if last.name == section => {
                last.records += 1;
                last.bytes += bytes;
            }
            Some(_) | None => self.sections.push(Section {
                name: section,
                records: 1,
                bytes,
            }),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(W, Vec<Section>), WriteError> {
        let sections = self.sections.clone();
        let records = sections
            .iter()
            .map(|section| (section.name.to_owned(), section.records))
            .collect();
        self.put(Tag::Trailer, &TrailerRow { records })?;
        let crc = self.crc.finalize();
        self.out
            .write_all(&crc.to_be_bytes())
            .map_err(WriteError::Write)?;
        Ok((self.out, sections))
    }
}
