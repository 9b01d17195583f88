//! What noded asks of keeper.

use super::{AllocAndTask, BootNanos, OsSignal, TaskKey, VersionRange};
use serde::{Deserialize, Serialize};

/// What noded asks. Every request gets exactly one [`Response`], except `List`, which gets one or
/// more pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Opens the conversation; anything else before it is refused.
    Hello {
        protocol: VersionRange,
        /// The versions of plan steps that this noded can write.
        steps: VersionRange,
    },
    /// Starts a task. Descriptor 0 of the packet is the sealed memfd that holds the plan
    /// (postcard); the others are named by position.
    Spawn(SpawnRequest),
    /// Sends one signal to the main process.
    Signal {
        key: TaskKey,
        signal: OsSignal,
    },
    /// Sends `signal` to the main process, and kills the whole cgroup when it has not ended
    /// `kill_after_ms` later. A repeat may only bring the deadline nearer.
    Stop {
        key: TaskKey,
        signal: OsSignal,
        kill_after_ms: u64,
    },
    /// Kills the whole cgroup now.
    Kill {
        key: TaskKey,
    },
    /// Asks for every run that keeper knows: starting, running, and ended but not acknowledged.
    List,
    /// The outcome is recorded elsewhere and may be forgotten. Unknown keys succeed, so that a
    /// repeat is harmless.
    Acknowledge {
        key: TaskKey,
    },
    /// No run of this allocation will be asked for again: its highest run epochs may be forgotten,
    /// and the sockets of its tasks are closed.
    Forget {
        alloc: String,
    },
    /// Ends keeper; refused while it knows any run.
    Shutdown,
    Ping,
    /// Becomes the program that descriptor 0 of the packet is open on, with everything that keeper
    /// holds; that program is first asked whether it understands the state. The new keeper answers
    /// with `Welcome`; a refusal means that the old one goes on.
    Upgrade,
    /// Sets until when each of these allocations may run without a further word: at its deadline
    /// keeper kills the allocation's runs by itself, and starts no others. At most
    /// [`super::LEASES_PER_REQUEST_MAX`]; all of them or, with a refusal, none.
    ExtendLeases {
        leases: Vec<Lease>,
    },
    /// This allocation needs no lease any more; its runs go on. Unknown ones succeed.
    EndLease {
        alloc: String,
    },
    /// Holds a copy of the listening Unix stream socket at descriptor 0 of the packet for this
    /// task, in place of an earlier one: connects wait in its queue while noded is away.
    Hold {
        owner: AllocAndTask,
    },
    /// Asks for copies of the sockets that are held for tasks after this one, in their order; they
    /// stay held. Answered with one page, [`super::Response::Held`].
    Take {
        after: Option<AllocAndTask>,
    },
    /// Closes the sockets that are held for this allocation. Unknown ones succeed.
    Drop {
        alloc: String,
    },
}

/// Until when the runs of an allocation may go on without another word from noded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// As in [`TaskKey`].
    pub alloc: String,
    pub until: BootNanos,
}

/// Everything that a start needs besides descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    pub key: TaskKey,
    /// The task's cgroup, relative to keeper's `--cgroup-base`; it must exist and be empty.
    pub cgroup: String,
    pub stdin: StdioSource,
    pub stdout: StdioSource,
    pub stderr: StdioSource,
    /// The position of a network namespace in the packet, where the plan joins one.
    pub network: Option<u8>,
    /// The running task whose namespaces the plan joins, for one more process inside it.
    pub target: Option<TaskKey>,
    /// How long the child may take from clone to exec before its cgroup is killed.
    pub start_timeout_ms: u64,
}

/// Where one of a task's three standard descriptors comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdioSource {
    /// `/dev/null`.
    Null,
    /// A FIFO of this name in the `io` directory; keeper opens it O_RDWR and holds it, so the task
    /// never sees SIGPIPE.
    Fifo { name: String },
    /// The descriptor at this position of the packet (0 is the plan).
    Descriptor { position: u8 },
}
