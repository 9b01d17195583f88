//! What the watch's steps mean: allocations that come, change and go, the journal, the answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol_model::{AllocId, ClientStatus, SpecHash};
use protocol_wire::report::AllocReport;

use super::{NodeCore, Unrunnable};
use crate::alloc_runner::{AllocRunner, Removal, World};
use crate::alloc_set::WatchStep;
use crate::alloc_spec::AllocSpec;
use crate::effect::{DisconnectReason, Durability, Effect, SessionMessage};
use crate::event::{DesiredAlloc, WatchDelta};
use crate::journal::JournalRecord;
use crate::key::Watermark;
use crate::time::Now;
use crate::update_batcher::AckedState;

impl NodeCore {
    /// A change of desired state: all of it or nothing.
    pub(super) fn on_delta(&mut self, delta: WatchDelta, now: Now) {
        for (hash, job) in &delta.specs {
            self.specs.insert(*hash, Arc::clone(job));
        }
        // Looked at before anything changes: what the set has taken in it would not ask for again.
        let lacking = delta
            .changed
            .iter()
            .find(|desired| !self.specs.contains_key(&desired.spec));
        if let Some(desired) = lacking {
            let problem = format!("its job specification {} was not sent", desired.spec);
            let alloc = desired.alloc.id;
            self.disconnect(DisconnectReason::AllocMalformed { alloc, problem }, now);
            return;
        }
        let steps = self.alloc_set.on_delta(delta);
        self.take_steps(steps, now);
    }

    pub(super) fn take_steps(&mut self, steps: Result<Vec<WatchStep>, DisconnectReason>, now: Now) {
        let steps = match steps {
            Ok(steps) => steps,
            Err(reason) => {
                self.disconnect(reason, now);
                return;
            }
        };
        for step in steps {
            match step {
                WatchStep::Upsert(desired) => {
                    if desired.alloc.server_terminal() {
                        self.stops_synced_in = None;
                    }
                    self.upsert(*desired, now);
                }
                WatchStep::Destroy(alloc) => {
                    self.stops_synced_in = None;
                    self.remove_alloc(alloc, now);
                }
                WatchStep::Foreign(allocs) => {
                    let allocs = allocs.into_iter().collect();
                    self.outbox.journal(JournalRecord::Foreign { allocs });
                }
                WatchStep::Confirmed(allocs) => self.release_holds(&allocs, now),
                WatchStep::Moved(watermark) => self.acknowledge(watermark),
            }
        }
    }

    /// The watch spoke: what the node took over from its journal may start again.
    fn release_holds(&mut self, allocs: &[AllocId], now: Now) {
        for alloc in allocs {
            if let Some(runner) = self.runners.get_mut(alloc)
                && runner.release_hold(&mut self.outbox)
            {
                self.settle(*alloc, now);
            }
        }
    }

    /// A watermark stands for every stop before it, also one that an earlier step brought or an
    /// earlier session did not get to acknowledge: they are on the disk first. What is behind such
    /// an acknowledgement in its session waits with it.
    fn acknowledge(&mut self, watermark: Watermark) {
        self.outbox
            .journal(JournalRecord::Watermark { at: watermark });
        let Some(epoch) = self.session.live_epoch() else {
            return;
        };
        let message = SessionMessage::WatchAck {
            epoch,
            index: watermark.index,
        };
        let attempt = self.session.attempt();
        let durability = if self.stops_synced_in == Some(attempt) {
            Durability::Appended
        } else {
            Durability::Synced
        };
        self.stops_synced_in = Some(attempt);
        self.outbox
            .push_after(durability, Effect::Send { attempt, message });
    }

    fn upsert(&mut self, desired: DesiredAlloc, now: Now) {
        let DesiredAlloc {
            version,
            spec: hash,
            mut alloc,
            root_key,
        } = desired;
        let Some(job) = self.specs.get(&hash).cloned() else {
            return;
        };
        let id = alloc.id;
        alloc.job = None;
        alloc.alloc_modify_index = version;
        self.find_spec(id, hash, &job, now);
        let known = self.runners.get(&id).map(AllocRunner::removal);
        match known {
            // Its id will not come back: what is being destroyed stays destroyed.
            Some(Removal::Destroying | Removal::Destroyed) => return,
            // It ended elsewhere or earlier, and nothing of it is here.
            None if alloc.client_terminal() => return,
            Some(Removal::Kept | Removal::Wanted) | None => {}
        }
        self.journal_desired(&alloc, hash, root_key);
        let healthy = alloc
            .deployment_status
            .as_ref()
            .and_then(|status| status.healthy);
        let told = AckedState {
            client_status: alloc.client_status,
            client_description: alloc.client_description.clone(),
            healthy,
            healthy_for: healthy.and(alloc.deployment_id),
            ..AckedState::default()
        };
        self.batcher.set_acknowledged(id, told);
        match AllocSpec::new(alloc.clone(), job) {
            Ok(spec) => {
                let spec = Arc::new(spec.signed_by(root_key));
                let world = World {
                    settings: &self.settings,
                    node: &self.node,
                };
                match self.runners.get_mut(&id) {
                    Some(runner) => runner.update(spec, world, &mut self.outbox, now),
                    None => {
                        self.runners.insert(id, AllocRunner::new(spec, now));
                    }
                }
                self.unrunnable.remove(&id);
                self.settle(id, now);
            }
            Err(problem) => {
                let unrunnable = Unrunnable {
                    alloc,
                    message: problem.to_string(),
                };
                self.batcher
                    .on_update(unrunnable_report(&unrunnable), now.moment);
                self.unrunnable.insert(id, unrunnable);
            }
        }
    }

    fn journal_desired(
        &mut self,
        alloc: &protocol_model::Allocation,
        hash: SpecHash,
        root_key: u32,
    ) {
        let before = self.spec_of.insert(alloc.id, hash);
        if let Some(before) = before.filter(|before| *before != hash) {
            self.forget_journaled(before);
        }
        if self.journaled_specs.insert(hash)
            && let Some(job) = self.specs.get(&hash)
        {
            self.outbox.journal(JournalRecord::Spec {
                hash,
                job: Arc::clone(job),
            });
        }
        self.outbox.journal(JournalRecord::Desired {
            alloc: Box::new(alloc.clone()),
            spec: hash,
            root_key: (root_key != 0).then_some(root_key),
        });
    }

    /// A server pushes a specification once per session, so those of the session are kept, and
    /// after it those that something refers to.
    pub(super) fn forget_unused_specs(&mut self) {
        let used: BTreeSet<SpecHash> = self.spec_of.values().copied().collect();
        self.specs.retain(|hash, _| used.contains(hash));
        self.journaled_specs.retain(|hash| used.contains(hash));
    }
}

/// All that can be said of an allocation that cannot be run as it came.
pub(super) fn unrunnable_report(unrunnable: &Unrunnable) -> AllocReport {
    let Unrunnable { alloc, message } = unrunnable;
    let status = if alloc.server_terminal() && alloc.client_status != ClientStatus::Failed {
        ClientStatus::Complete
    } else {
        ClientStatus::Failed
    };
    let mut report = AllocReport::new(alloc.id, 0, status);
    report.client_description = format!("The allocation cannot be run: {message}");
    report.desired_version = alloc.alloc_modify_index;
    report
}
