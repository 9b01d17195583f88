//! What custody asks of its shell.

use crate::protocol::{Event, TaskKey};

/// What the shell has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Write the run's record anew.
    Persist(TaskKey),
    /// Kill everything in the run's cgroup.
    KillTree(TaskKey),
    /// Tell [`Custody::on_tree_empty`] when the run's cgroup is empty.
    WatchTree(TaskKey),
    /// No process of the run is left: watches and process descriptors may go. Streams stay.
    Settle(TaskKey),
    /// The outcome is known elsewhere: streams may go.
    Release(TaskKey),
    /// Only the epoch of this run is to be kept on record.
    PersistFloor(TaskKey),
    /// The record of this run is of no use any more.
    RemoveRecord(TaskKey),
    /// The record of this allocation's lease is of no use any more.
    RemoveLease(String),
    Send(Event),
}
