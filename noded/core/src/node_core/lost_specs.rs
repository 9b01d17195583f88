//! Allocations whose job specification is missing from the journal, because its record was damaged.
//! A server has it: the node reports version 0 of such an allocation, so the watch sends it again
//! with its specification.
//!
//! ```text
//!   restored --upsert---> runner: as if the journal had been whole
//!      |
//!      +----removed---> its runs are killed --> its directory is removed --> forgotten
//! ```
//!
//! Until then its tasks go on under keeper, and what becomes of them is stored here.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus, Job, SpecHash, TaskRunState};
use protocol_wire::report::{AllocReport, keep_newest_events};

use super::NodeCore;
use crate::effect::Effect;
use crate::event::{KeptPhase, KeptRun, RunEvent};
use crate::journal::{DestroyWanted, JournalRecord, RestoredAlloc};
use crate::key::{RunEpoch, RunKey};
use crate::task_runner::Boot;
use crate::time::Now;
use crate::update_batcher::AckedState;

/// Keeper's runs of one allocation by task.
pub(super) type KeptTasks = BTreeMap<String, Vec<(RunEpoch, KeptPhase)>>;

/// What is known of an allocation without its job.
#[derive(Clone, Debug)]
pub(super) struct LostSpec {
    pub(super) restored: RestoredAlloc,
    kept: KeptTasks,
    boot: Boot,
}

impl LostSpec {
    fn runs(&self) -> impl Iterator<Item = (RunKey, &KeptPhase)> {
        let alloc = self.restored.alloc.id;
        self.kept.iter().flat_map(move |(task, runs)| {
            runs.iter().map(move |(epoch, phase)| {
                let (task, epoch) = (task.clone(), *epoch);
                (RunKey { alloc, task, epoch }, phase)
            })
        })
    }

    /// What the control plane has recorded and the journal says of the tasks, as version 0: a
    /// reason to send it all. One whose task runs is not reported as pending.
    pub(super) fn report(&self, acknowledged: Option<&AckedState>) -> AllocReport {
        let mut states = self.restored.tasks.values();
        let runs = states.any(|task| task.state.state == TaskRunState::Running);
        let status = match (acknowledged, runs) {
            // The acknowledgement of what came after may not have come to the journal.
            (Some(acknowledged), true) if acknowledged.client_status == ClientStatus::Pending => {
                ClientStatus::Running
            }
            (Some(acknowledged), _) => acknowledged.client_status,
            (None, true) => ClientStatus::Running,
            (None, false) => ClientStatus::Pending,
        };
        let mut report = AllocReport::new(self.restored.alloc.id, 0, status);
        if let Some(acknowledged) = acknowledged {
            report.client_description = acknowledged.client_description.clone();
            report.task_states = acknowledged.task_states.clone();
        }
        let tasks = self.restored.tasks.iter();
        let states = tasks.map(|(name, task)| (name.clone(), task.state.clone()));
        report.task_states.extend(states);
        keep_newest_events(&mut report.task_states);
        report
    }
}

impl NodeCore {
    /// Allocations that wait for a server to send their job specification.
    pub fn allocs_without_spec(&self) -> impl Iterator<Item = AllocId> {
        self.lost_specs.keys().copied()
    }

    /// Their runs that have not ended.
    pub fn runs_without_spec(&self) -> Vec<RunKey> {
        let runs = self.lost_specs.values().flat_map(LostSpec::runs);
        let alive = runs.filter(|(_, phase)| is_alive(phase));
        alive.map(|(run, _)| run).collect()
    }

    /// Keeps an allocation until its specification comes, or what is left of it has gone.
    pub(super) fn keep_without_spec(
        &mut self,
        id: AllocId,
        restored: RestoredAlloc,
        kept: KeptTasks,
        boot: Boot,
    ) {
        let is_unwanted = restored.destroy == DestroyWanted::Yes;
        let lost = LostSpec {
            restored,
            kept,
            boot,
        };
        self.lost_specs.insert(id, lost);
        if is_unwanted {
            self.clear_without_spec(id);
        }
    }

