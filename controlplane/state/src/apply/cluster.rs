//! The cluster as a whole: its incarnation, settings, namespaces and tokens.

use std::sync::Arc;

use protocol_model::{DEFAULT_NAMESPACE, Incarnation};

use super::draft::Draft;
use crate::access::AclToken;
use crate::applied::{Outcome, Refusal, Signal};
use crate::node_pool::NodePool;
use crate::record::{ClusterMeta, Namespace, SchedulerConfig};
use crate::tables::Table;

impl Draft {
    /// Refuses what makes no sense before the cluster's first entry.
    pub(crate) fn initialized(&self) -> Result<(), Refusal> {
        match self.tables.cluster.incarnation {
            Some(_) => Ok(()),
            None => Err(Refusal::NotInitialized),
        }
    }

    pub(crate) fn cluster_init(&mut self, incarnation: Incarnation) -> Result<Outcome, Refusal> {
        if self.tables.cluster.incarnation.is_some() {
            return Err(Refusal::AlreadyInitialized);
        }
        self.begin_incarnation(incarnation);
        let (index, now) = (self.index, self.now);
        let namespace = Namespace {
            name: DEFAULT_NAMESPACE.to_owned(),
            description: "Default shared namespace".to_owned(),
            meta: std::collections::BTreeMap::new(),
            create_index: index,
            modify_index: index,
        };
        self.tables
            .namespaces
            .insert(namespace.name.clone(), Arc::new(namespace));
        self.tables.touch(Table::Namespaces);
        for pool in NodePool::built_in(index) {
            self.tables.put_pool(pool);
        }
        self.tables.scheduler_config.create_index = index;
        self.tables.scheduler_config.modify_index = index;
        self.tables.touch(Table::SchedulerConfig);
        debug_assert_eq!(self.tables.now, now);
        Ok(Outcome::Done)
    }

    pub(super) fn begin_incarnation(&mut self, incarnation: Incarnation) {
        self.tables.cluster = ClusterMeta {
            incarnation: Some(incarnation),
            created_at: self.now,
            index: self.index,
        };
        self.tables.touch(Table::Cluster);
        self.signal(Signal::IncarnationChanged);
    }

    pub(crate) fn acl_bootstrap(
        &mut self,
        mut token: AclToken,
        reset_index: u64,
    ) -> Result<Outcome, Refusal> {
        self.initialized()?;
        let done_at = self.tables.acl_bootstrap_index;
        if done_at != 0 && reset_index != done_at {
            return Err(Refusal::AclBootstrapped {
                reset_index: done_at,
            });
        }
        self.take_sealed(token.sealed.as_ref())?;
        token.create_time = self.now;
        token.create_index = self.index;
        token.modify_index = self.index;
        self.tables.put_acl_token(token);
        self.tables.acl_bootstrap_index = self.index;
        self.signal(Signal::AclChanged);
        Ok(Outcome::Done)
    }

    pub(crate) fn namespace_upsert(
        &mut self,
        mut namespace: Namespace,
    ) -> Result<Outcome, Refusal> {
        if namespace.name.is_empty() {
            return Err(Refusal::malformed("a namespace needs a name"));
        }
        let before = self.tables.namespace(&namespace.name);
        namespace.create_index = before.map_or(self.index, |before| before.create_index);
        namespace.modify_index = self.index;
        self.tables
            .namespaces
            .insert(namespace.name.clone(), Arc::new(namespace));
        self.tables.touch(Table::Namespaces);
        Ok(Outcome::Done)
    }

    pub(crate) fn namespace_delete(&mut self, name: &str) -> Result<Outcome, Refusal> {
        if name == DEFAULT_NAMESPACE {
            return Err(Refusal::NamespaceInUse(name.to_owned()));
        }
        if self.tables.namespace(name).is_none() {
            return Err(Refusal::UnknownNamespace(name.to_owned()));
        }
        let mut jobs = self.tables.jobs_with_prefix(name, "");
        if jobs.any(|(key, _)| key.namespace == name) {
            return Err(Refusal::NamespaceInUse(name.to_owned()));
        }
        drop(jobs);
        self.tables.namespaces.remove(name);
        self.tables.touch(Table::Namespaces);
        Ok(Outcome::Done)
    }

    pub(crate) fn scheduler_config_set(
        &mut self,
        mut config: SchedulerConfig,
        enforce_index: Option<u64>,
    ) -> Result<Outcome, Refusal> {
        let found = self.tables.scheduler_config.modify_index;
        if let Some(wanted) = enforce_index
            && wanted != found
        {
            return Err(Refusal::ConfigModified { wanted, found });
        }
        config.create_index = self.tables.scheduler_config.create_index;
        config.modify_index = self.index;
        self.tables.scheduler_config = config;
        self.tables.touch(Table::SchedulerConfig);
        self.signal(Signal::SchedulerConfigChanged);
        Ok(Outcome::Done)
    }
}
