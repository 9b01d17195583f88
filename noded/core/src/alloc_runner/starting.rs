//! Which tasks of an allocation may start now.

use std::sync::Arc;

use super::{AllocRunner, Directory, StartHold, World};
use crate::alloc_spec::AllocSpec;
use crate::effect::Effect;
use crate::lifecycle::Role;
use crate::outbox::Outbox;
use crate::time::Now;

impl AllocRunner {
    /// Starts every task that may start. Returns whether anything changed.
    pub(super) fn start_permitted(&mut self, world: World<'_>, out: &mut Outbox, now: Now) -> bool {
        let held = self.state.hold == StartHold::UntilTold || self.awaited.is_some();
        if held || self.awaits_lease() {
            return false;
        }
        let (stage, ending) = (self.stage, self.ending.is_some());
        let spec = &self.spec;
        let mut startable = Vec::new();
        for task in self.tasks.values_mut().filter(|task| task.may_start()) {
            let role = role_of(spec, task.name());
            if stage.permits(role) && (!ending || role == Role::Poststop) {
                startable.push(task);
            }
        }
        match self.directory {
            _ if startable.is_empty() => false,
            Directory::Absent => {
                self.directory = Directory::Building;
                out.push(Effect::BuildAllocDirectory {
                    spec: Arc::clone(spec),
                });
                false
            }
            Directory::Building | Directory::Failed { .. } => false,
            Directory::Built => {
                for task in startable {
                    task.start(world.context(spec), out, now);
                }
                true
            }
        }
    }
}

/// A task that the job does not name any more counts as a main task.
pub(super) fn role_of(spec: &AllocSpec, task: &str) -> Role {
    spec.task(task).map_or(Role::Main, Role::of)
}