    /// The specification came: the allocation is restored as at the daemon's start.
    pub(super) fn find_spec(&mut self, id: AllocId, hash: SpecHash, job: &Arc<Job>, now: Now) {
        let is_wanted = |lost: &LostSpec| lost.restored.destroy == DestroyWanted::No;
        if !self.lost_specs.get(&id).is_some_and(is_wanted) {
            return;
        }
        let Some(lost) = self.lost_specs.remove(&id) else {
            return;
        };
        let LostSpec {
            mut restored,
            mut kept,
            boot,
        } = lost;
        restored.spec = hash;
        let group = job.task_group(&restored.alloc.task_group);
        let has_task = |task: &String| group.is_some_and(|group| group.task(task).is_some());
        let strange: Vec<String> = kept.keys().filter(|it| !has_task(it)).cloned().collect();
        for task in strange {
            for (epoch, phase) in kept.remove(&task).unwrap_or_default() {
                let (alloc, task) = (id, task.clone());
                let run = RunKey { alloc, task, epoch };
                self.disown(KeptRun { run, phase });
            }
        }
        self.restore_alloc(id, restored, kept, boot, now);
    }

    /// The control plane does not know the allocation any more. Without its specification nothing
    /// says how its tasks are to be stopped: they are killed.
    pub(super) fn remove_without_spec(&mut self, id: AllocId) {
        let Some(lost) = self.lost_specs.get_mut(&id) else {
            return;
        };
        if lost.restored.destroy == DestroyWanted::No {
            lost.restored.destroy = DestroyWanted::Yes;
            self.outbox
                .journal(JournalRecord::DestroyWanted { alloc: id });
            self.clear_without_spec(id);
        }
    }

    /// Kills what runs; where nothing does, the rest may go.
    fn clear_without_spec(&mut self, id: AllocId) {
        let Some(lost) = self.lost_specs.get_mut(&id) else {
            return;
        };
        let (alive, ended): (Vec<_>, Vec<_>) = lost.runs().partition(|(_, phase)| is_alive(phase));
        let [alive, ended] =
            [alive, ended].map(|runs| runs.into_iter().map(|(run, _)| run).collect::<Vec<_>>());
        for runs in lost.kept.values_mut() {
            runs.retain(|(_, phase)| is_alive(phase));
        }
        for run in ended {
            self.outbox.push(Effect::ReleaseRun { run });
        }
        if alive.is_empty() {
            self.outbox.push(Effect::DestroyAlloc { alloc: id });
        }
        for run in alive {
            self.outbox.push(Effect::KillTask { run });
        }
    }

    /// Nothing of it is left.
    pub(super) fn on_destroyed_without_spec(&mut self, id: AllocId) {
        if self.lost_specs.remove(&id).is_some() {
            self.outbox.journal(JournalRecord::Destroyed { alloc: id });
            self.forget(id);
        }
    }

    /// What keeper says of a run is stored until there is a runner for it.
    pub(super) fn on_run_without_spec(&mut self, run: &RunKey, event: RunEvent) {
        let phase = match event {
            RunEvent::Started { pid, at } => KeptPhase::Running {
                pid,
                at,
                stopping: false,
            },
            RunEvent::StartFailed { message, .. } => KeptPhase::StartFailed { message },
            RunEvent::Exited(exit) => KeptPhase::Exited(exit),
            RunEvent::Prepared { .. }
            | RunEvent::PrepareFailed { .. }
            | RunEvent::TemplatesChanged { .. }
            | RunEvent::TemplatesRendered { .. }
            | RunEvent::ScriptEnded { .. }
            | RunEvent::IdentitiesRenewed { .. }
            | RunEvent::Fetched { .. }
            | RunEvent::Progress { .. }
            | RunEvent::Message { .. } => return,
        };
        let Some(lost) = self.lost_specs.get_mut(&run.alloc) else {
            return;
        };
        let runs = lost.kept.get_mut(&run.task);
        let known = runs.and_then(|runs| runs.iter_mut().find(|(epoch, _)| *epoch == run.epoch));
        match known {
            Some((_, known)) => *known = phase,
            None if !is_alive(&phase) => {
                self.outbox.push(Effect::ReleaseRun { run: run.clone() });
                return;
            }
            None => return,
        }
        if lost.restored.destroy == DestroyWanted::Yes {
            self.clear_without_spec(run.alloc);
        }
    }
}

/// Whether something of a run may be alive.
pub(super) fn is_alive(phase: &KeptPhase) -> bool {
    match phase {
        KeptPhase::Starting | KeptPhase::Running { .. } | KeptPhase::Ending => true,
        KeptPhase::Exited(_) | KeptPhase::StartFailed { .. } => false,
    }
}
