//! The cluster as a whole: its incarnation, settings and tokens.

use protocol_model::{DEFAULT_NAMESPACE, Incarnation};

use super::draft::Draft;
use crate::access::{AclToken, AclTokenKind};
use crate::applied::{AccessRefusal, Outcome, Refusal, Signal};
use crate::namespace::Namespace;
use crate::node_pool::NodePool;
use crate::record::{ClusterMeta, SchedulerConfig};
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
        self.put_namespace(Namespace {
            name: DEFAULT_NAMESPACE.to_owned(),
            description: "Default shared namespace".to_owned(),
            create_index: index,
            modify_index: index,
            ..Namespace::default()
        });
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
        // Older releases accept any management token here, so that its secret may be another one's.
        let known = self.tables.token_by_secret(&token.secret_hash);
        if known.is_some_and(|known| known.kind == AclTokenKind::Client) {
            return Err(AccessRefusal::SecretInUse(token.accessor_id).into());
        }
        if token.kind != AclTokenKind::Management {
            return Err(Refusal::malformed("the first token is a management token"));
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
