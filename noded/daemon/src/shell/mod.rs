//! The loop that owns the core: inputs in, effects out.
//!
//! ```text
//!   inputs ----> on_event ---> poll_effect ---> held until the journal is far enough
//!   timer  ----> on_timeout                        |  (journal's news)
//!                                                  +--> session link   (Connect, Send)
//!                                                  +--> lanes of allocations and tasks
//! ```
//!
//! Nothing here waits for a disk or a socket, but a moment for a healthy disk's write: a journal
//! that is behind holds back exactly the effects that need it, and what follows them in their
//! lanes; heartbeats go on, and so do connecting and greeting: Hello names what is on the disk.

mod holding;
mod host;
mod keeper;
mod lanes;
mod limits;
mod links;
mod questions;
mod servers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use noded_core::effect::{ServerChoice, SessionMessage, UpdateClass};
use noded_core::event::{Ending, SessionEvent};
use noded_core::journal::JournalRecord;
use noded_core::key::{Attempt, Watermark};
use noded_core::{Effect, Event, NodeCore};
use tokio::sync::{Notify, mpsc, watch};

use crate::clock::Clock;
use crate::hands::Hands;
use crate::input::Input;
use crate::journal::{JournalError, Records};
use crate::session::{Link, Outbound, Purpose, SessionContext, Target};
use holding::{Holding, Issued};
use host::DiskState;
use lanes::Lanes;
pub(crate) use lanes::cancelled;
use limits::EphemeralDisks;
use links::Links;
use servers::Servers;

/// Inputs that wait for the loop; beyond, those that bring them wait.
pub const INPUTS_MAX: usize = 4096;
/// Inputs that are taken in before effects are looked at.
const INPUTS_AT_ONCE: usize = 256;

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
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// What survives us.
    pub journal: Box<dyn Records>,
    /// Says that the journal got further.
    pub journal_news: Arc<Notify>,
    /// Does things.
    pub hands: Arc<dyn Hands>,
    /// Sessions.
    pub session: Arc<SessionContext>,
    /// The servers of the configuration.
    pub configured: Vec<String>,
    /// Inputs.
    pub inputs: mpsc::Receiver<Input>,
    /// Asks for the disk to be measured.
    pub measure: Arc<Notify>,
}

struct Running {
    shell: Shell,
    servers: Servers,
    links: Links,
    holding: Holding,
    lanes: Lanes,
    disk: DiskState,
    ephemeral_disks: EphemeralDisks,
    /// Watermarks in the journal that may not be on the disk, with the numbers of their records.
    watermarks: VecDeque<(u64, Watermark)>,
}

impl Shell {
    /// Runs until `stop` says so. Tasks go on without us.
    ///
    /// # Errors
    /// Where the journal cannot be kept any more.
    pub async fn run(self, mut stop: watch::Receiver<bool>) -> Result<(), ShellError> {
        let mut running = Running {
            servers: Servers::new(self.configured.clone()),
            links: Links::default(),
            holding: Holding::default(),
            lanes: Lanes::new(Arc::clone(&self.hands), self.session.inputs.clone()),
            disk: DiskState::Roomy,
            ephemeral_disks: EphemeralDisks::default(),
            watermarks: VecDeque::new(),
            shell: self,
        };
        let journal_news = Arc::clone(&running.shell.journal_news);
        let count = running.servers.count();
        let now = running.shell.clock.now();
        running.shell.core.set_servers(count, now);
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
                // The drain that follows looks at the journal.
                () = journal_news.notified() => {}
                () = tokio::time::sleep_until(timer) => {}
            }
            running.on_time();
            running.drain()?;
        }
    }
}

impl Running {
    fn timer(&self) -> tokio::time::Instant {
        let now = self.shell.clock.moment();
        let idle = Duration::from_secs(3600);
        let wait = self
            .shell
            .core
            .poll_timeout()
            .map_or(idle, |at| at.since(now));
        tokio::time::Instant::now() + wait
    }

