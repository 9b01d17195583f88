//! The state machine: one command in, one transition, or none at all.

use crate::applied::{Applied, Outcome, Refusal};
use crate::apply::Draft;
use crate::checkpoint::version_of_level;
use crate::command::{Command, Stamped};
use crate::snapshot::Snapshot;
use crate::tables::Tables;

/// The replicated state.
#[derive(Clone, Debug, Default)]
pub struct State {
    tables: Tables,
}

impl State {
    /// The state before the first log entry.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of what `snapshot` shows, for trying commands out. It shares everything with it until
    /// it differs, and follows no log: its next entry is the one after the snapshot's index.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut tables = Tables::clone(snapshot);
        tables.log_offset = 0;
        Self::from_tables(tables)
    }

    pub(crate) fn from_tables(tables: Tables) -> Self {
        Self { tables }
    }

    pub(crate) fn into_tables(self) -> Tables {
        self.tables
    }

    /// Carries out the log's entry at `log_index`. Total: a command that cannot be carried out is
    /// refused and changes nothing but the applied index and the state's time, which are facts
    /// about the log.
    ///
    /// The index that the state goes on with is the log's, plus what restores have added to it. One
    /// that is not above the applied one is refused and changes nothing at all.
    pub fn apply(&mut self, log_index: u64, stamped: Stamped) -> Applied {
        let Stamped { now, seed, command } = stamped;
        let index = log_index.saturating_add(self.tables.log_offset);
        if index <= self.tables.index {
            let applied = self.tables.index;
            let outcome = Outcome::Refused(Refusal::OldIndex { index, applied });
            return Applied {
                index,
                outcome,
                signals: Vec::new(),
            };
        }
        let now = now.max(self.tables.now);
        // Refused ones count, too: a server that reads less refuses more.
        let version = version_of_level(command.level());
        self.tables.checkpoint_version = version.max(self.tables.checkpoint_version);
        // The draft shares everything with the tables: giving it up is how a refusal, even one
        // found half-way, changes nothing.
        let mut draft = Draft::new(self.tables.clone(), index, now, seed);
        match carry_out(&mut draft, command) {
            Ok(outcome) => {
                let (tables, signals) = draft.finish();
                self.tables = tables;
                Applied {
                    index: self.tables.index,
                    outcome,
                    signals,
                }
            }
            Err(refusal) => {
                self.tables.index = index;
                self.tables.now = now;
                Applied {
                    index,
                    outcome: Outcome::Refused(refusal),
                    signals: Vec::new(),
                }
            }
        }
    }

    /// An immutable view of the state as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.tables.clone())
    }

    /// The state as it is now, for whoever owns it.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// Whether the command makes sense before the cluster's first entry, or judges that itself.
fn comes_first(command: &Command) -> bool {
    matches!(
        command,
        Command::Barrier | Command::ClusterInit { .. } | Command::AclBootstrap { .. }
    )
}

#[expect(clippy::too_many_lines, reason = "one arm for each command")]
fn carry_out(draft: &mut Draft, command: Command) -> Result<Outcome, Refusal> {
    if !comes_first(&command) {
        draft.initialized()?;
    }
    match command {
        Command::Barrier => Ok(Outcome::Done),
        Command::ClusterInit { incarnation } => draft.cluster_init(incarnation),
        Command::RestoreBegin {
            incarnation,
            bytes,
            sha256,
            client_tokens,
        } => draft.restore_begin(incarnation, bytes, sha256, client_tokens),
        Command::RestoreChunk {
            incarnation,
            offset,
            bytes,
        } => draft.restore_chunk(incarnation, offset, bytes),
        Command::RestoreCommit { incarnation } => draft.restore_commit(incarnation),
        Command::RestoreDrop { incarnation } => Ok(draft.restore_drop(incarnation)),
        Command::JobRegister(command) => draft.job_register(command),
        Command::JobDeregister(command) => draft.job_deregister(command),
        Command::JobStability {
            key,
            version,
            stable,
        } => draft.job_stability(&key, version, stable),
        Command::JobEvaluate {
            eval,
            force_reschedule,
        } => draft.job_evaluate(eval, force_reschedule),
        Command::JobDispatch(child) => draft.job_dispatch(child),
        Command::JobScale(scale) => draft.job_scale(*scale),
        Command::JobTag(tag) => draft.job_tag(tag),
        Command::PeriodicLaunch(command) => draft.periodic_launch(command),
        Command::EvalsUpsert { evals } => draft.evals_upsert(evals),
        Command::EvalsDelete(command) => draft.evals_delete(command),
        Command::PlanApply(plan) => draft.plan_apply(*plan),
        Command::AllocsStop { allocs, evals } => draft.allocs_stop(&allocs, evals),
        Command::NodeHello(hello) => draft.node_hello(&hello),
        Command::NodeSynced(synced) => draft.node_synced(&synced),
        Command::SyncRejected { node, epoch } => draft.sync_rejected(node, epoch),
        Command::SyncDeadline { nodes } => Ok(draft.sync_deadline(&nodes)),
        Command::AllocUpdates { batches } => Ok(draft.alloc_updates(&batches)),
        Command::HeartbeatMissed { nodes } => Ok(draft.heartbeat_missed(&nodes)),
        Command::WindowExpired { nodes } => Ok(draft.window_expired(&nodes)),
        Command::PendingExpired { nodes } => Ok(draft.pending_expired(&nodes)),
        Command::NodeFacts { node, epoch, facts } => draft.node_facts(node, epoch, &facts),
        Command::NodeEligibility { node, eligibility } => draft.node_eligibility(node, eligibility),
        Command::NodeDrainSet(set) => draft.node_drain_set(&set),
        Command::AllocsMigrate { nodes } => Ok(draft.allocs_migrate(&nodes)),
        Command::NodeDrainComplete { node, drain_index } => {
            draft.node_drain_complete(node, drain_index)
        }
        Command::NodePurge { node } => draft.node_purge(node),
        Command::DeploymentStatus(update) => draft.deployment_status(update),
        Command::DeploymentPromote(command) => draft.deployment_promote(command),
        Command::DeploymentAllocHealth(command) => draft.deployment_alloc_health(*command),
        Command::AclBootstrap { token, reset_index } => draft.acl_bootstrap(token, reset_index),
        Command::Access(command) => draft.access(command),
        Command::VariableApply(command) => draft.variable_apply(*command),
        Command::VariableLocksExpire(command) => draft.variable_locks_expire(command),
        Command::VariablesRekey(command) => draft.variables_rekey(command),
        Command::NamespaceUpsert { namespace } => draft.namespace_upsert(namespace),
        Command::NamespaceDelete { name, rule } => draft.namespace_delete(&name, rule),
        Command::NodePoolUpsert { pool } => draft.node_pool_upsert(pool),
        Command::NodePoolDelete { name } => draft.node_pool_delete(name),
        Command::SchedulerConfigSet {
            config,
            enforce_index,
        } => draft.scheduler_config_set(config, enforce_index),
        Command::GcCollect(command) => Ok(draft.gc_collect(&command)),
    }
}
