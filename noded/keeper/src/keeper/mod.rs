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
//! It ends in one of three ways: by a request or SIGTERM (tasks go on, and [`recovery`] finds them
//! again), by a crash (the same), or by becoming another program ([`handover`]).

mod cgroup;
mod custody;
mod effects;
pub mod formats;
mod handover;
mod observe;
mod orphans;
mod process;
mod records;
mod recovery;
mod requests;
mod session;
mod sockets;
mod spawn;
mod streams;
mod timer;
mod turn;

use crate::lock::{Lock, LockError};
use crate::paths::{PathsError, RuntimePaths, open_directory};
use crate::protocol::{BootNanos, TaskKey, VersionRange};
use crate::report::tell;
use crate::signals::{self, SignalsError};
use cgroup::CgroupBase;
pub use cgroup::is_base_used;
use custody::Custody;
pub use handover::check_state;
use handover::{Check, inherit};
use nix::sys::signalfd::SignalFd;
use records::Records;
pub use recovery::unfinished_cgroups;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use session::Session;
use sockets::HeldSockets;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use streams::LingeringStreams;
use timer::{Timer, now};

/// The plan steps that this keeper applies.
pub const STEP_VERSIONS: VersionRange = VersionRange {
    lowest: *isolation::PLAN_VERSIONS.start(),
    highest: *isolation::PLAN_VERSIONS.end(),
};

/// Asks the program whether it understands the state on its standard input.
pub const CHECK_STATE: &str = "--check-state";
/// Given to the program that keeper becomes: the inherited descriptor of its state.
pub const TAKE_OVER: &str = "--take-over";

/// Only one client counts; a few may be on their way while they replace each other.
const BACKLOG: i32 = 8;
/// Descriptors for everything but runs: sockets, lingering streams, a packet's descriptors.
const OWN_FILES: u64 = 256 + streams::LINGERING_MAX as u64;
/// pidfd, two FIFOs, the task's socket, and for a moment a report or a watch.
const FILES_PER_RUN: u64 = 5;

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const CLIENT: u64 = 2;
const TIMER: u64 = 3;
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
    #[error("the timer cannot be used")]
    Timer(#[source] Errno),
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
    cgroup_base: PathBuf,
    lock: Lock,
    base: CgroupBase,
    io_directory: OwnedFd,
    records: Records,
    epoll: OwnedFd,
    timer: Timer,
    signals: SignalFd,
    listener: OwnedFd,
    session: Option<Session>,
    custody: Custody,
    handles: BTreeMap<TaskKey, Handles>,
    by_number: BTreeMap<u64, TaskKey>,
    /// Our own children that are main processes.
    by_pid: BTreeMap<i32, TaskKey>,
    lingering: LingeringStreams,
    sockets: HeldSockets,
    /// A program that is asked whether it could go on from here.
    check: Option<Check>,
    next_number: u64,
    next_tick: BootNanos,
}

/// Where a keeper begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beginning {
    /// From the records of the one before, if there was one.
    Records,
    /// From what this process held when it was another program: the sealed memory file behind this
    /// inherited descriptor.
    State(RawFd),
}

/// Runs keeper until a `Shutdown` request without runs, or SIGTERM. Tasks go on after either; the
/// next keeper takes them over.
///
/// # Errors
/// Where it cannot start: another keeper runs, the runtime directory or the cgroup base is
/// unusable.
pub fn run(
    paths: &RuntimePaths,
    cgroup_base: &Path,
    beginning: Beginning,
) -> Result<(), KeeperError> {
    let inheritance = match beginning {
        Beginning::Records => None,
        Beginning::State(memfd) => inherit(memfd),
    };
    paths.create().map_err(KeeperError::Paths)?;
    crate::limits::name_process(c"drover-keeper");
    let (lock, listener, left) = match inheritance {
        Some(inherited) => (
            inherited.lock,
            Some(inherited.listener),
            Some(inherited.left),
        ),
        None => {
            let lock = Lock::take(&paths.keeper_lock()).map_err(KeeperError::Lock)?;
            (lock, None, None)
        }
    };
    let signals = signals::termination_and_children().map_err(KeeperError::Signals)?;
    let own_pid = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own_pid)).map_err(KeeperError::Subreaper)?;
    let open_files = crate::limits::raise_open_files("keeper");
    let mut keeper = Keeper::new(paths, cgroup_base, lock, listener, signals, open_files)?;
    match left {
        Some((state, descriptors)) => keeper.go_on(state, descriptors),
        None => keeper.recover()?,
    }
    // Only after recovery, which wants it alone.
    if let Err(errno) = keeper.base.share() {
        tell!("keeper: its cgroup base cannot be locked against other keepers: {errno}");
    }
    tell!("keeper: ready, {} runs known", keeper.custody.run_count());
    crate::report::ready("keeper");
    keeper.serve()
}

impl Keeper {
    fn new(
        paths: &RuntimePaths,
        cgroup_base: &Path,
        lock: Lock,
        listener: Option<OwnedFd>,
        signals: SignalFd,
        open_files: u64,
    ) -> Result<Self, KeeperError> {
        let base = CgroupBase::open(cgroup_base).map_err(|source| KeeperError::CgroupBase {
            path: cgroup_base.to_owned(),
            source,
        })?;
        let io_directory = open_directory(&paths.io_directory()).map_err(KeeperError::Paths)?;
        let records = open_directory(&paths.records_directory()).map_err(KeeperError::Paths)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(KeeperError::Poll)?;
        let timer = Timer::new().map_err(KeeperError::Timer)?;
        let listener = match listener {
            Some(listener) => listener,
            None => listen_at(&paths.socket()).map_err(|source| KeeperError::Listen {
                path: paths.socket(),
                source,
            })?,
        };
        for (descriptor, token) in [
            (signals.as_fd(), SIGNALS),
            (listener.as_fd(), LISTENER),
            (timer.as_fd(), TIMER),
        ] {
            epoll::add(
                &epoll,
                descriptor,
                EventData::new_u64(token),
                EventFlags::IN,
            )
            .map_err(KeeperError::Poll)?;
        }
        let runs_max = runs_within(open_files);
        Ok(Self {
            paths: paths.clone(),
            cgroup_base: cgroup_base.to_owned(),
            lock,
            base,
            io_directory,
            records: Records::new(records),
            epoll,
            timer,
            signals,
            listener,
            session: None,
            custody: Custody::new(runs_max),
            handles: BTreeMap::new(),
            by_number: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            lingering: LingeringStreams::default(),
            sockets: HeldSockets::new(runs_max),
            check: None,
            next_number: FIRST_RUN,
            next_tick: BootNanos(0),
        })
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
