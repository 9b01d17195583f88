//! A state in this process, to which commands are applied without a log.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use controlplane_state::{Command, Outcome, Snapshot, Stamped, State};
use protocol_model::{Incarnation, UnixNanos};

/// See the top of this file.
pub(super) struct InMemory {
    state: State,
    index: u64,
    /// All commands have the time at which it was made: a server that restores it finds nothing
    /// that is old enough to be collected.
    now: UnixNanos,
}

impl InMemory {
    /// An initialized cluster without nodes.
    ///
    /// # Errors
    /// If the host's clock is before 1970.
    pub(super) fn new() -> anyhow::Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut cluster = Self {
            state: State::new(),
            index: 0,
            now: UnixNanos(i64::try_from(since.as_nanos())?),
        };
        let incarnation = Incarnation::from_u128(1);
        cluster.apply(Command::ClusterInit { incarnation })?;
        Ok(cluster)
    }

    pub(super) fn now(&self) -> UnixNanos {
        self.now
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// Applies one command.
    ///
    /// # Errors
    /// If it is refused.
    pub(super) fn apply(&mut self, command: Command) -> anyhow::Result<Outcome> {
        self.index += 1;
        let stamped = Stamped {
            now: self.now,
            seed: u128::from(self.index).to_be_bytes(),
            command,
        };
        match self.state.apply(self.index, stamped).outcome {
            Outcome::Refused(refusal) => bail!("refused: {refusal}"),
            outcome => Ok(outcome),
        }
    }
}

/// The processor time that this thread has used.
///
/// # Errors
/// If the kernel does not count it.
pub(super) fn cpu_time() -> anyhow::Result<Duration> {
    // The kernel adds up what the running thread used when it may switch, otherwise only by ticks.
    std::thread::yield_now();
    let path = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let nanos = text.split_whitespace().next().map(str::parse);
    let nanos = nanos.with_context(|| format!("nothing in {path}"))??;
    Ok(Duration::from_nanos(nanos))
}
