//! One allocation as its node sees it: the word that noded's batcher, the gateway and the
//! replicated state share.

use std::collections::BTreeMap;

use protocol_model::{
    AllocId, ClientStatus, DeploymentId, NetworkStatus, TASK_EVENTS_MAX, TaskEvent, TaskState,
    UnixNanos,
};

/// Bytes of events that an allocation's report takes with it, of all its tasks together.
pub const ALLOC_EVENT_BYTES_MAX: usize = 64 * 1024;

/// Tags, lengths and numbers of one message.
const FIXED_BYTES: usize = 64;

/// The bytes of one event: an estimate from above, so that caps hold on the wire.
pub fn event_bytes(event: &TaskEvent) -> usize {
    let details: usize = event
        .details
        .iter()
        .map(|(key, value)| key.len() + value.len() + 16)
        .sum();
    FIXED_BYTES + event.display_message.len() + details
}

/// Drops the oldest events where there are more than [`TASK_EVENTS_MAX`] of a task, or more than
/// [`ALLOC_EVENT_BYTES_MAX`] in all: nodes before they say them, servers of what others say.
pub fn keep_newest_events(states: &mut BTreeMap<String, TaskState>) {
    let mut left = ALLOC_EVENT_BYTES_MAX;
    for state in states.values_mut() {
        let newest = state.events.iter().rev().take(TASK_EVENTS_MAX);
        let fit = newest.take_while(|event| {
            let bytes = event_bytes(event);
            let fits = bytes <= left;
            left = left.saturating_sub(bytes);
            fits
        });
        let surplus = state.events.len() - fit.count();
        state.events.drain(..surplus);
    }
}

/// A node's report of one allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct AllocReport {
    /// Which allocation.
    pub id: AllocId,
    /// Rises with every report of this allocation within a session, from 1: an item that is not
    /// newer than the one applied is dropped.
    pub revision: u64,
    /// Its client status.
    pub client_status: ClientStatus,
    /// Why, for people.
    pub client_description: String,
    /// Each task's state. Events are volatile, except in a terminal allocation's last word.
    pub task_states: BTreeMap<String, TaskState>,
    /// Its health, once the node knows it.
    pub health: Option<ReportedHealth>,
    /// The version of the desired state that the node acts on.
    pub desired_version: u64,
    /// Its own network, where it has one.
    pub network: Option<NetworkStatus>,
}

impl AllocReport {
    /// A report without tasks: what a node says of an allocation that it has only accepted.
    pub fn new(id: AllocId, revision: u64, client_status: ClientStatus) -> Self {
        Self {
            id,
            revision,
            client_status,
            client_description: String::new(),
            task_states: BTreeMap::new(),
            health: None,
            desired_version: 0,
            network: None,
        }
    }

    /// Whether this is the allocation's last word.
    pub fn is_terminal(&self) -> bool {
        self.client_status.is_terminal()
    }
}

/// What a node found out about an allocation's health.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportedHealth {
    /// Healthy or not.
    pub healthy: bool,
    /// Since when, by the node's clock.
    pub at: UnixNanos,
    /// For whom the node found it out. An allocation may be given to another deployment while a
    /// report is on its way, and has to show itself healthy to that one anew.
    pub judged_for: JudgedFor,
}

/// The deployment that an allocation's health was found out for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JudgedFor {
    /// A node that does not say.
    Unsaid,
    /// The allocation had none.
    NoDeployment,
    /// This one.
    Deployment(DeploymentId),
}

impl ReportedHealth {
    /// Whether it says anything to a deployment.
    pub fn counts_for(&self, deployment: DeploymentId) -> bool {
        match self.judged_for {
            JudgedFor::Unsaid => true,
            JudgedFor::NoDeployment => false,
            JudgedFor::Deployment(judged) => judged == deployment,
        }
    }
}

impl From<Option<DeploymentId>> for JudgedFor {
    fn from(deployment: Option<DeploymentId>) -> Self {
        deployment.map_or(Self::NoDeployment, Self::Deployment)
    }
}
