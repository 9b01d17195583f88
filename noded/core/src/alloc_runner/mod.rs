//! One allocation on this node: its tasks, their order, its end.
//!
//! ```text
//!   accepted -> (waits) -> being prepared -> prepared -> tasks start, stage by stage
//!                                 |                            |
//!                                 | failed                     | stop wanted, lead task dead,
//!                                 v                            v a task failed, main tasks dead
//!                         every task fails        ending: lead, others, sidecars; then poststop
//!                                 |                            |
//!                                 +-------> all dead <---------+
//!                                               |  (not wanted any more)
//!                                               v
//!                                  destroying -> destroyed
//! ```
//!
//! It waits for the word of the control plane after a restart of the host, for its lease, and for
//! the end of its predecessor on this node.
//!
//! After every event [`AllocRunner::settle`] compares what is with what should be and asks for the
//! difference: kill waves, stages and starts are functions of the tasks' states, stored nowhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::{AllocId, Node};

mod commands;
mod ending;
mod getters;
pub mod health;
mod kill_order;
mod lease;
mod persisted;
mod report;
mod restore;
mod starting;
#[cfg(test)]
mod tests;

use crate::alloc_resources::AllocResources;
use crate::alloc_spec::AllocSpec;
use crate::effect::{Durability, Effect};
use crate::event::{AllocEvent, RunEvent};
use crate::journal::JournalRecord;
use crate::key::RunEpoch;
use crate::lifecycle::Stage;
use crate::outbox::Outbox;
use crate::settings::Settings;
use crate::task_runner::{KillCause, RunContext, ShutdownDelay, TaskRunner};
use crate::time::{Moment, Now, earliest};
pub use commands::{CommandError, RestartScope, SignalScope};
use ending::{Begin, Ending};
pub(crate) use getters::Member;
use health::HealthTracker;
use lease::Lease;
pub use persisted::{PersistedAlloc, PersistedHealth, StartHold};
pub(crate) use restore::Restoration;

/// Where what all tasks of the allocation need is: directories, network.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Preparation {
    /// It was not asked for.
    Absent,
    /// It is being made.
    UnderWay,
    /// It is there.
    Done,
    /// It could not be made.
    Failed { message: String },
}

/// Whether what only running tasks need is still there: secrets, network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Upkeep {
    /// It may be.
    Kept,
    /// It was asked to go.
    Retired,
}

/// Whether the node is to get rid of the allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removal {
    /// It stays.
    Kept,
    /// It is stopped and then destroyed.
    Wanted,
    /// Its directories are being destroyed.
    Destroying,
    /// They are gone.
    Destroyed,
}

/// What an allocation asks of its surroundings after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// It lives on.
    Alive,
    /// Nothing of it is left: forget it.
    Destroyed,
}

/// One allocation on this node.
#[derive(Clone, Debug)]
pub struct AllocRunner {
    spec: Arc<AllocSpec>,
    tasks: BTreeMap<String, TaskRunner>,
    stage: Stage,
    preparation: Preparation,
    ending: Option<Ending>,
    removal: Removal,
    upkeep: Upkeep,
    /// The allocation that has to end before this one may start.
    awaited: Option<AllocId>,
    lease: Lease,
    health: HealthTracker,
    state: PersistedAlloc,
}

impl AllocRunner {
    /// An allocation that has just been accepted.
    pub(crate) fn new(spec: Arc<AllocSpec>, now: Now) -> Self {
        let id = spec.id();
        let tasks = spec.group().tasks.iter();
        let tasks = tasks
            .map(|task| (task.name.clone(), TaskRunner::new(id, &task.name, now)))
            .collect();
        Self {
            tasks,
            stage: Stage::Init,
            preparation: Preparation::Absent,
            ending: None,
            removal: Removal::Kept,
            upkeep: Upkeep::Kept,
            awaited: None,
            lease: Lease::Absent,
            health: HealthTracker::new(&spec, None, now),
            state: PersistedAlloc::default(),
            spec,
        }
    }

