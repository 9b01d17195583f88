//! What must hold, one file each. An invariant sees everything that happens and may look at the
//! whole world, hosts included; nothing that it does changes a run.

mod acknowledged_jobs;
mod acknowledged_updates;
mod dispatches_once;
mod drains_end;
mod drains_in_turn;
mod expiries_share_entries;
mod healthy_not_killed;
mod launches_once;
mod leases_end;
mod locks_hold;
mod log_goes_on;
mod map_after_sync;
mod needed_keys_stay;
mod never_again;
mod never_too_many;
mod no_false_expiry;
mod no_hasty_expiry;
mod node_is_told;
mod not_stuck;
mod one_leased;
mod one_live_run;
mod one_server_in_trouble;
mod one_session_per_series;
mod own_session;
mod pending_moves;
mod progress_never_stops;
mod ready_after_sync;
mod reports_due;
mod restarts_offline;
mod resumes;
mod rollouts_end;
mod rolls_in_steps;
mod run_epochs;
mod session_steps;
mod silence_noticed;
mod somebody_looks;
mod state_holds;
mod stops_are_heeded;
mod stops_leave_enough;
mod successors_wait;
mod trials_hold;
mod victims_end_first;
mod victims_needed;
mod watermark;
mod windows_end;

use std::fmt::Debug;

use controlplane_state::{Applied, Command, Launched, Outcome, SessionEpoch, Snapshot, Welcome};
use noded_core::effect::StatusBatch;
use noded_core::task_runner::Boot;
use noded_core::{RunKey, Watermark};
use protocol_wire::report::AllocReport;
use uuid::Uuid;

