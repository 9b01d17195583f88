//! Where planted bugs bite. Without one, everything here hands on what it was given.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controlplane_state::command::{
    AllocChange, Change, LAUNCHES_MAX, Launch, LaunchCause, NodeSynced, PeriodicLaunch, PlanApply,
};
use controlplane_state::{Applied, Command, SessionEpoch, Stamped, State};
use noded_core::event::{Ending, WatchMap};
use protocol_model::{
    AllocId, Allocation, ClientStatus, DesiredTransition, EvalId, EvalStatus, Evaluation, Job,
    NodeId, NodeStatus, PERIODIC_LAUNCH_INFIX, UnixNanos,
};
use protocol_transport::door::Wish;

use super::World;
use crate::event::{Event, LogEvent, NodeIx};
use crate::mutant::Mutant;
use crate::schedule::jobs::{self, Kind};
use crate::time::SECOND;

/// How much later a planted bug has somebody look.
const LATER: Duration = Duration::from_secs(30);

/// How long a node with a planted bug waits for a server.
const WAITS_SHORT: Duration = Duration::from_millis(400);
/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(3_600);
/// Twice the door's clock at the start of a run, less than an hour.
const REVERSED: Duration = Duration::from_secs(47 * 3_600);

/// An id that nobody drew.
fn other_id(id: AllocId) -> AllocId {
    let mut bytes = *id.as_bytes();
    bytes[15] ^= 1;
    AllocId::from_slice(&bytes).unwrap_or(id)
}

/// The time before each that is launched is launched once more, as if there were no record.
fn launch_again(command: &mut PeriodicLaunch) {
    let earlier = command.launches.iter().map(|launch| {
        let mut launch = launch.clone();
        let period = i64::try_from(jobs::PERIOD_S * SECOND).unwrap_or(0);
        launch.at = UnixNanos(launch.at.0 - period);
        let mut job = Job::clone(&launch.child.job);
        let second = launch.at.0 / 1_000_000_000;
        job.id = format!("{}{PERIODIC_LAUNCH_INFIX}{second}", job.parent_id);
        if let Some(eval) = &mut launch.child.eval {
            eval.job_id.clone_from(&job.id);
            eval.id = other_eval(eval.id);
        }
        launch.child.job = Arc::new(job);
        launch.cause = LaunchCause::Forced;
        launch
    });
    let earlier: Vec<Launch> = earlier.collect();
    command.launches.extend(earlier);
    command.launches.truncate(LAUNCHES_MAX);
}

/// No launch waits for another one.
fn launch_beside(command: &mut PeriodicLaunch) {
    let forced = command.launches.iter().map(|launch| Launch {
        cause: LaunchCause::Forced,
        ..launch.clone()
    });
    let forced: Vec<Launch> = forced.collect();
    command.launches.extend(forced);
    command.launches.truncate(LAUNCHES_MAX);
}

fn other_eval(id: EvalId) -> EvalId {
    let mut bytes = *id.as_bytes();
    bytes[15] ^= 1;
    EvalId::from_slice(&bytes).unwrap_or(id)
}

fn is_canary(alloc: &Allocation) -> bool {
    let status = alloc.deployment_status.as_ref();
    status.is_some_and(|status| status.canary)
}

/// What a planted bug has to know of the state before an entry.
pub(super) enum Before {
    Nothing,
    /// A silent node knocks.
    Silent(NodeId),
    /// The evaluations that exist.
    Evals(BTreeSet<EvalId>),
    /// A ready node, which an entry is not about.
    Aside(NodeId),
}

