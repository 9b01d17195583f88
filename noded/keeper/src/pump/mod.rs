//! pump: one process per host that moves all task output from FIFOs to rotated files.
//!
//! ```text
//!  io directory --inotify--> directory ---> streams <--bytes-- engine (io_uring, or epoll)
//!                                             |
//!                                             +--> log (files, full disk) <--> rotation (pure)
//! ```
//!
//! It keeps no state of its own but the counts of dropped bytes that no log has told yet, which are
//! in the io directory too: a new pump reads that and the sizes of the newest files and goes on.

mod directory;
mod dropped;
mod engine;
mod epoll;
mod log;
mod retirement;
mod ring;
pub mod rotation;
mod streams;

use crate::lock::{Lock, LockError};
use crate::paths::{PathsError, RuntimePaths};
use crate::report::tell;
use crate::signals::{self, SignalsError};
use directory::IoDirectory;
use engine::Engine;
use rustix::event::epoll as control_poll;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use streams::Streams;

pub use engine::EngineChoice;

/// How often that which failed is tried again.
const TICK: Duration = Duration::from_secs(1);
/// After how long an unused log file is closed (between one and two of these).
const SWEEP: Duration = Duration::from_secs(10);

/// Why pump could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum PumpError {
    #[error("the runtime directory cannot be used")]
    Paths(#[source] PathsError),
    #[error("pump is already running, or its lock cannot be taken")]
    Lock(#[source] LockError),
    #[error("signals cannot be read")]
    Signals(#[source] SignalsError),
    #[error("io directory {} cannot be watched", .path.display())]
    Directory {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("the control descriptor cannot be made")]
    Control(#[source] Errno),
    #[error("the engine cannot be made")]
    Engine(#[source] Errno),
    #[error("the engine failed")]
    Turn(#[source] Errno),
}

/// Runs pump until SIGTERM or SIGINT. What tasks wrote until then is in the files.
///
/// # Errors
/// Where it cannot start, or the engine fails as a whole.
pub fn run(paths: &RuntimePaths, choice: EngineChoice) -> Result<(), PumpError> {
    paths.create().map_err(PumpError::Paths)?;
    let _lock = Lock::take(&paths.pump_lock()).map_err(PumpError::Lock)?;
    crate::limits::name_process(c"drover-pump");
    crate::limits::raise_open_files("pump");
    let signals = signals::termination().map_err(PumpError::Signals)?;
    let path = paths.io_directory();
    let directory = IoDirectory::open(&path).map_err(|source| PumpError::Directory {
        path: path.clone(),
        source,
    })?;
    let control = control(&directory, &signals).map_err(PumpError::Control)?;
    let mut engine = engine::build(choice, control.as_fd()).map_err(PumpError::Engine)?;
    let own =
        rustix::io::fcntl_dupfd_cloexec(directory.directory(), 3).map_err(PumpError::Control)?;
    let mut streams = Streams::new(own);
    let scanned = directory.scan().map_err(|source| PumpError::Directory {
        path: path.clone(),
        source,
    })?;
    streams.apply(scanned, engine.as_mut());
    tell!(
        "pump: reading {} streams with {}",
        streams.count(),
        engine.name()
    );
    crate::report::ready("pump");
    let mut clocks = Clocks::new(Instant::now());
    loop {
        let timeout = clocks.timeout(&streams, Instant::now());
        engine
            .turn(timeout, &mut streams)
            .map_err(PumpError::Turn)?;
        streams.after_turn(engine.as_mut());
        if streams.take_control_ready() {
            if signals::take(&signals)
                .map_err(PumpError::Signals)?
                .is_some()
            {
                tell!("pump: asked to end");
                return finish(engine.as_mut(), &mut streams);
            }
            let changes = directory.changes().map_err(|source| PumpError::Directory {
                path: path.clone(),
                source,
            })?;
            streams.apply(changes, engine.as_mut());
        }
        clocks.run_due(&mut streams, engine.as_mut(), Instant::now());
    }
}

/// Delivers what was already read, and the notes about dropped bytes.
fn finish(engine: &mut dyn Engine, streams: &mut Streams) -> Result<(), PumpError> {
    engine
        .turn(Some(Duration::ZERO), streams)
        .map_err(PumpError::Turn)?;
    streams.after_turn(engine);
    streams.tick(engine);
    Ok(())
}

fn control(
    directory: &IoDirectory,
    signals: &nix::sys::signalfd::SignalFd,
) -> Result<OwnedFd, Errno> {
    use control_poll::{CreateFlags, EventData, EventFlags};
    let control = control_poll::create(CreateFlags::CLOEXEC)?;
    control_poll::add(
        &control,
        directory.inotify(),
        EventData::new_u64(0),
        EventFlags::IN,
    )?;
    control_poll::add(
        &control,
        signals.as_fd(),
        EventData::new_u64(1),
        EventFlags::IN,
    )?;
    Ok(control)
}

/// When the periodic work is due; none of it is when no stream wants it, and then pump sleeps.
#[derive(Debug)]
struct Clocks {
    tick_at: Instant,
    sweep_at: Instant,
}

impl Clocks {
    fn new(now: Instant) -> Self {
        Self {
            tick_at: now + TICK,
            sweep_at: now + SWEEP,
        }
    }

    fn timeout(&self, streams: &Streams, now: Instant) -> Option<Duration> {
        let tick = streams.wants_tick().then_some(self.tick_at);
        let sweep = streams.wants_sweep().then_some(self.sweep_at);
        let next = tick.into_iter().chain(sweep).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn run_due(&mut self, streams: &mut Streams, engine: &mut dyn Engine, now: Instant) {
        if now >= self.tick_at {
            self.tick_at = now + TICK;
            streams.tick(engine);
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP;
            streams.sweep();
        }
    }
}
