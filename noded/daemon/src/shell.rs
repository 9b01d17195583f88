//! The loop that owns the core: inputs in, effects out.
//!
//! ```text
//!   inputs ----> on_event ---> poll_effect ---> held until the journal is far enough
//!   timer  ----> on_timeout                        |
//!                                                  +--> session link   (Connect, Send)
//!                                                  +--> lane of an allocation, one at a time
//! ```
//!
//! Nothing here waits for a disk or a socket: a journal that is being synced holds back exactly the
//! effects that need it, and what follows them in their lanes; heartbeats go on.

mod host;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use noded_core::effect::{Durability, Lane};
use noded_core::event::{Exit, ExitStatus, RunEvent, SessionEvent};
use noded_core::key::Attempt;
use noded_core::task_runner::Phase;
use noded_core::{Effect, Event, Issued, NodeCore, RunKey};
use noded_keeper::protocol::TaskReport;
use protocol_model::AllocId;
use tokio::sync::{Notify, mpsc, watch};

use crate::clock;
use crate::executor::Executor;
use crate::input::{AllocCounts, AllocView, Input, Liveness, Question};
use crate::journal::{Journal, JournalError, Progress};
use crate::keeper_events;
use crate::keeper_link::{KeeperNews, chain};
use crate::lane;
use crate::session::{Link, Outbound, SessionContext};
use host::DiskState;

/// Inputs that wait for the loop; beyond, those that bring them wait.
pub const INPUTS_MAX: usize = 4096;
/// Inputs that are taken in before effects are looked at.
const INPUTS_AT_ONCE: usize = 256;
/// How often a full disk is tried again.
const JOURNAL_RETRY: Duration = Duration::from_secs(1);

/// Why the loop ended.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The journal cannot go on.
    #[error("the journal cannot go on")]
    Journal(#[source] JournalError),
}

/// What the loop is made of.
#[derive(Debug)]
pub struct Shell {
    /// Every decision.
    pub core: NodeCore,
    /// What survives us.
    pub journal: Journal,
    /// Does things.
    pub executor: Arc<Executor>,
    /// Sessions.
    pub session: Arc<SessionContext>,
    /// The servers of the configuration.
    pub configured: Vec<String>,
    /// Inputs.
    pub inputs: mpsc::Receiver<Input>,
    /// Asks for the disk to be measured.
    pub measure: Arc<Notify>,
}

/// An effect that waits for the journal, or behind one that does.
#[derive(Debug)]
struct Held {
    needs: Durability,
    /// The newest record issued before it.
    record: u64,
    lane: Lane,
    effect: Effect,
}

#[derive(Debug, Default)]
struct AllocLane {
    waiting: VecDeque<Effect>,
}

struct Running {
    shell: Shell,
    servers: Vec<String>,
    /// Where the attempt before this one went.
    last_server: Option<String>,
    link: Option<Link>,
    held: VecDeque<Held>,
    /// Lanes with an effect under way.
    lanes: BTreeMap<AllocId, AllocLane>,
    journal_retry: Option<tokio::time::Instant>,
    disk: DiskState,
}

impl Shell {
    /// Runs until `stop` says so. Tasks go on without us.
    ///
    /// # Errors
    /// Where the journal cannot be kept any more.
    pub async fn run(self, mut stop: watch::Receiver<bool>) -> Result<(), ShellError> {
        let servers = self.configured.clone();
        let mut running = Running {
            shell: self,
            servers,
            last_server: None,
            link: None,
            held: VecDeque::new(),
            lanes: BTreeMap::new(),
            journal_retry: None,
            disk: DiskState::Roomy,
        };
        let count = running.servers.len();
        running.shell.core.set_servers(count, clock::now());
        running.drain()?;
        let mut taken = Vec::with_capacity(INPUTS_AT_ONCE);
        loop {
            let timer = running.timer();
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
                count = running.shell.inputs.recv_many(&mut taken, INPUTS_AT_ONCE) => {
                    if count == 0 {
                        return Ok(());
                    }
                    for input in taken.drain(..) {
                        running.take(input);
                        running.drain()?;
                    }
                }
                () = tokio::time::sleep_until(timer) => {
                    running.retry_journal();
                }
            }
            running.on_time();
            running.drain()?;
        }
    }
}

impl Running {
    fn timer(&self) -> tokio::time::Instant {
        let now = clock::moment();
        let idle = Duration::from_secs(3600);
        let wait = self
            .shell
            .core
            .poll_timeout()
            .map_or(idle, |at| at.since(now));
        let core = tokio::time::Instant::now() + wait;
        self.journal_retry.map_or(core, |retry| retry.min(core))
    }