impl World {
    /// An entry as it is applied.
    pub(super) fn bend(&self, mut stamped: Arc<Stamped>) -> Arc<Stamped> {
        let epoch_of = |node: NodeId| {
            self.state()
                .node(node)
                .map_or(SessionEpoch::NONE, |record| record.session.epoch)
        };
        if self.mutant.is_none() {
            return stamped;
        }
        let Stamped { command, seed, now } = Arc::make_mut(&mut stamped);
        self.bend_jobs(command, *seed, *now);
        self.bend_keys(command);
        match (command, self.mutant) {
            (Command::HeartbeatMissed { nodes }, Some(Mutant::ExpiryWithoutEpoch)) => {
                for (node, epoch) in nodes {
                    *epoch = epoch_of(*node);
                }
            }
            (Command::PlanApply(plan), Some(Mutant::ReplacedTwice)) => self.replace_twice(plan),
            (Command::PlanApply(plan), Some(Mutant::PlacedBeside)) => self.place_beside(plan),
            (Command::PlanApply(plan), Some(Mutant::RollsAllAtOnce)) => self.roll_all(plan),
            (Command::PlanApply(plan), Some(Mutant::OlderInNewVersion)) => self.renew(plan),
            (Command::PlanApply(plan), Some(Mutant::CanariesStay)) => {
                plan.changed.retain(|change| {
                    let alloc = self.state().alloc(change.id);
                    let stops = matches!(
                        change.change,
                        Change::Stop {
                            client_status: None,
                            ..
                        }
                    );
                    !(stops && alloc.is_some_and(|alloc| is_canary(alloc)))
                });
            }
            (Command::PlanApply(plan), Some(Mutant::OneCanaryMore)) => {
                let twin = plan
                    .placed
                    .iter()
                    .find(|alloc| is_canary(alloc))
                    .map(|alloc| {
                        let mut twin = Allocation::clone(alloc);
                        twin.id = other_id(alloc.id);
                        Arc::new(twin)
                    });
                plan.placed.extend(twin);
            }
            (Command::PlanApply(plan), Some(Mutant::StopsAllOfIt)) => self.stop_all_leased(plan),
            (Command::PlanApply(plan), Some(Mutant::SilentStays)) => self.keep_silent(plan),
            (Command::PeriodicLaunch(command), Some(Mutant::LaunchedAgain)) => {
                launch_again(command);
            }
            (Command::PeriodicLaunch(command), Some(Mutant::LaunchedBeside)) => {
                launch_beside(command);
            }
            (Command::NodeSynced(synced), Some(Mutant::LeftOutStays)) => {
                let all = self.state().allocs_on_node(synced.node);
                let said: BTreeSet<AllocId> = synced.changed.iter().map(|it| it.id).collect();
                let others = all.map(|it| it.id).filter(|id| !said.contains(id));
                synced.unchanged = others.collect();
            }
            (Command::AllocUpdates { batches }, Some(Mutant::BatchWithoutEpoch)) => {
                for batch in batches {
                    batch.epoch = epoch_of(batch.node);
                }
            }
            _ => {}
        }
        stamped
    }

    /// Whoever takes the place of a silent one comes twice.
    fn replace_twice(&self, plan: &mut PlanApply) {
        let is_silent = |id: AllocId| {
            let alloc = self.state().alloc(id);
            alloc.is_some_and(|alloc| alloc.client_status == ClientStatus::Unknown)
        };
        let replaces = |alloc: &&Arc<Allocation>| alloc.previous_allocation.is_some_and(is_silent);
        let twins = plan.placed.iter().filter(replaces).map(|alloc| {
            let mut twin = Allocation::clone(alloc);
            twin.id = other_id(alloc.id);
            Arc::new(twin)
        });
        let twins: Vec<_> = twins.collect();
        plan.placed.extend(twins);
    }

    /// Placements in an older version are made in the present one.
    fn renew(&self, plan: &mut PlanApply) {
        for alloc in &mut plan.placed {
            let key = alloc.job_key();
            let (Some(job), Some(spec)) = (self.state().job(&key), self.state().job_spec(&key))
            else {
                continue;
            };
            if alloc.job_version < job.version {
                let alloc = Arc::make_mut(alloc);
                alloc.job_version = job.version;
                alloc.spec = spec;
            }
        }
    }

    /// A step of a rollout stops everything that is left of older versions.
    fn roll_all(&self, plan: &mut PlanApply) {
        let stopped = plan.changed.iter().find_map(|change| {
            let alloc = self.state().alloc(change.id)?;
            let job = self.state().job(&alloc.job_key())?;
            let rolls = matches!(change.change, Change::Stop { .. })
                && self.kind_of(change.id).is_some_and(jobs::is_rolled_out)
                && alloc.job_version < job.version;
            rolls.then(|| (change.clone(), job.version))
        });
        let Some((step, version)) = stopped else {
            return;
        };
        let Some(key) = self.state().alloc(step.id).map(|alloc| alloc.job_key()) else {
            return;
        };
        let known: BTreeSet<AllocId> = plan.changed.iter().map(|change| change.id).collect();
        let others = self.state().allocs_by_job(&key).filter(|alloc| {
            alloc.job_version < version && !alloc.terminal() && !known.contains(&alloc.id)
        });
        plan.changed.extend(others.map(|alloc| AllocChange {
            id: alloc.id,
            ..step.clone()
        }));
    }

