//! Everything the node decides, in one struct that the daemon's loop owns.
//!
//! ```text
//!   on_event / on_timeout / commands
//!        |-> Session ----- Welcome ----> batcher.begin_sync -> sync parts
//!        |-> AllocSet ---- steps ------> journal, runners
//!        |-> AllocRunner - settle -----> effects, reports -> UpdateBatcher
//!        `-> flush: due batches, acknowledged states, timers
//!   poll_effect, poll_timeout
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol_model::{AllocId, Job, Node, SpecHash};
use protocol_wire::report::AllocReport;

mod collect;
mod commands;
mod getters;
pub(crate) mod last_heard;
mod lease_steps;
pub(crate) mod leases;
mod lost_specs;
mod predecessors;
mod restore;
mod session_events;
#[cfg(test)]
mod tests;
mod timers;
mod watch_steps;

use crate::alloc_runner::{AllocRunner, Settled, World};
use crate::alloc_set::AllocSet;
use crate::effect::{Durability, Effect, Issued, SessionMessage, StatusBatch, UpdateClass};
use crate::event::{AllocEvent, Event, RunEvent};
use crate::journal::JournalRecord;
use crate::key::{Attempt, BootId, RunKey};
use crate::outbox::Outbox;
use crate::session::Session;
use crate::settings::Settings;
use crate::time::{Moment, Now, earliest};
use crate::update_batcher::UpdateBatcher;
pub use collect::{DiskRelief, NotCollected};
pub use getters::AllocStatus;
use last_heard::LastHeard;
use leases::Leases;
use lost_specs::LostSpec;
use predecessors::Predecessors;
use timers::Timers;

/// Every decision of one node.
#[derive(Clone, Debug)]
pub struct NodeCore {
    settings: Settings,
    boot: BootId,
    node: Arc<Node>,
    session: Session,
    alloc_set: AllocSet,
    batcher: UpdateBatcher,
    runners: BTreeMap<AllocId, AllocRunner>,
    /// Allocations that cannot be run as they came; all they do is report that.
    unrunnable: BTreeMap<AllocId, Unrunnable>,
    /// Allocations that wait for a server to send their job specification.
    lost_specs: BTreeMap<AllocId, LostSpec>,
    specs: BTreeMap<SpecHash, Arc<Job>>,
    journaled_specs: BTreeSet<SpecHash>,
    /// The spec of every allocation in the journal.
    spec_of: BTreeMap<AllocId, SpecHash>,
    /// Runs that belong to no allocation of this node: they are killed and let go.
    strays: BTreeSet<RunKey>,
    timers: Timers,
    predecessors: Predecessors,
    leases: Leases,
    last_heard: LastHeard,
    last_reports: BTreeMap<AllocId, AllocReport>,
    /// Allocations of which every task is dead.
    ended: BTreeSet<AllocId>,
    /// The attempt in whose session an acknowledgement waits, or waited, until every stop is on the
    /// disk.
    stops_synced_in: Option<Attempt>,
    outbox: Outbox,
}

/// An allocation that cannot be run as it came.
#[derive(Clone, PartialEq, Debug)]
struct Unrunnable {
    alloc: protocol_model::Allocation,
    message: String,
}

impl NodeCore {
    /// Something happened.
    pub fn on_event(&mut self, event: Event, now: Now) {
        match event {
            Event::Session { attempt, event } => {
                if attempt == self.session.attempt() {
                    self.on_session_event(event, now);
                } else if self.session.is_standby(attempt) {
                    self.on_standby_event(event, now);
                }
            }
            Event::Alloc { alloc, event } => {
                if let Some(runner) = self.runners.get_mut(&alloc) {
                    runner.on_alloc_event(event, &mut self.outbox, now);
                    self.settle(alloc, now);
                } else if event == AllocEvent::Destroyed {
                    self.on_destroyed_without_spec(alloc);
                }
            }
            Event::Leases(answer) => self.on_leases_answer(answer, now),
            Event::Run { run, event } => self.on_run_event(&run, event, now),
        }
        self.flush(now);
    }

