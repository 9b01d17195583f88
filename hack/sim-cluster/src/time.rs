//! The clocks of the machines: all of them tell the runtime's time, and each may be off.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use controlplane_server::clock::WallClock;
use noded_core::Moment;
use noded_daemon::clock::Clock;
use protocol_model::UnixNanos;
use tokio::time::Instant;

/// What every wall clock says when a run begins, give or take its skew.
const WALL_AT_START: i64 = 1_700_000_000_000_000_000;

/// How long a host is up when its daemon starts.
const BOOT: Duration = Duration::from_secs(20);

/// How often, in seconds, the clock of a host jumps that has the planted bug, and how far: longer
/// than a lease.
const JUMP_EVERY: u64 = 15;
const JUMP: Duration = Duration::from_secs(8);

/// One machine's clocks.
#[derive(Debug)]
pub struct SimClock {
    begun: Instant,
    skew: AtomicI64,
    /// When the machine was switched on, in nanoseconds of the run.
    booted: AtomicU64,
    /// A planted bug: whether the time since then jumps ahead, every so often.
    jumps: AtomicBool,
}

impl SimClock {
    /// Clocks of a machine in a run that began at `begun`.
    pub fn new(begun: Instant) -> Self {
        Self {
            begun,
            skew: AtomicI64::new(0),
            booted: AtomicU64::new(0),
            jumps: AtomicBool::new(false),
        }
    }

    /// Plants the bug.
    pub fn set_jumps(&self) {
        self.jumps.store(true, Ordering::Relaxed);
    }

    /// The machine is switched off and on.
    pub fn reboot(&self) {
        let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.booted.store(now, Ordering::Relaxed);
    }

    /// Sets the wall clock forward, or back.
    pub fn jump(&self, nanos: i64) {
        self.skew.fetch_add(nanos, Ordering::Relaxed);
    }

    fn tell(&self) -> UnixNanos {
        let elapsed = i64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let skew = self.skew.load(Ordering::Relaxed);
        UnixNanos(WALL_AT_START.saturating_add(elapsed).saturating_add(skew))
    }
}

impl WallClock for SimClock {
    fn now(&self) -> UnixNanos {
        self.tell()
    }
}

impl Clock for SimClock {
    fn moment(&self) -> Moment {
        let booted = Duration::from_nanos(self.booted.load(Ordering::Relaxed));
        let up = self.begun.elapsed().saturating_sub(booted);
        let ahead = match self.jumps.load(Ordering::Relaxed) {
            true => JUMP * u32::try_from(up.as_secs() / JUMP_EVERY).unwrap_or(0),
            false => Duration::ZERO,
        };
        Moment(BOOT + up + ahead)
    }

    fn wall(&self) -> UnixNanos {
        self.tell()
    }
}