    fn on_time(&mut self) {
        let now = self.shell.clock.now();
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
        let now = self.shell.clock.now();
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
                let event = self.servers.heard(event, servers);
                if let SessionEvent::Disconnected { .. } = event {
                    self.end_link(attempt);
                }
                self.shell
                    .core
                    .on_event(Event::Session { attempt, event }, now);
            }
            Input::Keeper(news) => self.keeper_said(news),
            Input::LaneDone {
                lane,
                interruptible,
            } => self.lanes.done(&lane, interruptible.as_ref()),
            Input::Looked(found) => self.looked(found),
            Input::Reconfigured(config) => self.reconfigured(&config),
            Input::DiskMeasured(measured) => self.disk_measured(measured),
            Input::DisksMeasured(sizes) => self.disks_measured(&sizes),
            Input::OomKills(runs) => self.killed_for_memory(runs),
            Input::Ask(question) => self.answer(question),
        }
    }

    /// Executes, or holds back, everything that the core asks for.
    fn drain(&mut self) -> Result<(), ShellError> {
        let mut issued = self.journal_and_collect()?;
        self.tell_of_durable();
        let watermark = self.shell.core.watermark();
        self.shell.session.queries.set_index(watermark.index);
        loop {
            if issued
                .iter()
                .any(|issued| issued.waits_for_a_write(self.shell.journal.progress()))
            {
                self.shell.journal.wait_written();
            }
            let progress = self.shell.journal.progress();
            for effect in self.holding.release(progress) {
                if let Some((class, seq)) = batch_of(&effect) {
                    let now = self.shell.clock.now();
                    self.shell.core.on_batch_sent(class, seq, now);
                }
                self.execute(effect);
            }
            for issued in issued {
                match self.holding.admit(issued, progress) {
                    Some(effect) => self.execute(effect),
                    None => self.tell_of_held(),
                }
            }
            // A link that is full ends the connection, and the core hears of it at once.
            issued = self.journal_and_collect()?;
            if issued.is_empty() {
                break;
            }
        }
        if self.holding.waits_for_a_sync() {
            self.shell.journal.request_sync();
        }
        if self.shell.journal.wants_compaction() {
            let records = self.shell.core.journal_snapshot();
            self.shell.journal.compact(records);
        }
        Ok(())
    }

    /// The core waits for the answer to a batch for so long, and not while nobody has it.
    fn tell_of_held(&mut self) {
        if let Some((class, seq)) = self.holding.newest().and_then(batch_of) {
            self.shell.core.on_batch_held(class, seq);
        }
    }

    /// The watermarks that are on the disk by now.
    fn tell_of_durable(&mut self) {
        let synced = self.shell.journal.progress().synced;
        while let Some((number, at)) = self.watermarks.front().copied()
            && number <= synced
        {
            self.watermarks.pop_front();
            self.shell.core.on_durable(at);
        }
    }

    /// Hands what is to be journaled to the journal, as one group; the other effects know what was
    /// issued before them.
    fn journal_and_collect(&mut self) -> Result<Vec<Issued>, ShellError> {
        let (core, journal) = (&mut self.shell.core, &mut self.shell.journal);
        let mut issued = Vec::new();
        while let Some(noded_core::Issued { needs, effect }) = core.poll_effect() {
            if let Effect::Append(record) = &effect {
                let number = journal.append(record).map_err(ShellError::Journal)?;
                if let JournalRecord::Watermark { at } = record {
                    self.watermarks.push_back((number, *at));
                }
                continue;
            }
            issued.push(Issued {
                needs,
                record: journal.issued(),
                effect,
            });
        }
        journal.hand_over().map_err(ShellError::Journal)?;
        Ok(issued)
    }

    fn execute(&mut self, effect: Effect) {
        tracing::trace!(lane = ?effect.lane(), "effect");
        match effect {
            Effect::Append(_) => {}
            Effect::Connect { attempt, server } => self.connect(attempt, server),
            Effect::Disconnect { attempt, reason } => {
                if self.end_link(attempt) {
                    tracing::info!(%reason, "ending the session");
                }
            }
            Effect::OpenWatch { attempt, known } => {
                self.send(attempt, Outbound::OpenWatch { known });
            }
            Effect::Send { attempt, message } => {
                self.send(attempt, Outbound::Message(message));
            }
            Effect::TendLeases { extend, end } => self.lanes.tend_leases(extend, end),
            effect @ (Effect::PrepareAlloc { .. }
            | Effect::RetireAlloc { .. }
            | Effect::DestroyAlloc { .. }
            | Effect::PrepareTask(_)
            | Effect::CancelPrepare { .. }
            | Effect::StartTask(_)
            | Effect::StopTask { .. }
            | Effect::KillTask { .. }
            | Effect::SignalTask { .. }
            | Effect::FollowTemplates(_)
            | Effect::RenderTemplates(_)
            | Effect::FollowIdentities(_)
            | Effect::RunChangeScript(_)
            | Effect::ReleaseRun { .. }) => self.lanes.enqueue(effect),
        }
    }

    fn connect(&mut self, attempt: Attempt, server: ServerChoice) {
        let target = Target::of(&server);
        if target.purpose == Purpose::Session {
            self.holding.forget_before(attempt);
            self.links.end_all();
            // A healthy disk is done before there is a connection to greet on.
            self.shell.journal.request_sync();
        }
        let other = server.apart_from;
        let apart_from = other.and_then(|other| self.links.address_of(other));
        let Some(address) = self.servers.choose(server.offset, apart_from) else {
            return self.lost(attempt, "there is no such server".to_owned());
        };
        tracing::debug!(%address, ?target, "connecting");
        let link = Link::start(&self.shell.session, attempt, address.clone(), target);
        self.links.begin(link, address);
    }

    fn send(&mut self, attempt: Attempt, message: Outbound) {
        let sent = self.links.of(attempt).map(|link| link.send(message));
        if let Some(Err(full)) = sent {
            self.end_link(attempt);
            self.lost(attempt, full.to_string());
        }
    }

    /// Ends a connection, and forgets what still waits to be said on it.
    fn end_link(&mut self, attempt: Attempt) -> bool {
        self.holding.forget(attempt);
        let left = self.links.end(attempt);
        let ended = left.is_some();
        left.into_iter()
            .for_each(|address| self.servers.left(address));
        ended
    }

    fn lost(&mut self, attempt: Attempt, reason: String) {
        let ending = Ending::Otherwise;
        let event = SessionEvent::Disconnected { reason, ending };
        let event = Event::Session { attempt, event };
        let now = self.shell.clock.now();
        self.shell.core.on_event(event, now);
    }
}

/// Which batch an effect sends, where it sends one.
fn batch_of(effect: &Effect) -> Option<(UpdateClass, u64)> {
    match effect {
        Effect::Send {
            message: SessionMessage::StatusBatch(batch),
            ..
        } => Some((batch.class, batch.seq)),
        _ => None,
    }
}