    fn on_time(&mut self) {
        let now = clock::now();
        if self
            .shell
            .core
            .poll_timeout()
            .is_some_and(|at| at <= now.moment)
        {
            self.shell.core.on_timeout(now);
        }
    }

    fn take(&mut self, input: Input) {
        let now = clock::now();
        tracing::trace!(input = input.name(), "input");
        match input {
            Input::Event(event) => {
                self.notice_room(&event);
                self.shell.core.on_event(event, now);
            }
            Input::Session {
                attempt,
                event,
                servers,
            } => {
                let event = self.with_servers(event, servers);
                self.shell
                    .core
                    .on_event(Event::Session { attempt, event }, now);
            }
            Input::Keeper(KeeperNews::Event(event)) => {
                let (key, event) = keeper_events::run_event(event);
                match keeper_events::run_key(&key) {
                    Some(run) => self.shell.core.on_event(Event::Run { run, event }, now),
                    None => tracing::warn!(%key, "keeper speaks of a run that is none of ours"),
                }
            }
            Input::Keeper(KeeperNews::Relisted(listing)) => self.relisted(&listing),
            Input::LaneDone(alloc) => self.lane_done(alloc),
            Input::Synced(count) => {
                self.shell.journal.on_synced(count);
                self.release_held();
            }
            Input::Looked(found) => self.looked(found),
            Input::Reconfigured(config) => self.reconfigured(&config),
            Input::DiskMeasured(measured) => self.disk_measured(measured),
            Input::Ask(question) => self.answer(question),
        }
    }

    /// The core counts servers; the list is ours. The configuration's stay reachable whatever a
    /// server says.
    fn with_servers(&mut self, event: SessionEvent, named: Vec<String>) -> SessionEvent {
        if !named.is_empty() {
            self.servers = named;
            for configured in &self.shell.configured {
                if !self.servers.contains(configured) {
                    self.servers.push(configured.clone());
                }
            }
        }
        let count = self.servers.len();
        match event {
            SessionEvent::Welcome(mut welcome) => {
                welcome.servers = count;
                SessionEvent::Welcome(welcome)
            }
            SessionEvent::Refused(mut refused) => {
                refused.servers = count;
                SessionEvent::Refused(refused)
            }
            other => other,
        }
    }

    /// The connection to keeper was lost: what it knows now, and what it does not know any more.
    fn relisted(&mut self, listing: &[TaskReport]) {
        let mut missed: Vec<(RunKey, RunEvent)> = listing
            .iter()
            .filter_map(|report| {
                let run = keeper_events::run_key(&report.key)?;
                Some((run, keeper_events::missed_event(report)?))
            })
            .collect();
        let listed: Vec<RunKey> = listing
            .iter()
            .filter_map(|report| keeper_events::run_key(&report.key))
            .collect();
        for alloc in self.shell.core.allocs() {
            for task in alloc.tasks().values() {
                // One that is starting may not have been asked for yet; whoever asks gets an
                // answer.
                let gone = match task.phase() {
                    Phase::Running | Phase::ShutdownDelay { .. } | Phase::Stopping { .. } => {
                        !listed.contains(&task.run())
                    }
                    Phase::Waiting
                    | Phase::Delayed { .. }
                    | Phase::Preparing { .. }
                    | Phase::Starting { .. }
                    | Phase::Dead => false,
                };
                let of_keeper = alloc
                    .spec()
                    .task(task.name())
                    .is_some_and(|task| task.driver != "mock_driver");
                if gone && of_keeper {
                    let exit = Exit {
                        status: ExitStatus::Unknown,
                        oom_killed: false,
                        signal_discarded: false,
                        at: clock::wall(),
                    };
                    missed.push((task.run(), RunEvent::Exited(exit)));
                }
            }
        }
        for (run, event) in missed {
            self.shell
                .core
                .on_event(Event::Run { run, event }, clock::now());
        }
    }

