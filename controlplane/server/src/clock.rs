//! The wall clock, which is stamped on what is logged and is another machine's on another server.
//! Spans within a server are tokio's time, which a simulator's runtime moves by itself.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use protocol_model::UnixNanos;

/// What tells a server the time of day.
pub trait WallClock: Debug + Send + Sync {
    /// Now.
    fn now(&self) -> UnixNanos;
}

/// The host's.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostClock;

impl WallClock for HostClock {
    /// One before 1970 reads as 1970.
    fn now(&self) -> UnixNanos {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        UnixNanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}
