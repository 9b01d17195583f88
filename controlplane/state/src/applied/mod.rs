//! What a command did: the outcome that its proposer waits for, and the signals that tell the
//! leader's parts what to look at.

mod access;
mod kind;
mod launched;
mod namespace;
mod refusal;
mod scale;
mod signal;
mod variable;

use protocol_model::{AllocId, EvalId, NodeId, NodeStatus, VersionTag};
use protocol_wire::v1::{ItemResult, UpdateClass};
use serde::{Deserialize, Serialize};

use crate::record::SessionEpoch;
use crate::tables::EvalSlot;
pub use access::{AccessRefusal, AccessRows};
pub use kind::KindChange;
pub use launched::{LaunchField, LaunchResult, Launched};
pub use namespace::{JobDenied, NamespaceHolds};
pub use refusal::{NodeRejected, NodeRejection, Refusal, ShortOfCanaries};
pub use scale::ScaleRefusal;
pub use signal::Signal;
pub use variable::{VariableChanged, VariableRefusal};

/// The result of [`crate::State::apply`].
#[derive(Clone, PartialEq, Debug)]
pub struct Applied {
    /// The state's index from now on.
    pub index: u64,
    /// What the proposer is told.
    pub outcome: Outcome,
    /// What the leader's parts are told; empty on a refusal.
    pub signals: Vec<Signal>,
}

/// What the proposer of a command is told.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// Done, and there is nothing to tell.
    Done,
    /// Nothing to do: the state was there already.
    NoOp,
    /// Not done, nothing changed.
    Refused(Refusal),
    /// A job was registered.
    JobRegistered {
        /// Its version.
        version: u64,
        /// Its `JobModifyIndex`.
        job_modify_index: u64,
        /// The evaluation made with it.
        eval: Option<EvalId>,
    },
    /// A job was stopped or forgotten.
    JobDeregistered {
        /// Its `JobModifyIndex`.
        job_modify_index: u64,
        /// The evaluation made with it.
        eval: Option<EvalId>,
    },
    /// A parameterized job was dispatched, now or earlier with the same idempotency token.
    JobDispatched(Launched),
    /// A version of a job has this tag now, or had it.
    JobTagged(VersionTag),
    /// Periodic jobs were launched, or not: in the order of the command.
    PeriodicLaunched(Vec<LaunchResult>),
    /// A plan was applied whole.
    PlanApplied,
    /// A session was made or resumed.
    Welcome(Welcome),
    /// A node's complete report was taken in.
    Synced {
        /// Allocations that the node had been told of and no longer has.
        lost: Vec<AllocId>,
        /// Reported allocations that the state does not know: the first map stops them.
        unknown: Vec<AllocId>,
    },
    /// Batches of reports, in the command's order. (A message of its own on the wire.)
    #[serde(skip)]
    Updates(Vec<BatchResult>),
    /// Nodes that fell silent, or whose windows ended.
    Missed(Vec<MissedResult>),
    /// Evaluations made.
    Evaluated(Vec<EvalId>),
    /// What garbage collection removed.
    Collected(Collected),
    /// The result of an operator's deletion of evaluations.
    EvalsDeleted(EvalsDeleted),
    /// A one-time token was used up.
    OneTimeTokenExchanged {
        /// The access token that it stood for.
        accessor_id: String,
    },
    /// A variable was written, locked or released.
    VariableChanged(Box<VariableChanged>),
}

/// The evaluations that one entry deleted, of those that an operator chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EvalsDeleted {
    /// Evaluations that are gone.
    pub deleted: u64,
    /// Those of them that were pending or blocked.
    pub open: u64,
    /// Evaluations that match and stay: changed since the deletion was asked for, or needed.
    pub kept: u64,
    /// The place behind which the next page begins; `None` where nothing is left to look at.
    pub next: Option<EvalSlot>,
}

/// A node's session, made or resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Its epoch: the log index of the command that made it.
    pub epoch: SessionEpoch,
    /// Made anew, or resumed.
    pub kind: WelcomeKind,
    /// The number of the last urgent batch applied in this session.
    pub applied_urgent_seq: u64,
    /// The number of the last typical batch applied in this session.
    pub applied_typical_seq: u64,
}

/// How a session came about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum WelcomeKind {
    /// A new one: the node owes its complete report.
    New,
    /// The same Hello again: the session it made already.
    Repeated,
    /// The node never left.
    Resumed,
}

/// The results of one node's batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchResult {
    /// Whose.
    pub node: NodeId,
    /// Of which session.
    pub epoch: SessionEpoch,
    /// Urgent or typical.
    pub class: UpdateClass,
    /// Its number.
    pub seq: u64,
    /// Per report, in order.
    pub results: Vec<ItemResult>,
    /// Why the whole batch was turned away, where it was.
    pub rejected: Option<BatchRejected>,
}

/// Why a whole batch was turned away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum BatchRejected {
    /// The node owes its complete report first.
    OwesSync,
    /// Another epoch, or a node that is silent or unknown as far as the state is concerned.
    NotInSession,
}

/// What a missed heartbeat did to one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MissedResult {
    /// The node.
    pub node: NodeId,
    /// Its status from now on; `None` where nothing changed (another epoch, silent already, gone).
    pub status: Option<NodeStatus>,
}

/// What garbage collection removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Collected {
    /// Evaluations.
    pub evals: u64,
    /// Allocations.
    pub allocs: u64,
    /// Jobs.
    pub jobs: u64,
    /// Deployments.
    pub deployments: u64,
    /// Nodes.
    pub nodes: u64,
    /// Named, but not over yet.
    pub kept: u64,
}