    /// A deadline has come.
    pub fn on_timeout(&mut self, now: Now) {
        self.session.on_timeout(&mut self.outbox, now);
        self.notice_closed();
        if self.batcher.overdue(now.moment) {
            let reason = crate::effect::DisconnectReason::Silent {
                waiting_for: "the answer to a status batch",
            };
            self.disconnect(reason, now);
        }
        let over = self.alloc_set.on_timeout(now.moment);
        self.remove_foreign(over, now);
        for alloc in self.timers.due(now.moment) {
            if let Some(at) = self.lease_deadline(alloc)
                && at <= now.moment
                && let Some(runner) = self.runners.get_mut(&alloc)
            {
                runner.expire_lease(&mut self.outbox);
            }
            let world = World {
                settings: &self.settings,
                node: &self.node,
            };
            if let Some(runner) = self.runners.get_mut(&alloc) {
                runner.on_timeout(world, &mut self.outbox, now);
            }
            self.settle(alloc, now);
        }
        self.flush(now);
    }

    /// A batch waits for the journal: no answer can be due yet, and the session goes on meanwhile.
    pub fn on_batch_held(&mut self, class: UpdateClass, seq: u64) {
        self.batcher.on_held(class, seq);
    }

    /// A batch that was held is sent now: its answer is due from now on.
    pub fn on_batch_sent(&mut self, class: UpdateClass, seq: u64, now: Now) {
        self.batcher.on_sent(class, seq, now.moment);
    }

    /// The next effect; drain it after every call.
    pub fn poll_effect(&mut self) -> Option<Issued> {
        self.outbox.pop()
    }

    /// When [`Self::on_timeout`] is next due.
    pub fn poll_timeout(&self) -> Option<Moment> {
        let machines = earliest(self.session.poll_timeout(), self.batcher.poll_timeout());
        earliest(
            earliest(machines, self.alloc_set.poll_timeout()),
            self.timers.first(),
        )
    }

    fn on_run_event(&mut self, run: &RunKey, event: RunEvent, now: Now) {
        if self.lost_specs.contains_key(&run.alloc) {
            return self.on_run_without_spec(run, event);
        }
        let ended = matches!(event, RunEvent::Exited(_) | RunEvent::StartFailed { .. });
        let world = World {
            settings: &self.settings,
            node: &self.node,
        };
        match self.runners.get_mut(&run.alloc) {
            Some(runner) if runner.tasks().contains_key(&run.task) => {
                runner.on_run_event(&run.task, run.epoch, event, world, &mut self.outbox, now);
                self.settle(run.alloc, now);
            }
            // Keeper refuses to kill what is just starting.
            Some(_) | None
                if matches!(event, RunEvent::Started { .. }) && self.strays.contains(run) =>
            {
                self.outbox.push(Effect::KillTask { run: run.clone() });
            }
            Some(_) | None if ended => {
                self.strays.remove(run);
                self.outbox.push(Effect::ReleaseRun { run: run.clone() });
            }
            Some(_) | None => {}
        }
    }

    /// Lets an allocation bring about what should be, and after its end those that waited for it.
    fn settle(&mut self, alloc: AllocId, now: Now) {
        let mut due = vec![alloc];
        while let Some(alloc) = due.pop() {
            self.settle_one(alloc, now);
            let runner = self.runners.get(&alloc);
            if runner.is_none_or(AllocRunner::all_dead) {
                // None of them waits for it any more, so that this ends.
                due.extend(self.predecessors.waiting_for(alloc));
            }
        }
    }

