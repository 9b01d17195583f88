//! A host and a control plane that do what the core asks: keeper, journal, session, watch. They
//! check as they go what a shell may rely on.

mod control_plane;
mod keeper;
mod lives;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocId, Allocation, ClientStatus, Incarnation, Job, Node, NodeId, SpecHash, TaskState,
};
use protocol_wire::report::AllocReport;

use crate::effect::{Effect, PrepareTask};
use crate::event::{AllocEvent, Event, Exit, RunEvent, SessionEvent};
use crate::journal;
use crate::key::{Attempt, BootId, RunEpoch, RunKey, Watermark};
use crate::test_support::at;
use crate::{AllocResources, Durability, NodeCore, Settings};

pub(super) const INCARNATION: Incarnation = Incarnation::from_u128(77);

/// What the fake shell does when it is asked to prepare or start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Luck {
    Good,
    PrepareFails,
    StartFails,
}

/// What a task does on its stop signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manners {
    /// It ends with 0.
    Ends,
    /// It must be killed at the deadline.
    Ignores,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FakeRun {
    Running { kill_at: Option<Duration> },
    Ended(Exit),
    NotStarted,
}

pub(super) struct FakeHost {
    pub(super) core: NodeCore,
    /// Which boot of the host this is.
    boot: u8,
    pub(super) now: u64,
    pub(super) luck: Luck,
    pub(super) manners: Manners,
    /// Answers to effects that have not arrived yet.
    pub(super) pending: VecDeque<Event>,
    pub(super) runs: BTreeMap<RunKey, FakeRun>,
    pub(super) log: Vec<String>,
    /// Preparations that were asked for.
    pub(super) prepared: Vec<PrepareTask>,
    pub(super) journal: Vec<Vec<u8>>,
    synced: usize,
    /// What of the watch is on the disk.
    durable: Watermark,
    highest: BTreeMap<(AllocId, String), RunEpoch>,
    pub(super) destroyed: BTreeSet<AllocId>,
    /// Until when keeper lets allocations run.
    pub(super) leases: BTreeMap<AllocId, Duration>,
    /// What keeper finds no room to record a first lease for.
    pub(super) unrecordable: BTreeSet<AllocId>,
    // --- the control plane ---
    pub(super) online: bool,
    /// It takes in no batch and answers none.
    pub(super) slow: bool,
    /// How much older than the newest heartbeat is the newest that it confirms.
    pub(super) confirmed_behind: Duration,
    pub(super) index: u64,
    incarnation: Incarnation,
    epoch: u64,
    pub(super) desired: BTreeMap<AllocId, (u64, Allocation)>,
    pub(super) jobs: BTreeMap<SpecHash, Arc<Job>>,
    watching: Option<(Attempt, u64)>,
    told: BTreeSet<AllocId>,
    applied: (u64, u64),
    /// What the answers to heartbeats say of typical updates; zero = unchanged.
    pub(super) typical_interval: Duration,
    pub(super) recorded: BTreeMap<AllocId, AllocReport>,
    pub(super) acked_index: u64,
}

pub(super) fn settings() -> Settings {
    Settings::new("/data/alloc", [5; 16])
}

pub(super) fn node() -> Arc<Node> {
    Arc::new(Node::new(NodeId::from_u128(1), "host-1", "dc1"))
}

impl FakeHost {
    pub(super) fn new() -> Self {
        let core = NodeCore::new(
            settings(),
            node(),
            journal::RestoredNode::default(),
            Vec::new(),
            BootId([0; 16]),
            at(0),
        );
        let mut host = Self {
            core,
            boot: 0,
            now: 0,
            luck: Luck::Good,
            manners: Manners::Ends,
            pending: VecDeque::new(),
            runs: BTreeMap::new(),
            log: Vec::new(),
            prepared: Vec::new(),
            journal: Vec::new(),
            synced: 0,
            durable: Watermark::default(),
            highest: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            leases: BTreeMap::new(),
            unrecordable: BTreeSet::new(),
            online: true,
            slow: false,
            confirmed_behind: Duration::ZERO,
            index: 10,
            incarnation: INCARNATION,
            epoch: 100,
            desired: BTreeMap::new(),
            jobs: BTreeMap::new(),
            watching: None,
            told: BTreeSet::new(),
            applied: (0, 0),
            typical_interval: Duration::ZERO,
            recorded: BTreeMap::new(),
            acked_index: 0,
        };
        host.core.set_servers(1, at(0));
        host
    }

    /// A host whose control plane wants these jobs, once each, and which is in a live session.
    pub(super) fn with_jobs(jobs: Vec<Job>) -> Self {
        let mut host = Self::new();
        for job in jobs {
            host.submit(job);
        }
        host.run_for(3_000);
        host
    }

