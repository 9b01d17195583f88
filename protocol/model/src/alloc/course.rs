//! What became of an allocation: marks that ask for a move, health in its deployment, changes that
//! the control plane recorded, attempts before it.

use serde::{Deserialize, Serialize};

use super::ClientStatus;
use crate::ids::{AllocId, NodeId};
use crate::instant::{UnixNanos, rfc3339};
use crate::nullable;

/// A change of client status that the control plane recorded itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocState {
    /// The status from then on.
    pub value: ClientStatus,
    /// When.
    pub time: UnixNanos,
}

/// Marks that ask the scheduler to move an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DesiredTransition {
    /// Move it elsewhere: its node drains, or an operator stopped it.
    pub migrate: Option<bool>,
    /// It may be rescheduled.
    pub reschedule: Option<bool>,
    /// It may be rescheduled although its policy says no more.
    pub force_reschedule: Option<bool>,
    /// Skip the shutdown delay.
    pub no_shutdown_delay: Option<bool>,
    /// Stop it without a successor: its node's drain reached the deadline. A batch allocation
    /// counts as done for its version then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrate_disable_placement: Option<bool>,
    /// Stop it now, whether its successor finds a node or not. (Not Nomad's.)
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_stop: Option<bool>,
}

impl DesiredTransition {
    /// Whether it is to be moved.
    pub fn should_migrate(&self) -> bool {
        self.migrate == Some(true)
    }

    /// Whether it is to stop without a successor.
    pub fn ends_here(&self) -> bool {
        self.migrate_disable_placement == Some(true)
    }

    /// Whether it is to stop before its successor has a node.
    pub fn should_force_stop(&self) -> bool {
        self.force_stop == Some(true)
    }

    /// Whether it is to be moved to another node: its own did not accept it in time.
    pub fn moves_elsewhere(&self) -> bool {
        self.should_migrate() && self.reschedule == Some(true)
    }

    /// Whether an operator forces a reschedule.
    pub fn should_force_reschedule(&self) -> bool {
        self.force_reschedule == Some(true)
    }
}

/// An allocation's health within its deployment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocDeploymentStatus {
    /// `None` until it is known.
    pub healthy: Option<bool>,
    /// Since when.
    #[serde(with = "rfc3339")]
    pub timestamp: Option<UnixNanos>,
    /// Whether it is a canary.
    pub canary: bool,
    /// The log index that last changed it.
    pub modify_index: u64,
}

impl AllocDeploymentStatus {
    /// Whether it is known to be healthy.
    pub fn is_healthy(&self) -> bool {
        self.healthy == Some(true)
    }

    /// Whether it is known to be unhealthy.
    pub fn is_unhealthy(&self) -> bool {
        self.healthy == Some(false)
    }
}

/// Earlier attempts at rescheduling, oldest first, bounded by the scheduler.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RescheduleTracker {
    /// The attempts.
    #[serde(with = "nullable")]
    pub events: Vec<RescheduleEvent>,
}

/// One attempt at rescheduling.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct RescheduleEvent {
    /// When.
    pub reschedule_time: UnixNanos,
    /// The allocation that had failed.
    #[serde(rename = "PrevAllocID")]
    pub prev_alloc_id: AllocId,
    /// The node it had failed on.
    #[serde(rename = "PrevNodeID")]
    pub prev_node_id: NodeId,
    /// How long the policy waited, in nanoseconds.
    #[serde(default, with = "crate::duration::ns")]
    pub delay: std::time::Duration,
}