    /// With one of a leased group that is stopped all of it is.
    fn stop_all_leased(&self, plan: &mut PlanApply) {
        let stop = plan.changed.iter().find(|change| {
            matches!(change.change, Change::Stop { .. })
                && self.kind_of(change.id) == Some(Kind::Leased)
        });
        let Some(stop) = stop.cloned() else {
            return;
        };
        let Some(key) = self.state().alloc(stop.id).map(|alloc| alloc.job_key()) else {
            return;
        };
        let known: BTreeSet<AllocId> = plan.changed.iter().map(|change| change.id).collect();
        let others = self.state().allocs_by_job(&key);
        let others = others.filter(|it| !it.terminal() && !known.contains(&it.id));
        plan.changed.extend(others.map(|alloc| AllocChange {
            id: alloc.id,
            ..stop.clone()
        }));
    }

    /// A silent one that was asked to leave stays, and nobody comes for it.
    fn keep_silent(&self, plan: &mut PlanApply) {
        let stays = |id: AllocId| {
            let alloc = self.state().alloc(id);
            alloc.is_some_and(|alloc| {
                alloc.client_status == ClientStatus::Unknown
                    && alloc.desired_transition.should_migrate()
            })
        };
        let stops = |change: &Change| matches!(change, Change::Stop { .. });
        plan.changed
            .retain(|it| !(stays(it.id) && stops(&it.change)));
        plan.placed
            .retain(|it| !it.previous_allocation.is_some_and(stays));
    }

    /// What a leased one is told to stop for is placed with the same plan, where it was; nothing
    /// tells the node that it takes that one's place.
    fn place_beside(&self, plan: &mut PlanApply) {
        for change in &plan.changed {
            let stops = matches!(change.change, Change::Stop { .. });
            let leased = self.kind_of(change.id) == Some(Kind::Leased);
            let Some(alloc) = self.state().alloc(change.id).filter(|_| stops && leased) else {
                continue;
            };
            let Some(job) = self.state().job(&alloc.job_key()) else {
                continue;
            };
            if alloc.client_terminal() || job.stop {
                continue;
            }
            let mut successor = Allocation::clone(alloc);
            successor.id = other_id(alloc.id);
            successor.client_status = ClientStatus::Pending;
            successor.desired_transition = DesiredTransition::default();
            successor.previous_allocation = None;
            successor.alloc_states.clear();
            plan.placed.push(Arc::new(successor));
        }
    }

    /// An entry in as many parts as it is written.
    pub(super) fn split(&self, stamped: Arc<Stamped>) -> Vec<Arc<Stamped>> {
        if let Some(command) = self.seals_hidden(&stamped.command) {
            let (now, seed) = (stamped.now, stamped.seed);
            return vec![Arc::new(Stamped { now, seed, command }), stamped];
        }
        let Command::HeartbeatMissed { nodes } = &stamped.command else {
            return vec![stamped];
        };
        if self.mutant != Some(Mutant::OneEntryPerExpiry) {
            return vec![stamped];
        }
        let parts = nodes.iter().map(|node| {
            Arc::new(Stamped {
                now: stamped.now,
                seed: stamped.seed,
                command: Command::HeartbeatMissed { nodes: vec![*node] },
            })
        });
        parts.collect()
    }

    pub(super) fn before_part(&self, part: &Stamped) -> Before {
        match (&part.command, self.mutant) {
            (Command::NodeHello(hello), Some(Mutant::UngatedReady)) => {
                let silent = self.state().node(hello.node).is_some_and(|record| {
                    matches!(
                        record.node.status,
                        NodeStatus::Down | NodeStatus::Disconnected
                    )
                });
                if silent {
                    Before::Silent(hello.node)
                } else {
                    Before::Nothing
                }
            }
            (
                Command::HeartbeatMissed { .. } | Command::NodeSynced(_),
                Some(Mutant::TwoEntries | Mutant::LooksLater),
            ) => Before::Evals(self.state().evals().map(|eval| eval.id).collect()),
            (Command::JobRegister(_), Some(Mutant::StatusAside)) => {
                let mut nodes = self.state().nodes();
                let ready = nodes.find(|record| record.node.status == NodeStatus::Ready);
                ready.map_or(Before::Nothing, |record| Before::Aside(record.node.id))
            }
            _ => Before::Nothing,
        }
    }

