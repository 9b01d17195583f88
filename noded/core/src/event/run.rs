//! What happens to one run of a task, and what keeper knows of it.

use std::collections::{BTreeMap, BTreeSet};

use protocol_model::{TaskEventKind, UnixNanos};

use crate::effect::TaskHook;
use crate::key::RunKey;

/// What happens to one run of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunEvent {
    /// Every hook is done.
    Prepared {
        /// Variables that templates with `env = true` gave.
        environment: BTreeMap<String, String>,
    },
    /// A hook failed; the later ones were not run.
    PrepareFailed {
        /// Which.
        hook: TaskHook,
        /// Why, for people.
        message: String,
        /// Whether another attempt may do better.
        recovery: Recovery,
    },
    /// An artifact of the attempt is fetched: it is not fetched again, whatever becomes of the
    /// attempt.
    Fetched {
        /// The artifact in the job: an offset into the task's list.
        artifact: usize,
    },
    /// How far a hook has come: replaces the history's newest line where that says the same of an
    /// earlier moment.
    Progress {
        /// The kind of event.
        kind: TaskEventKind,
        /// The text.
        message: String,
    },
    /// The program was executed.
    Started {
        /// Its process.
        pid: u32,
        /// When.
        at: UnixNanos,
    },
    /// The program was not executed, and nothing of the attempt is left running.
    StartFailed {
        /// Why, for people.
        message: String,
        /// Whether another attempt may do better.
        recovery: Recovery,
    },
    /// The main process ended and everything it left behind was killed.
    Exited(Exit),
    /// Files that templates of the run read are not those that were rendered.
    TemplatesChanged {
        /// The templates: offsets into the task's list.
        offsets: BTreeSet<usize>,
    },
    /// Templates were rendered once more.
    TemplatesRendered {
        /// Those whose file was written, because its text differed.
        changed: BTreeSet<usize>,
    },
    /// Files of identities have newer tokens in the place of others.
    IdentitiesRenewed {
        /// The identities' names.
        names: BTreeSet<String>,
    },
    /// A template's change script ended, or could not be run.
    ScriptEnded {
        /// The template: an offset into the task's list.
        offset: usize,
        /// Its end.
        end: ScriptEnd,
    },
    /// A word for the task's history, from a driver or a hook.
    Message {
        /// The kind of event.
        kind: TaskEventKind,
        /// The text.
        message: String,
    },
}

/// The end of a change script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptEnd {
    /// It ended by itself.
    Exited {
        /// Its exit code; 128 + the signal where one ended it.
        code: i32,
    },
    /// It did not run, or not to its end.
    Failed {
        /// The reason, for people.
        message: String,
    },
}

/// Whether a failure may pass with another attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovery {
    /// Another attempt may do better: the restart policy decides.
    Possible,
    /// It will fail every time.
    Hopeless,
    /// It was interrupted, because the task is to end.
    Cancelled,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Exit {
    /// The status of the main process.
    pub status: ExitStatus,
    /// Whether the kernel killed something of the task for want of memory.
    pub oom_killed: bool,
    /// Whether the stop signal was replaced by a kill because PID 1 would not have received it.
    #[serde(default)]
    pub signal_discarded: bool,
    /// Whether keeper killed it because its allocation's lease ran out.
    #[serde(default)]
    pub lease_expired: bool,
    /// When.
    pub at: UnixNanos,
}

/// The status of a main process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It ended by itself.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Nobody knows (keeper was replaced after a crash, or never had it): counts as a failure.
    Unknown,
}

/// A run as keeper knows it, from its `List`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptRun {
    /// The run.
    pub run: RunKey,
    /// Where it stands.
    pub phase: KeptPhase,
}

/// Where a run stands in keeper's custody.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeptPhase {
    /// Between clone and exec: an event will tell the rest.
    Starting,
    /// It runs.
    Running {
        /// Its process.
        pid: u32,
        /// Since when.
        at: UnixNanos,
        /// Whether a kill deadline is set.
        stopping: bool,
    },
    /// Its main process ended, the rest is being killed: an event will tell.
    Ending,
    /// It was never executed.
    StartFailed {
        /// Why.
        message: String,
    },
    /// It ended, and nobody has acknowledged that.
    Exited(Exit),
}
