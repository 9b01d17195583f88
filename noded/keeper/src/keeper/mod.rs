//! keeper: one process per host that is the parent of every task, and outlives noded.
//!
//! ```text
//!   socket --> session --> requests --+            +--> effects --> cgroup, records, session
//!   signalfd (SIGCHLD) --> reaping ---+-> custody -+
//!   report pipes, cgroup.events, -----+   (pure)
//!   pidfds of adopted runs, clock ----+
//! ```
//!
//! One thread, one poll, no configuration, no disk beyond the runtime tmpfs. It takes no decision
//! of its own: even the time after which a stopped task is killed was given to it.
//!
//! An upgrade in place (state in a sealed memfd, execve, `--check-state`) will enter through
//! [`recovery`], which already rebuilds everything from records.

mod cgroup;
mod custody;
mod effects;
mod observe;
mod process;
mod records;
mod recovery;
mod requests;
mod session;
mod spawn;
mod streams;

use crate::lock::{Lock, LockError};
use crate::paths::{PathsError, RuntimePaths, open_directory};
use crate::protocol::{TaskKey, UnixNanos, VersionRange};
use crate::report::tell;
use crate::signals::{self, SignalsError};
use cgroup::CgroupBase;
use custody::{BootNanos, Custody, Now};
use nix::sys::signalfd::SignalFd;
use records::Records;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::time::{ClockId, Timespec, clock_gettime};
use session::Session;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;
use streams::LingeringStreams;

/// The plan steps that this keeper applies.
pub const STEP_VERSIONS: VersionRange = VersionRange {
    lowest: isolation::PLAN_VERSION,
    highest: isolation::PLAN_VERSION,
};

const EVENTS_MAX: usize = 256;
/// Only one client counts; a few may be on their way while they replace each other.
const BACKLOG: i32 = 8;
/// Descriptors for everything but runs: sockets, lingering streams, a packet's descriptors.
const OWN_FILES: u64 = 256 + streams::LINGERING_MAX as u64;
/// pidfd, two FIFOs, and for a moment a report or a watch.
const FILES_PER_RUN: u64 = 4;
/// How often lingering streams are looked at.
const TICK: BootNanos = BootNanos(1_000_000_000);

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const CLIENT: u64 = 2;
/// Tokens of runs: number * 4 + [`Watch`].
const FIRST_RUN: u64 = 16;