    pub(super) fn after_part(&mut self, before: Before, now: UnixNanos, seed: [u8; 16]) {
        match before {
            Before::Nothing => {}
            Before::Silent(node) => {
                let Some(record) = self.state().node(node) else {
                    return;
                };
                let command = Command::NodeSynced(Box::new(NodeSynced {
                    node,
                    epoch: record.session.epoch,
                    watch_index: 0,
                    changed: Vec::new(),
                    unchanged: self.state().allocs_on_node(node).map(|it| it.id).collect(),
                    facts: None,
                }));
                self.apply(&Stamped { now, seed, command }, None, None);
            }
            Before::Evals(known) => self.evals_apart(&known, now, seed),
            Before::Aside(node) => {
                let record = self.state().node(node);
                let epoch = record.map_or(SessionEpoch::NONE, |record| record.session.epoch);
                let nodes = vec![(node, epoch)];
                let command = Command::HeartbeatMissed { nodes };
                self.log.index += 1;
                let stamped = Stamped { now, seed, command };
                // Part of the entry before it: nobody sees it as one of its own.
                self.log.state.apply(self.log.index, stamped);
                self.log.newest = self.log.state.snapshot();
            }
        }
    }

    /// Evaluations that an entry has made are made by another one, or are for later.
    fn evals_apart(&mut self, known: &BTreeSet<EvalId>, now: UnixNanos, seed: [u8; 16]) {
        let made: Vec<Evaluation> = self
            .state()
            .evals()
            .filter(|eval| !known.contains(&eval.id))
            .map(|eval| Evaluation::clone(eval))
            .collect();
        if made.is_empty() {
            return;
        }
        let over = made.iter().map(|eval| Evaluation {
            status: EvalStatus::Cancelled,
            ..eval.clone()
        });
        let evals = over.collect();
        let command = Command::EvalsUpsert { evals };
        self.apply(&Stamped { now, seed, command }, None, None);
        let later = self.mutant == Some(Mutant::LooksLater);
        let again = made.into_iter().map(|eval| Evaluation {
            id: EvalId::from_u128(self.rng.id()),
            create_index: 0,
            modify_index: 0,
            wait_until: later.then(|| now.saturating_add(LATER)),
            ..eval
        });
        let evals = again.collect();
        let command = Command::EvalsUpsert { evals };
        if later {
            return self.apply(&Stamped { now, seed, command }, None, None);
        }
        let stamped = Arc::new(Stamped { now, seed, command });
        let term = self.log.term;
        let at = self.now + self.rng.below(SECOND);
        self.queue
            .push(at, Event::Log(LogEvent::Late { term, stamped }));
    }

    /// What an entry would come to if it were the next one.
    pub(crate) fn would_be_applied(&self, stamped: &Stamped) -> Applied {
        let mut state = State::from_snapshot(&self.log.newest);
        state.apply(self.log.index + 1, stamped.clone())
    }

    /// A map as the node takes it.
    pub(crate) fn bend_map(&self, ix: NodeIx, mut map: WatchMap) -> WatchMap {
        if self.mutant == Some(Mutant::StaleAnswer)
            && let Some(core) = &self.nodes[ix as usize].core
        {
            map.at.index = map.at.index.max(core.watermark().index);
        }
        map
    }

    /// A wish as the door takes it in.
    pub(crate) fn bend_wish(&self, wish: Wish, now: Duration) -> Wish {
        match self.mutant {
            Some(Mutant::NewestFirst) => {
                // The later it was wanted, the longer it seems to have waited.
                let wanted = now.saturating_sub(wish.waited);
                let waited = (now + wanted).saturating_sub(REVERSED);
                Wish { waited, ..wish }
            }
            Some(Mutant::AbandonedServed) => Wish {
                patience: FOR_EVER,
                ..wish
            },
            _ => wish,
        }
    }

    /// How long a node waits for the first sign of a server.
    pub(crate) fn bend_patience(&self, patience: Duration) -> Duration {
        match self.mutant {
            Some(Mutant::WaitsShort) => patience.min(WAITS_SHORT),
            _ => patience,
        }
    }

    /// Why a node thinks that an attempt came to nothing.
    pub(crate) fn bend_ending(&self, ending: Ending) -> Ending {
        match self.mutant {
            Some(Mutant::WaitsShort) => Ending::Otherwise,
            _ => ending,
        }
    }
}
