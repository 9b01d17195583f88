//! Which tasks of an allocation may start now.

use std::sync::Arc;

use protocol_model::NetworkMode;

use super::{AllocRunner, Preparation, StartHold, World};
use crate::alloc_spec::AllocSpec;
use crate::effect::{AllocHook, Effect};
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
        let (spec, resources) = (&self.spec, &self.state.resources);
        let mut startable = Vec::new();
        for task in self.tasks.values_mut().filter(|task| task.may_start()) {
            let role = role_of(spec, task.name());
            if stage.permits(role) && (!ending || role == Role::Poststop) {
                startable.push(task);
            }
        }
        match self.preparation {
            _ if startable.is_empty() => false,
            Preparation::Absent => {
                self.preparation = Preparation::UnderWay;
                out.push(Effect::PrepareAlloc {
                    spec: Arc::clone(spec),
                    hooks: hooks_of(spec),
                });
                false
            }
            Preparation::UnderWay | Preparation::Failed { .. } => false,
            Preparation::Done => {
                for task in startable {
                    task.start(world.context(spec, resources), out, now);
                }
                true
            }
        }
    }
}

/// The hooks that an allocation needs, in the order in which they run.
fn hooks_of(spec: &AllocSpec) -> Vec<AllocHook> {
    let is_routed = |mode| mode == NetworkMode::Bridge;
    let networks = &spec.group().networks;
    let network = networks.iter().any(|network| is_routed(network.mode()));
    let hooks = [(AllocHook::Directory, true), (AllocHook::Network, network)];
    hooks
        .into_iter()
        .filter_map(|(hook, wanted)| wanted.then_some(hook))
        .collect()
}

/// A task that the job does not name any more counts as a main task.
pub(super) fn role_of(spec: &AllocSpec, task: &str) -> Role {
    spec.task(task).map_or(Role::Main, Role::of)
}
