//! What the core asks of the world, as data. The shell executes effects and answers with events.
//!
//! Effects leave through `NodeCore::poll_effect` in one order. A shell that drains them all,
//! appends every [`Effect::Append`], syncs the journal once if any effect of the group needs it,
//! and then executes the others in order is right, and commits in groups by itself. A shell that
//! wants to let effects overtake each other (a task's start must not wait behind an fsync) may do
//! so between
//! [`Lane`]s, never within one.

mod alloc;
mod session;
mod task;

use std::sync::Arc;
use std::time::Duration;

use protocol_model::AllocId;

use crate::alloc_spec::AllocSpec;
use crate::journal::JournalRecord;
use crate::key::{Attempt, RunKey};
use crate::time::Moment;
pub use alloc::AllocHook;
pub use session::{
    DisconnectReason, Hello, ServerChoice, SessionMessage, StatusBatch, SyncPart, UpdateClass, Wish,
};
pub use task::{
    ChangeScriptRun, PrepareTask, PreparedArtifact, PreparedIdentity, PreparedTemplate, Rendering,
    StartTask, TaskHook, TaskNetwork,
};

/// How safe every journal record issued before an effect must be before the effect is executed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Durability {
    /// It says nothing of what is journaled, or is done again without harm where the journal does
    /// not know of it; it never waits. So the node stays visible to the control plane while its
    /// disk hangs.
    Nothing,
    /// Written to the file: a crash of the daemon keeps it (a crash of the host ends the tasks
    /// too).
    Appended,
    /// On the disk (`fdatasync`): needed before a stop or removal is acknowledged, a terminal
    /// status reported, an epoch or incarnation accepted.
    Synced,
}

/// An effect, with what must be durable before it is executed.
#[derive(Clone, PartialEq, Debug)]
pub struct Issued {
    /// How safe every record issued earlier must be first.
    pub needs: Durability,
    /// What to do.
    pub effect: Effect,
}

/// Effects of one lane are executed in order; lanes may overtake each other.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Lane {
    /// The journal itself.
    Journal,
    /// The connection of one attempt and its control stream. What an earlier attempt still waits
    /// to say holds nobody up: the shell drops it.
    Session(Attempt),
    /// Heartbeats: a slow disk must not make a node look dead.
    Heartbeat,
    /// Status batches of one class.
    Batch(UpdateClass),
    /// Leases at keeper: at most one such effect is under way.
    Leases,
    /// The work for an allocation as a whole. Its removal begins when the lanes of its tasks
    /// are empty: see [`Lanes`](crate::lanes::Lanes).
    Alloc(AllocId),
    /// The work for one task: a slow preparation holds up no sibling.
    Task {
        /// The allocation.
        alloc: AllocId,
        /// The task's name.
        task: String,
    },
}

impl Lane {
    /// The lane of a run.
    pub fn of_task(run: &RunKey) -> Self {
        Self::Task {
            alloc: run.alloc,
            task: run.task.clone(),
        }
    }
}