    /// Executes, or holds back, everything that the core asks for.
    fn drain(&mut self) -> Result<(), ShellError> {
        let mut sync = false;
        while let Some(Issued { needs, effect }) = self.shell.core.poll_effect() {
            if let Effect::Append(record) = &effect {
                self.shell
                    .journal
                    .append(record)
                    .map_err(ShellError::Journal)?;
                continue;
            }
            let lane = effect.lane();
            let record = self.shell.journal.issued();
            let blocked = self.held.iter().any(|held| held.lane == lane);
            if !blocked && is_safe(needs, record, lane, self.shell.journal.progress()) {
                self.execute(effect);
                continue;
            }
            sync |= needs == Durability::Synced;
            self.held.push_back(Held {
                needs,
                record,
                lane,
                effect,
            });
        }
        if sync {
            self.shell.journal.request_sync();
        }
        if self.shell.journal.is_stuck() && self.journal_retry.is_none() {
            self.journal_retry = Some(tokio::time::Instant::now() + JOURNAL_RETRY);
        }
        if self.shell.journal.wants_compaction() && self.journal_retry.is_none() {
            let records = self.shell.core.journal_snapshot();
            match self.shell.journal.compact(&records) {
                Ok(()) => self.release_held(),
                Err(error) => {
                    tracing::error!(error = %chain(&error), "the journal is not compacted");
                    self.journal_retry = Some(tokio::time::Instant::now() + JOURNAL_RETRY);
                }
            }
        }
        Ok(())
    }

    fn retry_journal(&mut self) {
        let due = self
            .journal_retry
            .is_some_and(|at| at <= tokio::time::Instant::now());
        if !due {
            return;
        }
        match self.shell.journal.retry() {
            Ok(()) => {
                tracing::info!("the journal is written again");
                self.journal_retry = None;
                self.shell.journal.request_sync();
                self.release_held();
            }
            Err(error) => {
                tracing::error!(%error, "the journal cannot be written");
                self.journal_retry = Some(tokio::time::Instant::now() + JOURNAL_RETRY);
            }
        }
    }

    /// Executes what the journal is far enough for, lane by lane in order.
    fn release_held(&mut self) {
        let progress = self.shell.journal.progress();
        let mut blocked: Vec<Lane> = Vec::new();
        let mut sync = false;
        for held in std::mem::take(&mut self.held) {
            let safe = is_safe(held.needs, held.record, held.lane, progress);
            if safe && !blocked.contains(&held.lane) {
                self.execute(held.effect);
            } else {
                sync |= held.needs == Durability::Synced;
                blocked.push(held.lane);
                self.held.push_back(held);
            }
        }
        if sync {
            self.shell.journal.request_sync();
        }
    }

    fn execute(&mut self, effect: Effect) {
        tracing::trace!(lane = ?effect.lane(), "effect");
        match effect {
            Effect::Append(_) => {}
            Effect::Connect { attempt, server } => {
                let last = self.last_server.as_deref();
                let Some(address) = another_server(&self.servers, server.offset, last) else {
                    tracing::error!(offset = server.offset, "the core chose an unknown server");
                    return;
                };
                tracing::debug!(%address, "connecting");
                self.last_server = Some(address.clone());
                self.link = Some(Link::start(&self.shell.session, attempt, address));
            }
            Effect::Disconnect { attempt, reason } => {
                if self
                    .link
                    .as_ref()
                    .is_some_and(|link| link.attempt() == attempt)
                {
                    tracing::info!(%reason, "leaving the server");
                    self.link = None;
                }
            }
            Effect::OpenWatch { attempt } => {
                self.send(attempt, Outbound::OpenWatch);
            }
            Effect::Send { attempt, message } => {
                self.send(attempt, Outbound::Message(message));
            }
            effect @ (Effect::BuildAllocDirectory { .. }
            | Effect::RetireAlloc { .. }
            | Effect::DestroyAlloc { .. }
            | Effect::PrepareTask(_)
            | Effect::StartTask(_)
            | Effect::StopTask { .. }
            | Effect::KillTask { .. }
            | Effect::SignalTask { .. }
            | Effect::ReleaseRun { .. }) => {
                if let Lane::Alloc(alloc) = effect.lane() {
                    self.enqueue(alloc, effect);
                }
            }
        }
    }

    fn send(&mut self, attempt: Attempt, message: Outbound) {
        let Some(link) = self.link.as_ref().filter(|link| link.attempt() == attempt) else {
            return;
        };
        if let Err(full) = link.send(message) {
            self.link = None;
            let event = SessionEvent::Disconnected {
                reason: full.to_string(),
            };
            let event = Event::Session { attempt, event };
            self.shell.core.on_event(event, clock::now());
        }
    }

    fn enqueue(&mut self, alloc: AllocId, effect: Effect) {
        if let Some(lane) = self.lanes.get_mut(&alloc) {
            lane.waiting.push_back(effect);
            return;
        }
        self.lanes.insert(alloc, AllocLane::default());
        self.begin(alloc, effect);
    }

