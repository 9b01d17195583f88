//! The clocks of the machines: all of them tell the runtime's time, and each may be off.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
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

/// One machine's clocks.
#[derive(Debug)]
pub struct SimClock {
    begun: Instant,
    skew: AtomicI64,
    /// When the machine was switched on, in nanoseconds of the run.
    booted: AtomicU64,
}

impl SimClock {
    /// Clocks of a machine in a run that began at `begun`.
    pub fn new(begun: Instant) -> Self {
        Self {
            begun,
            skew: AtomicI64::new(0),
            booted: AtomicU64::new(0),
        }
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
        Moment(BOOT + self.begun.elapsed().saturating_sub(booted))
    }

    fn wall(&self) -> UnixNanos {
        self.tell()
    }
}