/// What the core asks for.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Append a record to the journal. No answer.
    Append(JournalRecord),

    /// Connect to a server, ending the connection of every earlier attempt.
    /// Answer: [`SessionEvent::Connected`](crate::event::SessionEvent::Connected) or
    /// `Disconnected`.
    Connect {
        /// The attempt's number; its events carry it.
        attempt: Attempt,
        /// Which server: an offset into the list that the core was last given
        /// (`NodeCore::set_servers`, `Welcome`, `Refused`), already in range.
        server: ServerChoice,
    },
    /// Close the connection of an attempt. No answer is needed; one that comes is dropped.
    Disconnect {
        /// The attempt.
        attempt: Attempt,
        /// Why, for logs and for the peer.
        reason: DisconnectReason,
    },
    /// The session is live: ask for the watch. What it brings are `WatchMap` and `WatchDelta`
    /// events.
    OpenWatch {
        /// The attempt.
        attempt: Attempt,
        /// What the node has, in the versions that it was told, where the server does not know it:
        /// that is not told again.
        known: Option<Vec<(AllocId, u64)>>,
    },
    /// Send a message in the session of an attempt.
    Send {
        /// The attempt; a message for an earlier one is dropped by the shell.
        attempt: Attempt,
        /// The message.
        message: SessionMessage,
    },

    /// Tell keeper until when allocations may run without another word (readings of
    /// `CLOCK_BOOTTIME`), and which need no lease any more. Answer:
    /// [`Event::Leases`](crate::event::Event::Leases), and no other is asked for before it.
    TendLeases {
        /// Allocations, and when keeper kills what runs of them.
        extend: Vec<(AllocId, Moment)>,
        /// Allocations that need none any more: nothing of them runs, or it may run on.
        end: Vec<AllocId>,
    },

    /// Make what all tasks of an allocation need: run `hooks` in order, stop at the first that
    /// fails (idempotent).
    /// Answer: [`AllocEvent::Prepared`](crate::event::AllocEvent::Prepared) or
    /// `PrepareFailed`.
    PrepareAlloc {
        /// The allocation.
        spec: Arc<AllocSpec>,
        /// The steps, in order.
        hooks: Vec<AllocHook>,
    },
    /// Every task of the allocation is dead: what only running tasks need goes now (the memory file
    /// systems of secrets, its network namespace). Logs and data stay. No answer.
    RetireAlloc {
        /// The allocation.
        alloc: AllocId,
    },
    /// Everything of the allocation may go: its directories, its output streams and log files, what
    /// keeper remembers of it. Nothing of it runs any more. Retry until it succeeds; answer:
    /// [`AllocEvent::Destroyed`](crate::event::AllocEvent::Destroyed).
    DestroyAlloc {
        /// The allocation.
        alloc: AllocId,
    },

    /// Prepare an attempt: run `hooks` in order, stop at the first that fails.
    /// Answer: [`RunEvent::Prepared`](crate::event::RunEvent::Prepared) or `PrepareFailed`.
    PrepareTask(Box<PrepareTask>),
    /// Interrupt the preparation of an attempt, whether it is under way or waits in its lane: this
    /// overtakes it there. Answer: still the preparation's one. A hook that waits for something
    /// ends within a second, undone, with [`Recovery::Cancelled`](crate::event::Recovery); an
    /// answer that is on its way stands.
    CancelPrepare {
        /// The attempt.
        run: RunKey,
    },
    /// Start the process. Answer: `RunEvent::Started` or `RunEvent::StartFailed`, later `Exited`.
    StartTask(Box<StartTask>),
    /// Send `signal` to the main process and kill everything `kill_after` later. A repeat may only
    /// bring the deadline nearer. Answer: `Exited` in the end; a run that keeper does not know is
    /// answered with `Exited` and [`ExitStatus::Unknown`](crate::event::ExitStatus::Unknown) at
    /// once.
    StopTask {
        /// The attempt.
        run: RunKey,
        /// The signal's name as in job files: `SIGTERM`.
        signal: String,
        /// From when the signal is sent until everything is killed.
        kill_after: Duration,
    },
    /// Kill the whole task now. Answered like `StopTask`.
    KillTask {
        /// The attempt.
        run: RunKey,
    },
    /// Send one signal to the main process. A failure is told with `RunEvent::Message`.
    SignalTask {
        /// The attempt.
        run: RunKey,
        /// The signal's name.
        signal: String,
    },
    /// The run is alive: look at the files that its templates read until it is released, and tell
    /// of changes with [`RunEvent::TemplatesChanged`](crate::event::RunEvent::TemplatesChanged). A
    /// template that this daemon has not rendered is compared with its file first; a difference is
    /// a change. No other answer.
    FollowTemplates(Box<PrepareTask>),
    /// Render those templates that are to be rendered anew, and write those whose text differs from
    /// their file. Answer:
    /// [`RunEvent::TemplatesRendered`](crate::event::RunEvent::TemplatesRendered).
    RenderTemplates(Box<PrepareTask>),
    /// The run is alive: keep the identities that it shows fresh until it is released, signed by
    /// the root key that the allocation names, and tell of those that take the place of others with
    /// [`RunEvent::IdentitiesRenewed`](crate::event::RunEvent::IdentitiesRenewed). Repeated where
    /// the allocation names another key. No other answer.
    FollowIdentities(Box<PrepareTask>),
    /// Run a program inside the task. Nothing waits behind it; answer:
    /// [`RunEvent::ScriptEnded`](crate::event::RunEvent::ScriptEnded).
    RunChangeScript(Box<ChangeScriptRun>),
    /// The run has ended and that is recorded: acknowledge its exit to keeper, retire its streams,
    /// remove its cgroup and sandbox. No answer.
    ReleaseRun {
        /// The attempt.
        run: RunKey,
    },
}

impl Effect {
    /// The attempt at a session that it belongs to. With the attempt's [`Self::Disconnect`], which
    /// waits for nothing, whatever of it still waits is void.
    pub fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::Connect { attempt, .. }
            | Self::Disconnect { attempt, .. }
            | Self::OpenWatch { attempt, .. }
            | Self::Send { attempt, .. } => Some(*attempt),
            Self::Append(_)
            | Self::TendLeases { .. }
            | Self::PrepareAlloc { .. }
            | Self::RetireAlloc { .. }
            | Self::DestroyAlloc { .. }
            | Self::PrepareTask(_)
            | Self::CancelPrepare { .. }
            | Self::StartTask(_)
            | Self::StopTask { .. }
            | Self::KillTask { .. }
            | Self::SignalTask { .. }
            | Self::FollowTemplates(_)
            | Self::RenderTemplates(_)
            | Self::FollowIdentities(_)
            | Self::RunChangeScript(_)
            | Self::ReleaseRun { .. } => None,
        }
    }

    /// Which effects this one may not overtake.
    pub fn lane(&self) -> Lane {
        match self {
            Self::Append(_) => Lane::Journal,
            Self::Connect { attempt, .. }
            | Self::Disconnect { attempt, .. }
            | Self::OpenWatch { attempt, .. } => Lane::Session(*attempt),
            Self::Send { attempt, message } => match message {
                SessionMessage::Heartbeat { .. } => Lane::Heartbeat,
                SessionMessage::StatusBatch(batch) => Lane::Batch(batch.class),
                SessionMessage::Hello(_)
                | SessionMessage::SyncPart(_)
                | SessionMessage::Facts { .. }
                | SessionMessage::Detail { .. }
                | SessionMessage::WatchAck { .. } => Lane::Session(*attempt),
            },
            Self::TendLeases { .. } => Lane::Leases,
            Self::PrepareAlloc { spec, .. } => Lane::Alloc(spec.id()),
            Self::RetireAlloc { alloc } | Self::DestroyAlloc { alloc } => Lane::Alloc(*alloc),
            Self::PrepareTask(prepare)
            | Self::FollowTemplates(prepare)
            | Self::RenderTemplates(prepare)
            | Self::FollowIdentities(prepare) => Lane::of_task(&prepare.run),
            Self::RunChangeScript(script) => Lane::of_task(&script.run),
            Self::StartTask(start) => Lane::of_task(&start.run),
            Self::CancelPrepare { run }
            | Self::StopTask { run, .. }
            | Self::KillTask { run }
            | Self::SignalTask { run, .. }
            | Self::ReleaseRun { run } => Lane::of_task(run),
        }
    }
}
