//! An allocation when the daemon starts again.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol_model::UnixNanos;

use super::health::HealthTracker;
use super::{AllocRunner, PersistedAlloc, Preparation, Removal, StartHold, World};
use crate::alloc_resources::AllocResources;
use crate::alloc_spec::AllocSpec;
use crate::event::KeptPhase;
use crate::journal::DestroyWanted;
use crate::key::RunEpoch;
use crate::lifecycle::Stage;
use crate::node_core::last_heard::within;
use crate::outbox::Outbox;
use crate::task_runner::{Boot, LeftBehind, PersistedTask, TaskRunner};
use crate::time::Now;

/// What the journal and keeper say of one allocation.
#[derive(Debug)]
pub(crate) struct Restoration {
    pub(crate) spec: Arc<AllocSpec>,
    pub(crate) state: PersistedAlloc,
    pub(crate) destroy: DestroyWanted,
    pub(crate) tasks: BTreeMap<String, PersistedTask>,
    pub(crate) kept: BTreeMap<String, Vec<(RunEpoch, KeptPhase)>>,
    /// When the control plane last heard this node.
    pub(crate) heard: Option<UnixNanos>,
}

impl AllocRunner {
    /// Takes the allocation up where the earlier daemon left it.
    pub(crate) fn restore(
        restoration: Restoration,
        boot: Boot,
        world: World<'_>,
        out: &mut Outbox,
        now: Now,
    ) -> Self {
        let Restoration {
            spec,
            mut state,
            destroy,
            mut tasks,
            mut kept,
            heard,
        } = restoration;
        let group = spec.group();
        let tolerated =
            group.is_waited_for_without_end() || within(group.disconnect_window(), heard, now.wall);
        state.hold = hold_after(boot, destroy, &spec, tolerated, state.hold);
        if boot == Boot::Another {
            state.resources = AllocResources::default();
        }
        // The daemon may have ended between the word of another deployment and the health for it.
        let deployment = spec.alloc().deployment_id;
        state.health = state
            .health
            .filter(|health| health.deployment == deployment);
        let known_health = state.health.map(|health| health.healthy);
        let mut runner = Self {
            health: HealthTracker::new(&spec, known_health, now),
            state,
            // The stage is a function of the states that the tasks bring along.
            stage: Stage::Prestart,
            preparation: Preparation::Absent,
            removal: match destroy {
                DestroyWanted::No => Removal::Kept,
                DestroyWanted::Yes => Removal::Wanted,
            },
            ..Self::new(Arc::clone(&spec), now)
        };
        let ended_by_lease = kept
            .values()
            .flatten()
            .any(|(_, phase)| matches!(phase, KeptPhase::Exited(exit) if exit.lease_expired));
        if ended_by_lease {
            runner.expire_lease(out);
        }
        let resources = &runner.state.resources;
        for task in runner.tasks.values_mut() {
            let persisted = tasks
                .remove(task.name())
                .unwrap_or_else(|| task.persisted());
            let left = LeftBehind {
                attempt: persisted.attempt,
                stopping: persisted.stopping,
                kept: kept.remove(task.name()).unwrap_or_default(),
            };
            *task = TaskRunner::from_persisted(spec.id(), task.name(), persisted);
            task.resume(left, boot, world.context(&spec, resources), out, now);
        }
        if boot == Boot::Another {
            runner.persist(out);
        }
        runner
    }
}

/// After a restart of the host the control plane may have moved the work elsewhere; that of a
/// system job belongs to this node, and what is tolerated on a silent node is expected back, within
/// its window or for as long as it takes, unless it may run here only while the control plane hears
/// the node. Until it is heard no restart of the daemon changes that.
fn hold_after(
    boot: Boot,
    destroy: DestroyWanted,
    spec: &AllocSpec,
    tolerated: bool,
    before: StartHold,
) -> StartHold {
    let own = spec.job().job_type.is_per_node() || tolerated;
    let stays = own && spec.group().stop_on_client_after().is_none();
    match (boot, destroy) {
        (Boot::Another, DestroyWanted::No) if !stays => StartHold::UntilTold,
        (Boot::Same, DestroyWanted::No) => before,
        // The control plane has spoken: only poststop tasks may still start.
        (Boot::Another, DestroyWanted::No) | (Boot::Same | Boot::Another, DestroyWanted::Yes) => {
            StartHold::Free
        }
    }
}