    /// Lets an allocation bring about what should be, and reports what changed.
    fn settle_one(&mut self, alloc: AllocId, now: Now) {
        let awaited = self.awaited_by(alloc);
        self.predecessors.set_awaited(alloc, awaited);
        let world = World {
            settings: &self.settings,
            node: &self.node,
        };
        let Some(runner) = self.runners.get_mut(&alloc) else {
            self.timers.set(alloc, None);
            return;
        };
        runner.set_awaited(awaited, now);
        let settled = runner.settle(world, &mut self.outbox, now);
        self.predecessors.note_ending(runner);
        if self.leases.set(alloc, runner.lease_need(), now.moment) {
            runner.lose_lease();
        }
        self.last_heard.set(alloc, runner.tolerated());
        match settled {
            Settled::Alive => {
                let (report, timer) = (runner.report(), runner.poll_timeout());
                if self.last_reports.get(&alloc) != Some(&report) {
                    self.last_reports.insert(alloc, report.clone());
                    self.batcher.on_update(report, now.moment);
                }
                if runner.all_dead() {
                    self.ended.insert(alloc);
                } else {
                    self.ended.remove(&alloc);
                }
                let timer = earliest(timer, self.lease_deadline(alloc));
                self.timers.set(alloc, timer);
            }
            Settled::Destroyed => {
                self.runners.remove(&alloc);
                self.ended.remove(&alloc);
                self.timers.set(alloc, None);
                self.predecessors.forget(alloc);
                self.last_heard.set(alloc, None);
                self.forget(alloc);
            }
        }
    }

    /// What follows from everything that was said in this call.
    fn flush(&mut self, now: Now) {
        for (alloc, state) in self.batcher.take_acknowledged() {
            if self.spec_of.contains_key(&alloc) {
                let state = Box::new(state);
                self.outbox
                    .journal(JournalRecord::Acknowledged { alloc, state });
            }
        }
        self.tend_leases(now);
        self.collect_down_to(self.settings.terminal_allocs_max, now);
        while let Some(batch) = self.batcher.poll_batch(now.moment) {
            self.send_batch(batch);
        }
    }

    /// A terminal status must not be heard of before its cause is on the disk.
    fn send_batch(&mut self, batch: StatusBatch) {
        let terminal = batch.reports.iter().any(AllocReport::is_terminal);
        let needs = if terminal {
            Durability::Synced
        } else {
            Durability::Appended
        };
        let attempt = self.session.attempt();
        let message = SessionMessage::StatusBatch(batch);
        self.outbox
            .push_after(needs, Effect::Send { attempt, message });
    }

    /// Stops and destroys an allocation.
    fn remove_alloc(&mut self, alloc: AllocId, now: Now) {
        if self.unrunnable.remove(&alloc).is_some() {
            self.outbox.journal(JournalRecord::Destroyed { alloc });
            self.forget(alloc);
        }
        self.remove_without_spec(alloc);
        if let Some(runner) = self.runners.get_mut(&alloc) {
            self.outbox.journal(JournalRecord::DestroyWanted { alloc });
            runner.remove();
            self.settle(alloc, now);
        }
    }

    /// All that was foreign may go.
    fn remove_foreign(&mut self, released: Vec<AllocId>, now: Now) {
        if released.is_empty() {
            return;
        }
        let allocs = BTreeSet::new();
        self.outbox.journal(JournalRecord::Foreign { allocs });
        for alloc in released {
            self.remove_alloc(alloc, now);
        }
    }

    /// Nothing of an allocation is left here.
    fn forget(&mut self, alloc: AllocId) {
        self.last_reports.remove(&alloc);
        self.batcher.forget(alloc);
        if let Some(hash) = self.spec_of.remove(&alloc) {
            self.forget_journaled(hash);
        }
    }

    /// A journal that is compacted from now on lacks a specification that nothing refers to:
    /// whoever comes with it later writes it again.
    fn forget_journaled(&mut self, hash: SpecHash) {
        if !self.spec_of.values().any(|used| *used == hash) {
            self.journaled_specs.remove(&hash);
        }
    }
}
