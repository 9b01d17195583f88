//! The node when the daemon starts: the journal says what was wanted, keeper what runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{AllocId, Job, Node, SpecHash};

use super::last_heard::LastHeard;
use super::leases::{Kept, Leases};
use super::lost_specs::{KeptTasks, is_alive};
use super::predecessors::Predecessors;
use super::{NodeCore, Timers, Unrunnable, watch_steps};
use crate::alloc_runner::{AllocRunner, Restoration, World};
use crate::alloc_set::AllocSet;
use crate::alloc_spec::AllocSpec;
use crate::effect::Effect;
use crate::event::KeptRun;
use crate::journal::{DestroyWanted, JournalRecord, RestoredAlloc, RestoredNode};
use crate::key::BootId;
use crate::outbox::Outbox;
use crate::session::Session;
use crate::settings::Settings;
use crate::task_runner::Boot;
use crate::time::Now;
use crate::update_batcher::UpdateBatcher;

/// Keeper's runs by allocation and task.
type KeptByTask = BTreeMap<AllocId, KeptTasks>;

/// The versions of the allocations. 0 where the specification is lost: the watch sends it again.
fn versions(
    allocs: &BTreeMap<AllocId, RestoredAlloc>,
    specs: &BTreeMap<SpecHash, Arc<Job>>,
) -> BTreeMap<AllocId, u64> {
    let version = |restored: &RestoredAlloc| match specs.contains_key(&restored.spec) {
        true => restored.alloc.alloc_modify_index,
        false => 0,
    };
    let versions = allocs.iter().map(|(id, restored)| (*id, version(restored)));
    versions.collect()
}

/// What is foreign or was dropped may have its version from an earlier incarnation, which counted
/// otherwise.
fn newest_version(allocs: &BTreeMap<AllocId, RestoredAlloc>, foreign: &BTreeSet<AllocId>) -> u64 {
    let wanted = allocs
        .iter()
        .filter(|(id, restored)| restored.destroy == DestroyWanted::No && !foreign.contains(id));
    let versions = wanted.map(|(_, restored)| restored.alloc.alloc_modify_index);
    versions.max().unwrap_or_default()
}

impl NodeCore {
    /// A node. `restored` is what [`crate::journal::replay`] made of the journal (empty at first),
    /// `kept` is keeper's `List`, `boot` is the host's present one: where the journal speaks of
    /// another, nothing of what it says runs (and `kept` is empty). Drain the effects afterwards,
    /// as after every call.
    pub fn new(
        settings: Settings,
        node: Arc<Node>,
        restored: RestoredNode,
        kept: Vec<KeptRun>,
        boot: BootId,
        now: Now,
    ) -> Self {
        let RestoredNode {
            watermark,
            epoch,
            boot: spoken_of,
            confirmed,
            heard,
            specs,
            allocs,
            foreign,
        } = restored;
        let versions = versions(&allocs, &specs);
        let mut session = Session::new(epoch, settings.answer_limit, settings.seed, now);
        session.on_durable(watermark);
        let alloc_set = AllocSet::new(
            watermark,
            newest_version(&allocs, &foreign),
            versions,
            foreign,
            settings.unknown_alloc_grace,
            now.moment,
        );
        let since = if spoken_of == Some(boot) {
            Boot::Same
        } else {
            Boot::Another
        };
        let confirmed = confirmed.filter(|_| since == Boot::Same);
        session.set_confirmed(confirmed);
        let mut leases = Leases::default();
        leases.set_journaled(confirmed);
        let mut core = Self {
            boot,
            session,
            alloc_set,
            settings,
            node,
            batcher: UpdateBatcher::default(),
            runners: BTreeMap::new(),
            unrunnable: BTreeMap::new(),
            lost_specs: BTreeMap::new(),
            journaled_specs: specs.keys().copied().collect(),
            specs,
            spec_of: BTreeMap::new(),
            strays: BTreeSet::new(),
            timers: Timers::default(),
            predecessors: Predecessors::default(),
            leases,
            last_heard: LastHeard::new(heard),
            last_reports: BTreeMap::new(),
            ended: BTreeSet::new(),
            stops_synced_in: None,
            outbox: Outbox::default(),
        };
        let mut kept = core.sort_out(kept, &allocs);
        for (id, restored) in allocs {
            let runs = kept.remove(&id).unwrap_or_default();
            core.restore_alloc(id, restored, runs, since, now);
        }
        // All of them are here by now: which waits for which follows from that.
        let ids: Vec<AllocId> = core.runners.keys().copied().collect();
        for id in ids {
            core.settle(id, now);
        }
        if since == Boot::Another {
            // Behind the records of what that means: a daemon that dies before this one is written
            // leaves its successor the same question.
            core.outbox.journal(JournalRecord::Boot { boot });
        }
        core.flush(now);
        core
    }