    /// The control plane wants something else of it: a stop, another specification in place, or
    /// that it goes on after it had been unknown.
    pub(crate) fn update(
        &mut self,
        spec: Arc<AllocSpec>,
        world: World<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        let returned = spec.alloc().reconnected_at();
        let is_news = returned.is_some() && returned != self.spec.alloc().reconnected_at();
        if is_news && !spec.alloc().server_terminal() {
            for task in self.tasks.values_mut() {
                task.on_reconnected(out, now);
            }
        }
        let deployment = spec.alloc().deployment_id;
        if deployment != self.spec.alloc().deployment_id {
            self.state.health = None;
            self.health = HealthTracker::new(&spec, None, now);
        }
        if self.removal == Removal::Wanted {
            self.removal = Removal::Kept;
        }
        // The record of what is wanted says this too.
        self.state.hold = StartHold::Free;
        let has_another_key = spec.root_key() != self.spec.root_key();
        self.spec = spec;
        if has_another_key {
            self.follow_identities(world, out);
        }
    }

    /// Another root key signs the identities of the tasks that run.
    fn follow_identities(&mut self, world: World<'_>, out: &mut Outbox) {
        let Self {
            spec, tasks, state, ..
        } = self;
        for task in tasks.values_mut().filter(|task| task.has_process()) {
            task.follow_identities(world.context(spec, &state.resources), out);
        }
    }

    /// The control plane does not know it any more: it is stopped and destroyed.
    pub(crate) fn remove(&mut self) {
        if self.removal == Removal::Kept {
            self.removal = Removal::Wanted;
        }
        // All that may still start are poststop tasks. The record of the removal says this too.
        self.state.hold = StartHold::Free;
    }

    /// Its tasks may start again after a restart of the host. Returns whether they were held.
    pub(crate) fn release_hold(&mut self, out: &mut Outbox) -> bool {
        let held = self.state.hold == StartHold::UntilTold;
        if held {
            self.state.hold = StartHold::Free;
            self.persist(out);
        }
        held
    }

    /// Which allocation has to end before this one may start. The time in which it is to become
    /// healthy begins when it may start.
    pub(crate) fn set_awaited(&mut self, awaited: Option<AllocId>, now: Now) {
        let waited = self.waits();
        self.awaited = awaited;
        if waited && !self.waits() {
            let known = self.state.health.map(|health| health.healthy);
            self.health = HealthTracker::new(&self.spec, known, now);
        }
    }

    /// Whether it is to start after the end of another one.
    fn waits(&self) -> bool {
        self.awaited.is_some() && !self.all_dead()
    }

    /// Something happened to the allocation as a whole.
    pub(crate) fn on_alloc_event(&mut self, event: AllocEvent, out: &mut Outbox, now: Now) {
        match (event, &self.preparation) {
            (AllocEvent::Prepared { resources }, Preparation::UnderWay) => {
                self.preparation = Preparation::Done;
                if self.state.resources != resources {
                    self.state.resources = resources;
                    self.persist(out);
                }
            }
            // It was stopped meanwhile: its last word is said.
            (AllocEvent::PrepareFailed { .. }, Preparation::UnderWay) if self.all_dead() => {
                self.preparation = Preparation::Absent;
            }
            (AllocEvent::PrepareFailed { hook, message }, Preparation::UnderWay) => {
                let message = format!("{}: {message}", hook.failure());
                for task in self.tasks.values_mut() {
                    task.on_preparation_failed(&message, now);
                }
                self.preparation = Preparation::Failed { message };
            }
            (AllocEvent::Destroyed, _) if self.removal == Removal::Destroying => {
                self.removal = Removal::Destroyed;
            }
            (
                AllocEvent::Prepared { .. }
                | AllocEvent::PrepareFailed { .. }
                | AllocEvent::Destroyed,
                _,
            ) => {}
        }
    }

    /// Something happened to a run of one of its tasks.
    pub(crate) fn on_run_event(
        &mut self,
        task: &str,
        epoch: RunEpoch,
        event: RunEvent,
        world: World<'_>,
        out: &mut Outbox,
        now: Now,
    ) {
        if matches!(&event, RunEvent::Exited(exit) if exit.lease_expired) {
            self.expire_lease(out);
            // Keeper starts nothing of it any more: a poststop task need not try.
            self.lose_lease();
        }
        let Self {
            spec, tasks, state, ..
        } = self;
        let Some(task) = tasks.get_mut(task) else {
            return;
        };
        let was_begun = !task.is_unbegun();
        task.on_run_event(
            epoch,
            event,
            world.context(spec, &state.resources),
            out,
            now,
        );
        // In what is left of a lease nothing is tried twice: soon keeper refuses every start.
        if state.lease_expired && was_begun && task.is_unbegun() {
            let (cause, delay) = (KillCause::LeaseExpired, ShutdownDelay::Skip);
            task.kill(
                cause,
                delay,
                world.context(spec, &state.resources),
                out,
                now,
            );
        }
    }