use crate::event::{NodeIx, ServerIx};
use crate::judges::Leased;
use crate::node_ids::node_ix;
use crate::schedule::jobs::Kind;
use crate::time::Nanos;
use crate::world::World;

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// A command was applied to the one true state.
    Applied {
        before: &'a Snapshot,
        after: &'a Snapshot,
        command: &'a Command,
        applied: &'a Applied,
    },
    /// Keeper starts a run.
    Spawned { node: NodeIx, run: &'a RunKey },
    /// A process ended; keeper killed it with the end of its lease, or not.
    Ended {
        node: NodeIx,
        run: &'a RunKey,
        lease_expired: bool,
    },
    /// A daemon asks keeper to end a run.
    StopAsked { node: NodeIx, run: &'a RunKey },
    /// A daemon started, and this is what its journal says it had been told.
    DaemonStarted {
        node: NodeIx,
        boot: Boot,
        watermark: Watermark,
    },
    /// A node journals how far it has been told.
    WatermarkMoved { node: NodeIx, watermark: Watermark },
    /// A node says Hello.
    HelloSent {
        node: NodeIx,
        watermark: Watermark,
        /// What its core drew for this series of knocks, and what the knock says.
        series: [u8; 16],
        nonce: [u8; 16],
    },
    /// A server answers a Hello with a session; `asked` is the state when it came.
    Welcomed {
        node: NodeIx,
        server: ServerIx,
        welcome: &'a Welcome,
        asked: &'a Snapshot,
    },
    /// A node acknowledges an index of its watch.
    WatchAcked { node: NodeIx, index: u64 },
    /// A node sends a part of its complete report.
    SyncSent {
        node: NodeIx,
        epoch: u64,
        reports: &'a [AllocReport],
    },
    /// A node sends a batch of updates.
    BatchSent {
        node: NodeIx,
        batch: &'a StatusBatch,
    },
    /// A server sends a part of a map.
    MapSent {
        node: NodeIx,
        epoch: SessionEpoch,
        index: u64,
    },
    /// A server tells a node that a report was applied.
    Acknowledged {
        epoch: SessionEpoch,
        report: &'a AllocReport,
    },
    /// A server begins the handshake of a node that wants a session since then; of those that want
    /// one and wait at the same door, the first has wanted it since then.
    Admitted {
        server: ServerIx,
        wanted: Nanos,
        oldest: Option<Nanos>,
    },
    /// A client is told which job a dispatch with its token launched.
    Dispatched { token: u32, launched: &'a Launched },
    /// A client believes in its lock until then.
    LockHeld { id: Uuid, until: Nanos },
    /// A client believes in its lock no more, and asks for its release or was refused.
    LockLeft { id: Uuid },
    /// A second of the run is over.
    Second,
    /// The healed cluster has come to rest.
    Rested,
}

/// Something that must hold.
pub trait Invariant: Debug {
    /// Its name, as failures and tests have it.
    fn name(&self) -> &'static str;

    /// Where it is promised.
    fn source(&self) -> &'static str;

    /// Looks at what happened.
    ///
    /// # Errors
    /// Where it does not hold: what was seen.
    fn on(&mut self, seen: &Observation<'_>, world: &World) -> Result<(), String>;
}

/// The nodes that a command takes for silent.
pub(crate) fn taken_for_silent(command: &Command, applied: &Applied) -> Vec<NodeIx> {
    let (Command::HeartbeatMissed { .. }, Outcome::Missed(results)) = (command, &applied.outcome)
    else {
        return Vec::new();
    };
    let taken = results.iter().filter(|result| result.status.is_some());
    taken.map(|result| node_ix(result.node)).collect()
}

/// The same of what is seen.
fn taken_in(seen: &Observation<'_>) -> Vec<NodeIx> {
    match seen {
        Observation::Applied {
            command, applied, ..
        } => taken_for_silent(command, applied),
        _ => Vec::new(),
    }
}

/// Notes what of groups that stop themselves is placed.
fn learn_leased(judge: &mut Leased, seen: &Observation<'_>, world: &World) {
    let Observation::Applied {
        command: Command::PlanApply(plan),
        ..
    } = seen
    else {
        return;
    };
    for alloc in &plan.placed {
        if world.kind_of(alloc.id) == Some(Kind::Leased) {
            judge.placed(alloc.id, &alloc.name);
        }
    }
}

/// All of them, new for one run.
pub fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(log_goes_on::LogGoesOn),
        Box::<session_steps::SessionSteps>::default(),
        Box::<ready_after_sync::ReadyAfterSync>::default(),
        Box::new(map_after_sync::MapAfterSync),
        Box::<watermark::WatermarkRises>::default(),
        Box::new(one_live_run::OneLiveRun),
        Box::<run_epochs::RunEpochs>::default(),
        Box::<never_again::NeverAgain>::default(),
        Box::<successors_wait::SuccessorsWait>::default(),
        Box::new(healthy_not_killed::HealthyNotKilled),
        Box::<one_leased::OneLeased>::default(),
        Box::<leases_end::LeasesEnd>::default(),
        Box::<locks_hold::LocksHold>::default(),
        Box::<launches_once::LaunchesOnce>::default(),
        Box::new(stops_leave_enough::StopsLeaveEnough),
        Box::<stops_are_heeded::StopsAreHeeded>::default(),
        Box::new(never_too_many::NeverTooMany),
        Box::new(rolls_in_steps::RollsInSteps),
        Box::<rollouts_end::RolloutsEnd>::default(),
        Box::<trials_hold::TrialsHold>::default(),
        Box::<dispatches_once::DispatchesOnce>::default(),
        Box::new(drains_in_turn::DrainsInTurn),
        Box::<drains_end::DrainsEnd>::default(),
        Box::<victims_needed::VictimsNeeded>::default(),
        Box::<victims_end_first::VictimsEndFirst>::default(),
        Box::new(needed_keys_stay::NeededKeysStay),
        Box::new(acknowledged_jobs::AcknowledgedJobs),
        Box::new(acknowledged_updates::AcknowledgedUpdates),
        Box::<no_hasty_expiry::NoHastyExpiry>::default(),
        Box::new(no_false_expiry::NoFalseExpiry),
        Box::new(one_server_in_trouble::OneServerInTrouble),
        Box::<expiries_share_entries::ExpiriesShareEntries>::default(),
        Box::new(silence_noticed::SilenceNoticed),
        Box::new(not_stuck::NotStuck),
        Box::<windows_end::WindowsEnd>::default(),
        Box::<reports_due::ReportsDue>::default(),
        Box::new(node_is_told::NodeIsTold),
        Box::<pending_moves::PendingMoves>::default(),
        Box::<progress_never_stops::ProgressNeverStops>::default(),
        Box::new(somebody_looks::SomebodyLooks),
        Box::<own_session::OwnSession>::default(),
        Box::<one_session_per_series::OneSessionPerSeries>::default(),
        Box::<resumes::Resumes>::default(),
        Box::<restarts_offline::RestartsOffline>::default(),
        Box::<state_holds::StateHolds>::default(),
    ]
}