    fn begin(&self, alloc: AllocId, effect: Effect) {
        let executor = Arc::clone(&self.shell.executor);
        let inputs = self.shell.session.inputs.clone();
        tokio::spawn(async move {
            let run = |effect| {
                let executor = Arc::clone(&executor);
                async move { executor.execute(effect).await }
            };
            for event in lane::carry_out(effect, lane::AGAIN, run).await {
                // A loop that ended no longer wants to know.
                let _ = inputs.send(Input::Event(event)).await;
            }
            let _ = inputs.send(Input::LaneDone(alloc)).await;
        });
    }

    fn lane_done(&mut self, alloc: AllocId) {
        let next = self
            .lanes
            .get_mut(&alloc)
            .and_then(|lane| lane.waiting.pop_front());
        match next {
            Some(effect) => self.begin(alloc, effect),
            None => {
                self.lanes.remove(&alloc);
            }
        }
    }

    fn answer(&mut self, question: Question) {
        let now = clock::now();
        let core = &mut self.shell.core;
        // Whoever asked may have gone away.
        match question {
            Question::Alloc { alloc, answer } => {
                let _ = answer.send(core.alloc(alloc).map(|runner| {
                    AllocView {
                        spec: Arc::clone(runner.spec()),
                        runs: runner
                            .tasks()
                            .values()
                            .map(|task| {
                                let liveness = if task.has_process() {
                                    Liveness::Alive
                                } else {
                                    Liveness::Ended
                                };
                                (task.run(), liveness)
                            })
                            .collect(),
                        over: runner.all_dead(),
                    }
                }));
            }
            Question::Counts { answer } => {
                let mut counts = AllocCounts::default();
                for runner in core.allocs() {
                    if runner.all_dead() {
                        counts.over += 1;
                    } else {
                        counts.live += 1;
                    }
                }
                let _ = answer.send(counts);
            }
            Question::CollectGarbage { answer } => {
                core.collect_garbage(now);
                let _ = answer.send(());
            }
            Question::Restart {
                alloc,
                scope,
                answer,
            } => {
                let _ = answer.send(core.restart(alloc, scope, now));
            }
            Question::Signal {
                alloc,
                scope,
                signal,
                answer,
            } => {
                let _ = answer.send(core.signal(alloc, scope, &signal, now));
            }
        }
    }
}

/// Whether the journal is far enough for an effect. Heartbeats and the choice of a server say
/// nothing about anything that is journaled.
fn is_safe(needs: Durability, record: u64, lane: Lane, progress: Progress) -> bool {
    if lane == Lane::Heartbeat {
        return true;
    }
    match needs {
        Durability::Appended => progress.written >= record,
        Durability::Synced => progress.synced >= record,
    }
}

/// The server at `offset`, or the one after it where that is the one that was tried last.
///
/// The core counts offsets in a list that a welcome may have replaced by one in another order, so
/// the next offset may be the server that has just fallen silent. Trying it again would cost the
/// time of a handshake that nobody answers, and with it the node its tasks.
fn another_server(servers: &[String], offset: usize, last: Option<&str>) -> Option<String> {
    let chosen = servers.get(offset)?;
    if last != Some(chosen.as_str()) {
        return Some(chosen.clone());
    }
    servers.get((offset + 1) % servers.len()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heartbeats_overtake_the_journal() {
        let progress = Progress {
            written: 5,
            synced: 3,
        };
        let session = Lane::Session;
        assert!(is_safe(Durability::Appended, 5, session, progress));
        assert!(!is_safe(Durability::Appended, 6, session, progress));
        assert!(is_safe(Durability::Synced, 3, session, progress));
        assert!(!is_safe(Durability::Synced, 4, session, progress));
        assert!(is_safe(Durability::Synced, 9, Lane::Heartbeat, progress));
    }

    #[test]
    fn the_server_that_was_tried_last_is_not_the_next() {
        let servers = ["a", "b", "c"].map(str::to_owned);
        let next = |offset, last| another_server(&servers, offset, last);
        assert_eq!(next(1, Some("a")).as_deref(), Some("b"));
        assert_eq!(next(1, Some("b")).as_deref(), Some("c"));
        assert_eq!(next(2, Some("c")).as_deref(), Some("a"));
        assert_eq!(next(3, None), None);
        // The only one there is.
        let only = another_server(&servers[..1], 0, Some("a"));
        assert_eq!(only.as_deref(), Some("a"));
    }
}
