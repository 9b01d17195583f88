//! Reading a checkpoint: into a state, or only looking at it.

use std::io::Read;
use std::sync::Arc;

use protocol_model::{Evaluation, Incarnation, UnixNanos};

use super::error::RestoreError;
use super::format::{AllocRow, Header, MetaRow, SpecRow, Tag};
use super::records::{Unpacked, open, parse};
use super::write::Section;
use crate::access::{
    AclAuthMethod, AclBindingRule, AclPolicy, AclRole, AclToken, OneTimeToken, RootKey,
};
use crate::namespace::Namespace;
use crate::node_pool::NodePool;
use crate::record::{DeploymentRecord, JobRecord, JobVersionRecord, NodeRecord};
use crate::state::State;
use crate::tables::{AllocRecord, Table, Tables};
use crate::variable::Variable;

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
    /// Its root keys, wrapped, by number: whoever restores it needs their key-encryption keys.
    pub root_keys: Vec<RootKey>,
}

/// Reads a checkpoint to its end, checksum included, and says what is in it.
pub fn inspect(input: impl Read) -> Result<CheckpointSummary, RestoreError> {
    let (header, mut records) = open(input, Unpacked::All)?;
    let mut meta = None;
    let mut root_keys = Vec::new();
    while let Some((tag, row)) = records.next()? {
        if tag == Tag::Meta {
            meta = Some(parse::<MetaRow>(tag, row)?);
        }
        if tag == Tag::RootKey {
            root_keys.push(parse::<RootKey>(tag, row)?);
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
        root_keys,
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
            checkpoint_version: header.version,
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
                | Tag::NodePool
                | Tag::AclPolicy
                | Tag::AclRole
                | Tag::AclAuthMethod
                | Tag::AclBindingRule
                | Tag::OneTimeToken
                | Tag::RootKey
                | Tag::Variable
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
            root_keys_numbered,
            identities_begun,
        } = meta.ok_or(RestoreError::NoMeta)?;
        tables.now = now;
        tables.log_offset = log_offset;
        tables.cluster = cluster;
        tables.scheduler_config = scheduler_config;
        tables.acl_bootstrap_index = acl_bootstrap_index;
        let numbered = tables.access.root_keys_numbered.max(root_keys_numbered);
        tables.access.root_keys_numbered = numbered;
        tables.access.identities_begun = identities_begun;
        tables.add_missing_pools();
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
            let AllocRow { alloc, mark, key } = parse(tag, row)?;
            tables.put_alloc(AllocRecord {
                alloc: alloc.into_owned(),
                mark,
                key,
            });
        }
        Tag::Namespace => {
            let namespace: Namespace = parse(tag, row)?;
            tables
                .namespaces
                .insert(namespace.name.clone(), Arc::new(namespace));
        }
        Tag::NodePool => tables.put_pool(parse::<NodePool>(tag, row)?),
        Tag::AclToken => tables.put_acl_token(parse::<AclToken>(tag, row)?),
        Tag::AclPolicy => tables.put_acl_policy(parse::<AclPolicy>(tag, row)?),
        Tag::AclRole => tables.put_acl_role(parse::<AclRole>(tag, row)?),
        Tag::AclAuthMethod => tables.put_auth_method(parse::<AclAuthMethod>(tag, row)?),
        Tag::AclBindingRule => tables.put_binding_rule(parse::<AclBindingRule>(tag, row)?),
        Tag::OneTimeToken => tables.put_one_time_token(parse::<OneTimeToken>(tag, row)?),
        Tag::RootKey => tables.put_root_key(parse::<RootKey>(tag, row)?),
        Tag::Variable => tables.put_variable(parse::<Variable>(tag, row)?),
        Tag::PendingRestore => tables.pending_restore = Some(parse(tag, row)?),
        Tag::RestoreChunk => {
            let pending = tables.pending_restore.as_mut();
            pending.ok_or(RestoreError::PendingRestore)?.refill(row);
        }
        Tag::Meta | Tag::Trailer => {}
    }
    Ok(())
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
    let of_deployments = tables.deployments.iter().filter_map(|(id, record)| {
        let spec = record.spec?;
        Some((spec, format!("deployment {id}")))
    });
    match of_allocs
        .chain(of_versions)
        .chain(of_deployments)
        .find(|(spec, _)| tables.spec(*spec).is_none())
    {
        Some((_, subject)) => Err(RestoreError::MissingSpec { subject }),
        None => Ok(()),
    }
}