    /// Deadlines of its tasks.
    pub(crate) fn on_timeout(&mut self, world: World<'_>, out: &mut Outbox, now: Now) {
        let Self {
            spec, tasks, state, ..
        } = self;
        for task in tasks.values_mut() {
            task.on_timeout(world.context(spec, &state.resources), out, now);
        }
    }

    /// Brings about what should be: kills, stages, starts, destruction.
    pub(crate) fn settle(&mut self, world: World<'_>, out: &mut Outbox, now: Now) -> Settled {
        if self.removal == Removal::Destroyed {
            out.journal(JournalRecord::Destroyed {
                alloc: self.spec.id(),
            });
            return Settled::Destroyed;
        }
        // A start may fail at once, a kill may end a task at once, and both change what should be.
        // Every round but the last starts or ends a task for good, so this is bounded.
        for _ in 0..=2 * self.tasks.len() {
            let dead_before = self.dead_count();
            self.find_ending(now);
            self.kill_wave(world, out, now);
            self.stage = self.stage.advance(&self.facts());
            self.skip_poststop_of_nothing(world, out, now);
            let started = self.start_permitted(world, out, now);
            if !started && self.dead_count() == dead_before {
                break;
            }
        }
        self.decide_health(out, now);
        self.retire(out);
        // One that waited keeps its successor waiting, too.
        let may_go = self.all_dead() && self.awaited.is_none();
        if self.removal == Removal::Wanted && may_go {
            self.removal = Removal::Destroying;
            let alloc = self.spec.id();
            out.push_after(Durability::Synced, Effect::DestroyAlloc { alloc });
        }
        Settled::Alive
    }

    /// When [`Self::on_timeout`] and [`Self::settle`] are next due.
    pub(crate) fn poll_timeout(&self) -> Option<Moment> {
        let tasks = self
            .tasks
            .values()
            .filter_map(TaskRunner::poll_timeout)
            .min();
        let ending = match self.ending {
            Some(Ending {
                begin: Begin::At(at),
                ..
            }) => Some(at),
            Some(Ending {
                begin: Begin::Begun,
                ..
            })
            | None => None,
        };
        let health = if self.waits() {
            None
        } else {
            self.health.poll_timeout()
        };
        earliest(earliest(tasks, ending), health)
    }

    /// Nothing runs any more: its secrets do not lie about until somebody collects the allocation.
    fn retire(&mut self, out: &mut Outbox) {
        match (self.all_dead(), self.upkeep) {
            // What is destroyed as a whole needs no half measures.
            (true, Upkeep::Kept) if self.removal == Removal::Kept => {
                self.upkeep = Upkeep::Retired;
                // Its network goes: a task that starts once more needs another one.
                if self.preparation == Preparation::Done {
                    self.preparation = Preparation::Absent;
                }
                let alloc = self.spec.id();
                out.push(Effect::RetireAlloc { alloc });
            }
            (false, Upkeep::Retired) => self.upkeep = Upkeep::Kept,
            (true | false, Upkeep::Kept) | (true, Upkeep::Retired) => {}
        }
    }

    fn decide_health(&mut self, out: &mut Outbox, now: Now) {
        if self.state.health.is_some() || self.waits() {
            return;
        }
        let members = self.members();
        if let Some(healthy) = self.health.observe(&members, now) {
            self.state.health = Some(PersistedHealth {
                healthy,
                at: now.wall,
                deployment: self.spec.alloc().deployment_id,
            });
            self.persist(out);
        }
    }

    fn persist(&self, out: &mut Outbox) {
        out.journal(JournalRecord::Alloc {
            alloc: self.spec.id(),
            state: self.state.clone(),
        });
    }
}

/// What does not belong to one allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) node: &'a Node,
}

impl<'a> World<'a> {
    pub(crate) fn context(
        self,
        spec: &'a Arc<AllocSpec>,
        resources: &'a AllocResources,
    ) -> RunContext<'a> {
        RunContext {
            settings: self.settings,
            node: self.node,
            spec,
            resources,
        }
    }
}