    pub(super) fn disconnect(&mut self) {
        let attempt = self.core.session().attempt();
        self.watching = None;
        self.pending
            .retain(|event| !matches!(event, Event::Session { .. }));
        let event = SessionEvent::Disconnected {
            reason: "cut".to_owned(),
            ending: crate::event::Ending::Otherwise,
        };
        self.core
            .on_event(Event::Session { attempt, event }, at(self.now));
        self.drain();
    }

    pub(super) fn task(&self, number: u128, task: &str) -> TaskState {
        let runner = self
            .core
            .alloc(AllocId::from_u128(number))
            .expect("the allocation is here");
        runner.tasks()[task].state().clone()
    }

    pub(super) fn status(&self, number: u128) -> ClientStatus {
        let id = AllocId::from_u128(number);
        self.core
            .alloc_status(id)
            .expect("the allocation is here")
            .client_status
    }

    pub(super) fn recorded(&self, number: u128) -> Option<ClientStatus> {
        let report = self.recorded.get(&AllocId::from_u128(number));
        report.map(|report| report.client_status)
    }

    /// Delivers the oldest answer. Returns whether there was one.
    pub(super) fn step(&mut self) -> bool {
        self.drain();
        let Some(event) = self.pending.pop_front() else {
            return false;
        };
        self.core.on_event(event, at(self.now));
        self.drain();
        true
    }

    /// Delivers every answer at once.
    pub(super) fn deliver(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 10_000, "the core goes in circles: {:?}", self.log);
        }
    }

    /// Lets time pass, deadline by deadline.
    pub(super) fn run_for(&mut self, millis: u64) {
        let end = self.now + millis;
        let mut steps = 0;
        loop {
            self.deliver();
            self.kill_overdue();
            self.deliver();
            let due = self
                .core
                .poll_timeout()
                .map(|due| u64::try_from(due.0.as_nanos().div_ceil(1_000_000)).expect("soon"));
            let deadline = self.next_kill();
            let next = [due, deadline].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.core.on_timeout(at(self.now));
            steps += 1;
            assert!(
                steps < 100_000,
                "deadlines do not end: {:?}",
                self.core.poll_timeout()
            );
        }
        self.now = end;
        self.core.on_timeout(at(self.now));
        self.deliver();
    }

    pub(super) fn drain(&mut self) {
        while let Some(issued) = self.core.poll_effect() {
            if issued.needs == Durability::Synced {
                self.sync();
            }
            self.execute(issued.effect);
        }
    }

    fn answer(&mut self, run: &RunKey, event: RunEvent) {
        self.pending.push_back(Event::Run {
            run: run.clone(),
            event,
        });
    }

    fn session(&mut self, attempt: Attempt, event: SessionEvent) {
        self.pending.push_back(Event::Session { attempt, event });
    }

    fn execute(&mut self, effect: Effect) {
        match effect {
            Effect::Append(record) => self.append(&record),
            Effect::Connect { attempt, .. } => {
                let event = if self.online {
                    SessionEvent::Connected
                } else {
                    SessionEvent::Disconnected {
                        reason: "offline".to_owned(),
                        ending: crate::event::Ending::Otherwise,
                    }
                };
                self.session(attempt, event);
            }
            Effect::Disconnect { reason, .. } => {
                self.watching = None;
                self.log.push(format!("disconnect: {reason}"));
            }
            Effect::OpenWatch { attempt, known } => self.open_watch(attempt, known),
            Effect::Send { attempt, message } => {
                if self.online {
                    self.receive(attempt, message);
                }
            }
            Effect::TendLeases { extend, end } => {
                let answer = self.tend_leases(extend, end);
                self.pending.push_back(Event::Leases(answer));
            }
            Effect::PrepareAlloc { spec, .. } => {
                self.log.push("directory".to_owned());
                let event = AllocEvent::Prepared {
                    resources: AllocResources::default(),
                };
                self.pending.push_back(Event::Alloc {
                    alloc: spec.id(),
                    event,
                });
            }
            Effect::RetireAlloc { alloc } => {
                let live = self.live_runs().into_iter().any(|run| run.alloc == alloc);
                assert!(!live, "{alloc} is retired while it runs");
                self.log.push("retire".to_owned());
            }
            Effect::DestroyAlloc { alloc } => {
                let live = self.live_runs().into_iter().any(|run| run.alloc == alloc);
                assert!(!live, "{alloc} is destroyed while it runs");
                self.log.push("destroy".to_owned());
                self.destroyed.insert(alloc);
                self.pending.push_back(Event::Alloc {
                    alloc,
                    event: AllocEvent::Destroyed,
                });
            }
            Effect::CancelPrepare { run } => self.cancel(&run),
            Effect::PrepareTask(_)
            | Effect::StartTask(_)
            | Effect::StopTask { .. }
            | Effect::KillTask { .. }
            | Effect::SignalTask { .. }
            | Effect::FollowTemplates(_)
            | Effect::RenderTemplates(_)
            | Effect::FollowIdentities(_)
            | Effect::RunChangeScript(_)
            | Effect::ReleaseRun { .. } => self.execute_for_task(effect),
        }
    }
}
