//! A host and a control plane that do what the core asks: keeper, journal, session, watch. They
//! check as they go what a shell may rely on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use protocol_model::{
    AllocId, Allocation, ClientStatus, DesiredStatus, Incarnation, Job, Node, NodeId, SpecHash,
    TaskRunState, TaskState,
};
use protocol_wire::report::AllocReport;

use crate::effect::{Effect, SessionMessage, UpdateClass};
use crate::event::{
    AllocEvent, BatchAck, DesiredAlloc, Event, Exit, ExitStatus, ItemResult, KeptPhase, KeptRun,
    Recovery, RunEvent, SessionEvent, WatchDelta, WatchMap, Welcome,
};
use crate::journal::{self, JournalRecord};
use crate::key::{Attempt, BootId, RunEpoch, RunKey, SessionEpoch, Watermark};
use crate::task_runner::Boot;
use crate::test_support::{alloc_of, at};
use crate::{Durability, NodeCore, Settings};

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
    pub(super) journal: Vec<Vec<u8>>,
    synced: usize,
    highest: BTreeMap<(AllocId, String), RunEpoch>,
    pub(super) destroyed: BTreeSet<AllocId>,
    // --- the control plane ---
    pub(super) online: bool,
    pub(super) index: u64,
    incarnation: Incarnation,
    epoch: u64,
    pub(super) desired: BTreeMap<AllocId, (u64, Allocation)>,
    pub(super) jobs: BTreeMap<SpecHash, Arc<Job>>,
    watching: Option<(Attempt, u64)>,
    told: BTreeSet<AllocId>,
    applied: (u64, u64),
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
            journal: Vec::new(),
            synced: 0,
            highest: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            online: true,
            index: 10,
            incarnation: INCARNATION,
            epoch: 100,
            desired: BTreeMap::new(),
            jobs: BTreeMap::new(),
            watching: None,
            told: BTreeSet::new(),
            applied: (0, 0),
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

    /// The control plane wants a job: its allocation's id counts from 1.
    pub(super) fn submit(&mut self, job: Job) -> AllocId {
        self.submit_as(job, self.desired.len() as u128 + 1)
    }

    /// As [`Self::submit`], where the number is not the next one.
    pub(super) fn submit_as(&mut self, job: Job, number: u128) -> AllocId {
        let alloc = alloc_of(&job, AllocId::from_u128(number));
        let byte = u8::try_from(number).expect("few jobs");
        let spec = SpecHash([byte; 32]);
        self.jobs.insert(spec, Arc::new(job));
        self.want(Allocation { spec, ..alloc })
    }

    pub(super) fn want(&mut self, mut alloc: Allocation) -> AllocId {
        self.index += 1;
        alloc.alloc_modify_index = self.index;
        let id = alloc.id;
        self.desired.insert(id, (self.index, alloc));
        self.push_watch();
        id
    }

    pub(super) fn stop(&mut self, id: AllocId) {
        if let Some((_, alloc)) = self.desired.get(&id).cloned() {
            self.want(Allocation {
                desired_status: DesiredStatus::Stop,
                ..alloc
            });
        }
    }

    pub(super) fn purge(&mut self, id: AllocId) {
        if self.desired.remove(&id).is_some() {
            self.index += 1;
            self.push_watch();
        }
    }

    /// Sends what changed since the last message of the watch.
    fn push_watch(&mut self) {
        let Some((attempt, from)) = self.watching.filter(|_| self.online) else {
            return;
        };
        let changed = self.desired.values().filter(|(version, _)| *version > from);
        let changed: Vec<DesiredAlloc> = changed
            .map(|(version, alloc)| DesiredAlloc {
                version: *version,
                spec: alloc.spec,
                alloc: alloc.clone(),
            })
            .collect();
        let wanted: BTreeSet<AllocId> = self.desired.keys().copied().collect();
        let removed = self.told.difference(&wanted).copied().collect();
        self.told = wanted;
        let specs = self
            .jobs
            .iter()
            .map(|(hash, job)| (*hash, Arc::clone(job)))
            .collect();
        let delta = WatchDelta {
            previous_index: from,
            index: self.index,
            specs,
            changed,
            removed,
        };
        self.watching = Some((attempt, self.index));
        let event = SessionEvent::WatchDelta(delta);
        self.pending.push_back(Event::Session { attempt, event });
    }

    /// The control plane is restored from a snapshot in which it wanted this: another incarnation,
    /// whose index goes on, and which knows none of the sessions.
    pub(super) fn restore(&mut self, saved: BTreeMap<AllocId, (u64, Allocation)>) {
        self.desired = saved;
        self.incarnation = Incarnation::from_u128(self.incarnation.0.as_u128() + 1);
        self.index += 1000;
        self.epoch += 1000;
        self.applied = (0, 0);
        self.disconnect();
    }

    pub(super) fn disconnect(&mut self) {
        let attempt = self.core.session().attempt();
        self.watching = None;
        self.pending
            .retain(|event| !matches!(event, Event::Session { .. }));
        let event = SessionEvent::Disconnected {
            reason: "cut".to_owned(),
        };
        self.core
            .on_event(Event::Session { attempt, event }, at(self.now));
        self.drain();
    }

    /// kill -9 of the daemon and a new one; the host may have been restarted in between.
    pub(super) fn restart_daemon(&mut self, boot: Boot) {
        self.begin_daemon(boot);
        self.drain();
    }

    /// As [`Self::restart_daemon`], and the new daemon is killed when it has carried out so many
    /// effects. Returns whether there were as many.
    pub(super) fn restart_and_kill(&mut self, boot: Boot, effects: usize) -> bool {
        self.begin_daemon(boot);
        for _ in 0..effects {
            let Some(issued) = self.core.poll_effect() else {
                return false;
            };
            self.execute(issued.effect);
        }
        true
    }

    fn begin_daemon(&mut self, boot: Boot) {
        self.watching = None;
        self.pending.clear();
        if boot == Boot::Another {
            self.boot += 1;
            self.runs.clear();
            self.highest.clear();
            self.journal.truncate(self.synced.max(self.journal.len()));
        }
        let records = self
            .journal
            .iter()
            .map(|bytes| journal::decode(bytes).expect("decodes"));
        let restored = journal::replay(records);
        let kept = self.runs.iter().map(|(run, fake)| {
            let phase = match fake {
                FakeRun::Running { kill_at } => KeptPhase::Running {
                    pid: 1,
                    at: at(self.now).wall,
                    stopping: kill_at.is_some(),
                },
                FakeRun::Ended(exit) => KeptPhase::Exited(exit.clone()),
                FakeRun::NotStarted => KeptPhase::StartFailed {
                    message: "no".to_owned(),
                },
            };
            KeptRun {
                run: run.clone(),
                phase,
            }
        });
        let kept = kept.collect();
        let boot = BootId([self.boot; 16]);
        self.core = NodeCore::new(settings(), node(), restored, kept, boot, at(self.now));
        self.core.set_servers(1, at(self.now));
    }

    /// A task's process ends by itself.
    pub(super) fn exit(&mut self, run: &RunKey, status: ExitStatus) {
        let exit = Exit {
            status,
            oom_killed: false,
            signal_discarded: false,
            at: at(self.now).wall,
        };
        if let Some(FakeRun::Running { .. }) = self.runs.get(run) {
            self.runs.insert(run.clone(), FakeRun::Ended(exit.clone()));
            self.answer(run, RunEvent::Exited(exit));
        }
    }

    pub(super) fn live_runs(&self) -> Vec<RunKey> {
        let live = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(run, FakeRun::Running { .. }));
        live.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn live_run(&self, task: &str) -> RunKey {
        let live = self.live_runs();
        live.into_iter()
            .find(|run| run.task == task)
            .unwrap_or_else(|| panic!("{task} runs"))
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

    fn next_kill(&self) -> Option<u64> {
        let deadlines = self.runs.values().filter_map(|run| match run {
            FakeRun::Running { kill_at } => *kill_at,
            FakeRun::Ended(_) | FakeRun::NotStarted => None,
        });
        deadlines
            .min()
            .map(|at| u64::try_from(at.as_millis()).expect("soon"))
    }

    fn kill_overdue(&mut self) {
        let now = at(self.now).moment.0;
        let overdue: Vec<RunKey> = self
            .runs
            .iter()
            .filter(|(_, run)| matches!(run, FakeRun::Running { kill_at: Some(at) } if *at <= now))
            .map(|(key, _)| key.clone())
            .collect();
        for run in overdue {
            self.exit(&run, ExitStatus::Signal(9));
        }
    }

    pub(super) fn drain(&mut self) {
        while let Some(issued) = self.core.poll_effect() {
            if issued.needs == Durability::Synced {
                self.synced = self.journal.len();
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

    /// Nothing is asked for a task that is dead.
    fn check_alive(&self, run: &RunKey, what: &str) {
        let Some(runner) = self.core.alloc(run.alloc) else {
            return;
        };
        let Some(task) = runner.tasks().get(&run.task) else {
            return;
        };
        let newest = task.run().epoch == run.epoch;
        assert!(
            !newest || task.state().state != TaskRunState::Dead,
            "{what} for {run}, which is dead"
        );
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
                    }
                };
                self.session(attempt, event);
            }
            Effect::Disconnect { reason, .. } => {
                self.watching = None;
                self.log.push(format!("disconnect: {reason}"));
            }
            Effect::OpenWatch { attempt } => self.open_watch(attempt),
            Effect::Send { attempt, message } => {
                if self.online {
                    self.receive(attempt, message);
                }
            }
            Effect::BuildAllocDirectory { spec } => {
                self.log.push("directory".to_owned());
                let event = AllocEvent::DirectoryBuilt;
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
            Effect::PrepareTask(_)
            | Effect::StartTask(_)
            | Effect::StopTask { .. }
            | Effect::KillTask { .. }
            | Effect::SignalTask { .. }
            | Effect::ReleaseRun { .. } => self.execute_for_task(effect),
        }
    }

    fn execute_for_task(&mut self, effect: Effect) {
        match effect {
            Effect::PrepareTask(prepare) => {
                self.check_alive(&prepare.run, "prepare");
                self.log.push(format!("prepare {}", prepare.run.task));
                let event = if self.luck == Luck::PrepareFails {
                    RunEvent::PrepareFailed {
                        hook: prepare.hooks[0],
                        message: "no".to_owned(),
                        recovery: Recovery::Possible,
                    }
                } else {
                    RunEvent::Prepared {
                        environment: BTreeMap::new(),
                    }
                };
                self.answer(&prepare.run, event);
            }
            Effect::StartTask(start) => self.spawn(&start.run),
            Effect::StopTask {
                run,
                signal,
                kill_after,
            } => {
                self.check_alive(&run, "stop");
                self.log.push(format!("stop {} {signal}", run.task));
                let deadline = at(self.now).moment.0 + kill_after;
                if let Some(FakeRun::Running { kill_at }) = self.runs.get_mut(&run) {
                    *kill_at = Some(kill_at.map_or(deadline, |at| at.min(deadline)));
                }
                if self.manners == Manners::Ends {
                    self.exit(&run, ExitStatus::Code(0));
                }
            }
            Effect::KillTask { run } => self.exit(&run, ExitStatus::Signal(9)),
            Effect::SignalTask { run, signal } => {
                self.check_alive(&run, "signal");
                self.log.push(format!("signal {} {signal}", run.task));
            }
            Effect::ReleaseRun { run } => {
                let ended = self.runs.remove(&run);
                assert!(
                    !matches!(ended, Some(FakeRun::Running { .. })),
                    "{run} is let go while it runs"
                );
            }
            other => panic!("{other:?} is for no task"),
        }
    }

    /// As keeper does it: a run epoch only ever rises.
    fn spawn(&mut self, run: &RunKey) {
        self.check_alive(run, "start");
        self.log.push(format!("start {}", run.task));
        let owner = (run.alloc, run.task.clone());
        let highest = self.highest.insert(owner, run.epoch).unwrap_or_default();
        assert!(run.epoch > highest, "{run} is not above {highest:?}");
        let twice = self
            .live_runs()
            .into_iter()
            .find(|live| live.alloc == run.alloc && live.task == run.task);
        assert_eq!(twice, None, "{run} starts while an earlier run is live");
        let intent = JournalRecord::Intent { run: run.clone() };
        let intent = journal::encode(&intent).expect("encodes");
        assert!(
            self.journal.contains(&intent),
            "{run} starts before its intent is journaled"
        );
        if self.luck == Luck::StartFails {
            self.runs.insert(run.clone(), FakeRun::NotStarted);
            let (message, recovery) = ("no".to_owned(), Recovery::Possible);
            self.answer(run, RunEvent::StartFailed { message, recovery });
        } else {
            self.runs
                .insert(run.clone(), FakeRun::Running { kill_at: None });
            let event = RunEvent::Started {
                pid: 1,
                at: at(self.now).wall,
            };
            self.answer(run, event);
        }
    }

    fn append(&mut self, record: &JournalRecord) {
        let bytes = journal::encode(record).expect("encodes");
        assert_eq!(&journal::decode(&bytes).expect("decodes"), record);
        self.journal.push(bytes);
    }

    fn open_watch(&mut self, attempt: Attempt) {
        if !self.online {
            return;
        }
        let at = Watermark {
            incarnation: Some(self.incarnation),
            index: self.index,
        };
        let allocs = self
            .desired
            .iter()
            .map(|(id, (version, _))| (*id, *version))
            .collect();
        let map = SessionEvent::WatchMap(WatchMap {
            at,
            part: 0,
            last: true,
            allocs,
        });
        self.session(attempt, map);
        // What the node lacks comes in a delta at the map's own index.
        // What it was told by another incarnation counts for nothing.
        let another = self.core.watermark().incarnation != at.incarnation;
        let lacking = self.desired.values().filter(|(version, alloc)| {
            another
                || self
                    .core
                    .alloc(alloc.id)
                    .is_none_or(|runner| runner.spec().version() < *version)
        });
        let changed: Vec<DesiredAlloc> = lacking
            .map(|(version, alloc)| {
                let alloc = alloc.clone();
                DesiredAlloc {
                    version: *version,
                    spec: alloc.spec,
                    alloc,
                }
            })
            .collect();
        if !changed.is_empty() {
            let specs = self
                .jobs
                .iter()
                .map(|(hash, job)| (*hash, Arc::clone(job)))
                .collect();
            let (previous_index, index, removed) = (self.index, self.index, Vec::new());
            let delta = WatchDelta {
                previous_index,
                index,
                specs,
                changed,
                removed,
            };
            self.session(attempt, SessionEvent::WatchDelta(delta));
        }
        self.told = self.desired.keys().copied().collect();
        self.watching = Some((attempt, self.index));
    }

    fn receive(&mut self, attempt: Attempt, message: SessionMessage) {
        match message {
            SessionMessage::Hello(hello) => {
                let resumed = !hello.daemon_restarted && hello.last_epoch.0 == self.epoch;
                if !resumed {
                    self.epoch += 1;
                }
                self.session(attempt, SessionEvent::Welcome(self.welcome(resumed)));
            }
            SessionMessage::SyncPart(part) => {
                for report in part.reports {
                    self.record(report);
                }
                if part.last {
                    let epoch = SessionEpoch(self.epoch);
                    self.session(
                        attempt,
                        SessionEvent::SyncAck {
                            epoch,
                            index: self.index,
                        },
                    );
                }
            }
            SessionMessage::Heartbeat { tick, sent, .. } => {
                let ack = crate::event::HeartbeatAck {
                    tick,
                    typical_interval: Duration::ZERO,
                    confirmed_sent_nanos: sent.as_nanos().max(1),
                };
                self.session(attempt, SessionEvent::HeartbeatAck(ack));
            }
            SessionMessage::Facts { epoch } => {
                self.session(attempt, SessionEvent::FactsAck { epoch });
            }
            SessionMessage::WatchAck { index, .. } => self.acked_index = index,
            SessionMessage::StatusBatch(batch) => {
                match batch.class {
                    UpdateClass::Urgent => self.applied.0 = batch.seq,
                    UpdateClass::Typical => self.applied.1 = batch.seq,
                }
                if batch.reports.iter().any(AllocReport::is_terminal) {
                    assert_eq!(
                        self.synced,
                        self.journal.len(),
                        "a terminal status is durable"
                    );
                }
                let results = vec![ItemResult::Applied; batch.reports.len()];
                for report in batch.reports {
                    self.record(report);
                }
                let (class, seq, index) = (batch.class, batch.seq, self.index);
                let ack = BatchAck {
                    class,
                    seq,
                    index,
                    results,
                };
                self.session(attempt, SessionEvent::BatchAck(ack));
            }
        }
    }

    fn record(&mut self, report: AllocReport) {
        self.recorded.insert(report.id, report);
    }

    fn welcome(&self, resumed: bool) -> Welcome {
        Welcome {
            epoch: SessionEpoch(self.epoch),
            resumed,
            applied_urgent_seq: self.applied.0,
            applied_typical_seq: self.applied.1,
            heartbeat_interval: Duration::from_millis(125),
            typical_interval: Duration::from_secs(1),
            urgent_delay: Duration::from_millis(10),
            retry_interval: Duration::from_millis(250),
            applied: Watermark {
                incarnation: Some(self.incarnation),
                index: self.index,
            },
            servers: 1,
        }
    }
}