/// Why keeper could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("the runtime directory cannot be used")]
    Paths(#[source] PathsError),
    #[error("keeper is already running, or its lock cannot be taken")]
    Lock(#[source] LockError),
    #[error("cgroup base {} cannot be used (it must be a directory of cgroup v2)", .path.display())]
    CgroupBase {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("signals cannot be read")]
    Signals(#[source] SignalsError),
    #[error("keeper cannot become the reaper of its descendants")]
    Subreaper(#[source] Errno),
    #[error("socket {} cannot be listened on", .path.display())]
    Listen {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("epoll cannot be used")]
    Poll(#[source] Errno),
    #[error("the records of earlier runs cannot be read")]
    Records(#[source] Errno),
    #[error("keeper is caught in a foreign process id namespace")]
    ForeignNamespace(#[source] isolation::SpawnError),
}

/// Whether the loop goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    Continue,
    End,
}

/// What a run's descriptor in the poll is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    Report = 0,
    Tree = 1,
    Adopted = 2,
}

/// The descriptors of one run; what they mean is in [`Custody`].
#[derive(Debug)]
struct Handles {
    number: u64,
    pidfd: Option<OwnedFd>,
    report: Option<OwnedFd>,
    tree: Option<OwnedFd>,
    streams: Vec<OwnedFd>,
    oom_kills_at_start: Option<u64>,
    /// Kept until the program runs, to put a failed step into words.
    plan: Option<isolation::Plan>,
    /// An adopted main process has ended; until then its status is waited for.
    status_until: Option<BootNanos>,
}

impl Handles {
    fn new(number: u64) -> Self {
        Self {
            number,
            pidfd: None,
            report: None,
            tree: None,
            streams: Vec::new(),
            oom_kills_at_start: None,
            plan: None,
            status_until: None,
        }
    }
}

#[derive(Debug)]
struct Keeper {
    paths: RuntimePaths,
    base: CgroupBase,
    io_directory: OwnedFd,
    records: Records,
    epoll: OwnedFd,
    signals: SignalFd,
    listener: OwnedFd,
    session: Option<Session>,
    custody: Custody,
    handles: BTreeMap<TaskKey, Handles>,
    by_number: BTreeMap<u64, TaskKey>,
    /// Our own children that are main processes.
    by_pid: BTreeMap<i32, TaskKey>,
    lingering: LingeringStreams,
    next_number: u64,
    next_tick: BootNanos,
}

/// Runs keeper until a `Shutdown` request without runs, or SIGTERM. Tasks go on after either; the
/// next keeper takes them over.
///
/// # Errors
/// Where it cannot start: another keeper runs, the runtime directory or the cgroup base is
/// unusable.
pub fn run(paths: &RuntimePaths, cgroup_base: &Path) -> Result<(), KeeperError> {
    paths.create().map_err(KeeperError::Paths)?;
    let _lock = Lock::take(&paths.keeper_lock()).map_err(KeeperError::Lock)?;
    crate::limits::name_process(c"drover-keeper");
    let open_files = crate::limits::raise_open_files("keeper");
    let signals = signals::termination_and_children().map_err(KeeperError::Signals)?;
    let own_pid = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own_pid)).map_err(KeeperError::Subreaper)?;
    let base = CgroupBase::open(cgroup_base).map_err(|source| KeeperError::CgroupBase {
        path: cgroup_base.to_owned(),
        source,
    })?;
    let io_directory = open_directory(&paths.io_directory()).map_err(KeeperError::Paths)?;
    let records = open_directory(&paths.records_directory()).map_err(KeeperError::Paths)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(KeeperError::Poll)?;
    let add = |fd: std::os::fd::BorrowedFd<'_>, token| {
        epoll::add(&epoll, fd, EventData::new_u64(token), EventFlags::IN).map_err(KeeperError::Poll)
    };
    add(signals.as_fd(), SIGNALS)?;
    let listener = listen_at(&paths.socket()).map_err(|source| KeeperError::Listen {
        path: paths.socket(),
        source,
    })?;
    add(listener.as_fd(), LISTENER)?;
    let mut keeper = Keeper {
        paths: paths.clone(),
        base,
        io_directory,
        records: Records::new(records),
        epoll,
        signals,
        listener,
        session: None,
        custody: Custody::new(runs_within(open_files)),
        handles: BTreeMap::new(),
        by_number: BTreeMap::new(),
        by_pid: BTreeMap::new(),
        lingering: LingeringStreams::default(),
        next_number: FIRST_RUN,
        next_tick: BootNanos(0),
    };
    keeper.recover()?;
    tell!("keeper: ready, {} runs known", keeper.custody.run_count());
    keeper.serve()
}

impl Keeper {
    fn serve(&mut self) -> Result<(), KeeperError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            events.clear();
            let timeout = self.timeout(now().boot);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(KeeperError::Poll(errno)),
            }
            for event in &events {
                if self.on_event(event.data.u64(), event.flags)? == Course::End {
                    self.close();
                    return Ok(());
                }
            }
            self.on_time(now());
        }
    }

    fn on_event(&mut self, token: u64, flags: EventFlags) -> Result<Course, KeeperError> {
        match token {
            LISTENER => self.accept(),
            SIGNALS => return self.on_signal(),
            CLIENT => return self.on_client(flags),
            _ => self.on_run_event(token, flags),
        }
        Ok(Course::Continue)
    }

    fn on_signal(&mut self) -> Result<Course, KeeperError> {
        use nix::sys::signal::Signal;
        let mut course = Course::Continue;
        while let Some(signal) = signals::take(&self.signals).map_err(KeeperError::Signals)? {
            if signal == Signal::SIGCHLD {
                continue;
            }
            tell!(
                "keeper: asked to end; {} runs go on without it",
                self.custody.run_count()
            );
            course = Course::End;
        }
        self.reap();
        Ok(course)
    }

    fn on_time(&mut self, now: Now) {
        let effects = self.custody.on_time(now);
        self.execute(effects, now);
        self.give_up_on_statuses(now);
        if now.boot >= self.next_tick {
            self.next_tick = now.boot.plus(TICK);
            self.lingering.tick(now.boot);
        }
    }

    fn timeout(&self, now: BootNanos) -> Option<Timespec> {
        let status = self
            .handles
            .values()
            .filter_map(|handles| handles.status_until)
            .min();
        let tick = (!self.lingering.is_empty()).then_some(self.next_tick);
        let next = [self.custody.next_deadline(), status, tick]
            .into_iter()
            .flatten()
            .min()?;
        let left = Duration::from_nanos(next.0.saturating_sub(now.0));
        Timespec::try_from(left).ok()
    }

    /// The newest client wins: it is a noded that was started anew, or it would not connect.
    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = accept_with(&self.listener, flags) else {
            return;
        };
        let own = rustix::process::geteuid();
        match rustix::net::sockopt::socket_peercred(&socket) {
            Ok(peer) if peer.uid == own => {}
            Ok(_) | Err(_) => return tell!("keeper: a client of another user was turned away"),
        }
        let token = EventData::new_u64(CLIENT);
        self.session = None;
        match epoll::add(&self.epoll, &socket, token, EventFlags::IN) {
            Ok(()) => self.session = Some(Session::new(socket)),
            Err(errno) => tell!("keeper: a client cannot be polled: {errno}"),
        }
    }

    /// Removes the socket, so that a client finds nobody instead of waiting.
    fn close(&mut self) {
        self.session = None;
        let _ = rustix::fs::unlink(self.paths.socket());
    }
}

/// How many runs the limit of open files allows, with enough left to accept a client and to start
/// one more.
fn runs_within(open_files: u64) -> usize {
    let runs = open_files.saturating_sub(OWN_FILES) / FILES_PER_RUN;
    usize::try_from(runs)
        .unwrap_or(usize::MAX)
        .min(custody::RUNS_MAX)
}

/// Both clocks. CLOCK_BOOTTIME and CLOCK_REALTIME are never negative.
fn now() -> Now {
    let nanos = |clock| {
        let time = clock_gettime(clock);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
    };
    Now {
        boot: BootNanos(nanos(ClockId::Boottime)),
        wall: UnixNanos(nanos(ClockId::Realtime)),
    }
}

/// The lock is held, so a socket that is there belongs to a keeper that died.
fn listen_at(path: &Path) -> Result<OwnedFd, Errno> {
    match rustix::fs::unlink(path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
