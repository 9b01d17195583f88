//! Everything that a keeper knows and holds, as data.

use crate::keeper::custody::Run;
use crate::protocol::{AllocAndTask, BootNanos, CallId, TaskKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::fd::RawFd;

/// Larger states are not handed over: keeper goes on as it is. All runs and floors together are
/// some 20 MiB at most.
pub(crate) const STATE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Begins a state without sockets; the number is its version. Programs of the release before read
/// it. A static, so that one place of the program holds it.
static BEGINNING: [u8; 31] = *b"drover keeper state, version 1\n";
/// Begins a state with sockets, which follow all else.
static BEGINNING_WITH_SOCKETS: [u8; 31] = *b"drover keeper state, version 2\n";

const VERSION_AT: usize = 29;

/// Why bytes are no state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error(
        "this is no state of version {} or {}",
        char::from(BEGINNING[VERSION_AT]),
        char::from(BEGINNING_WITH_SOCKETS[VERSION_AT])
    )]
    Version,
    #[error("the state is cut off")]
    Short,
    #[error("the checksum of the state does not match")]
    Checksum,
    #[error("the state cannot be encoded")]
    Encode(#[source] postcard::Error),
    #[error("the state cannot be decoded")]
    Decode(#[source] postcard::Error),
    #[error("{bytes} bytes follow the state")]
    TrailingBytes { bytes: usize },
    #[error("the state says that it has sockets, and has none")]
    NoSockets,
    #[error("descriptor {number} is named twice")]
    Twice { number: RawFd },
    #[error("the state has {bytes} bytes, at most {STATE_BYTES_MAX} are handed over")]
    TooLarge { bytes: usize },
}

/// What is handed over. Descriptors are numbers in the process, which stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) lock: RawFd,
    pub(crate) listener: RawFd,
    pub(crate) session: Option<SessionState>,
    pub(crate) runs: Vec<RunState>,
    /// The one that changed longest ago first.
    pub(crate) floors: Vec<TaskKey>,
    pub(crate) leases: Vec<LeaseState>,
    pub(crate) lingering: Vec<LingeringState>,
    /// From version 2 on.
    #[serde(skip)]
    pub(crate) held: Vec<HeldState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionState {
    pub(crate) socket: RawFd,
    /// What was agreed on; `None` before the greeting.
    pub(crate) protocol: Option<u32>,
    /// Packets that the client has not taken yet.
    pub(crate) queue: Vec<Vec<u8>>,
    /// The request to upgrade, where this client made it and waits.
    pub(crate) call: Option<CallId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunState {
    pub(crate) key: TaskKey,
    pub(crate) run: Run,
    /// The main process, where it is this process's own child and was not reaped yet.
    pub(crate) child: Option<i32>,
    pub(crate) pidfd: Option<RawFd>,
    pub(crate) report: Option<RawFd>,
    pub(crate) streams: Vec<RawFd>,
    pub(crate) oom_kills_at_start: Option<u64>,
    /// As in a spawn request; only until the program runs.
    pub(crate) plan: Option<isolation::Plan>,
    pub(crate) status_until: Option<BootNanos>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaseState {
    pub(crate) alloc: String,
    pub(crate) until: BootNanos,
    pub(crate) recorded: BootNanos,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LingeringState {
    pub(crate) until: BootNanos,
    pub(crate) stream: RawFd,
}

/// The listening socket of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldState {
    pub(crate) owner: AllocAndTask,
    pub(crate) socket: RawFd,
}

impl State {
    /// In the lowest version that can hold it.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, StateError> {
        let beginning = match self.held.is_empty() {
            true => &BEGINNING,
            false => &BEGINNING_WITH_SOCKETS,
        };
        let mut bytes =
            postcard::to_extend(self, beginning.to_vec()).map_err(StateError::Encode)?;
        if !self.held.is_empty() {
            bytes = postcard::to_extend(&self.held, bytes).map_err(StateError::Encode)?;
        }
        let checksum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        if bytes.len() > STATE_BYTES_MAX {
            return Err(StateError::TooLarge { bytes: bytes.len() });
        }
        Ok(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        // First of all: what follows may look different in another version.
        let has_sockets = bytes.starts_with(&BEGINNING_WITH_SOCKETS);
        if !has_sockets && !bytes.starts_with(&BEGINNING) {
            return Err(StateError::Version);
        }
        let (content, checksum) = bytes.split_last_chunk::<4>().ok_or(StateError::Short)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(StateError::Checksum);
        }
        let body = content.get(BEGINNING.len()..).ok_or(StateError::Short)?;
        let (mut state, mut rest) =
            postcard::take_from_bytes::<Self>(body).map_err(StateError::Decode)?;
        if has_sockets {
            (state.held, rest) = postcard::take_from_bytes(rest).map_err(StateError::Decode)?;
            if state.held.is_empty() {
                return Err(StateError::NoSockets);
            }
        }
        if !rest.is_empty() {
            return Err(StateError::TrailingBytes { bytes: rest.len() });
        }
        let mut seen = BTreeSet::new();
        let twice = state.descriptors().find(|number| !seen.insert(*number));
        match twice {
            Some(number) => Err(StateError::Twice { number }),
            None => Ok(state),
        }
    }

    /// Every descriptor that the state names.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let Self {
            lock,
            listener,
            session,
            runs,
            floors: _,
            leases: _,
            lingering,
            held,
        } = self;
        let of_runs = runs.iter().flat_map(|run| {
            let single = [run.pidfd, run.report].into_iter().flatten();
            single.chain(run.streams.iter().copied())
        });
        [*lock, *listener]
            .into_iter()
            .chain(session.iter().map(|session| session.socket))
            .chain(of_runs)
            .chain(lingering.iter().map(|lingering| lingering.stream))
            .chain(held.iter().map(|held| held.socket))
    }
}