    /// Runs by allocation and task. Those of nobody are killed, or let go where they have ended.
    fn sort_out(
        &mut self,
        kept: Vec<KeptRun>,
        allocs: &BTreeMap<AllocId, RestoredAlloc>,
    ) -> KeptByTask {
        let mut by_task = KeptByTask::new();
        for kept in kept {
            let run = &kept.run;
            let has_task = |restored: &RestoredAlloc| {
                // Without its specification every run may be one of its tasks'.
                self.specs.get(&restored.spec).is_none_or(|job| {
                    let group = job.task_group(&restored.alloc.task_group);
                    group.is_some_and(|group| group.task(&run.task).is_some())
                })
            };
            if allocs.get(&run.alloc).is_some_and(has_task) {
                let KeptRun { run, phase } = kept;
                let tasks = by_task.entry(run.alloc).or_default();
                tasks.entry(run.task).or_default().push((run.epoch, phase));
            } else {
                self.disown(kept);
            }
        }
        by_task
    }

    /// A run belongs to no task of this node: it is killed, or let go where it has ended.
    pub(super) fn disown(&mut self, kept: KeptRun) {
        let KeptRun { run, phase } = kept;
        if is_alive(&phase) {
            self.strays.insert(run.clone());
            self.outbox.push(Effect::KillTask { run });
        } else {
            self.outbox.push(Effect::ReleaseRun { run });
        }
    }

    pub(super) fn restore_alloc(
        &mut self,
        id: AllocId,
        restored: RestoredAlloc,
        kept: KeptTasks,
        boot: Boot,
        now: Now,
    ) {
        self.spec_of.insert(id, restored.spec);
        if let Some(acknowledged) = &restored.acknowledged {
            self.batcher.set_acknowledged(id, acknowledged.clone());
        }
        let Some(job) = self.specs.get(&restored.spec).cloned() else {
            return self.keep_without_spec(id, restored, kept, boot);
        };
        let RestoredAlloc {
            alloc,
            spec: _,
            root_key,
            destroy,
            state,
            tasks,
            acknowledged: _,
        } = restored;
        let had = if kept.is_empty() {
            Kept::Nothing
        } else {
            Kept::Runs
        };
        match AllocSpec::new(alloc.clone(), job) {
            Ok(spec) => {
                let spec = Arc::new(spec.signed_by(root_key.unwrap_or(0)));
                let restoration = Restoration {
                    spec,
                    state,
                    destroy,
                    tasks,
                    kept,
                    heard: self.last_heard.journaled(),
                };
                let world = World {
                    settings: &self.settings,
                    node: &self.node,
                };
                let mut runner =
                    AllocRunner::restore(restoration, boot, world, &mut self.outbox, now);
                self.restore_lease(&mut runner, had, now);
                self.runners.insert(id, runner);
            }
            Err(problem) => {
                let unrunnable = Unrunnable {
                    alloc,
                    message: problem.to_string(),
                };
                let report = watch_steps::unrunnable_report(&unrunnable);
                self.batcher.on_update(report, now.moment);
                self.unrunnable.insert(id, unrunnable);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol_model::SpecHash;

    use super::*;
    use crate::test_support::{alloc_of, job_with_tasks};

    #[test]
    fn the_newest_version_is_that_of_what_the_present_incarnation_wants_here() {
        let [wanted, older, foreign, dropped] = [1, 2, 3, 4].map(AllocId::from_u128);
        let job = job_with_tasks("web", Vec::new());
        let restored = |id, version| {
            let mut alloc = alloc_of(&job, id);
            alloc.alloc_modify_index = version;
            (id, RestoredAlloc::new(alloc, SpecHash([1; 32])))
        };
        let versions = [(wanted, 7), (older, 5), (foreign, 900), (dropped, 900)];
        let mut allocs: BTreeMap<AllocId, RestoredAlloc> =
            versions.map(|(id, version)| restored(id, version)).into();
        let last = allocs.get_mut(&dropped).expect("it is one of them");
        last.destroy = DestroyWanted::Yes;
        assert_eq!(newest_version(&allocs, &BTreeSet::from([foreign])), 7);
        assert_eq!(newest_version(&BTreeMap::new(), &BTreeSet::new()), 0);
    }
}
