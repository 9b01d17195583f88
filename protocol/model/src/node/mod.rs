//! Nodes: the hosts that run `noded`, and what they say about themselves.
//!
//! `resources`: what they have. `networks`: where they are reached. `drain`: how allocations leave
//! them. `stub`: a node's line in a list.
//! `reconnect`: how long one that lost all servers may take to be back.

mod drain;
mod metadata;
mod networks;
pub mod reconnect;
mod resources;
mod shown_drivers;
mod stub;

pub use drain::*;
pub use metadata::*;
pub use networks::*;
pub use resources::*;
pub use shown_drivers::ShownDrivers;
pub use stub::*;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::instant::{UnixNanos, rfc3339};
use crate::nullable;

/// The relation of a node and the control plane.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    /// In a session, and still owes its complete report.
    #[default]
    Initializing,
    /// Everything it knows is known.
    Ready,
    /// Silent, and some allocation on it still tolerates that.
    Disconnected,
    /// Silent for good, as far as anyone can tell.
    Down,
}

impl NodeStatus {
    /// The word that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "initializing",
            Self::Ready => "ready",
            Self::Disconnected => "disconnected",
            Self::Down => "down",
        }
    }
}

/// Whether the scheduler may place on a node: an operator's switch, apart from its status.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Eligibility {
    /// It may.
    #[default]
    Eligible,
    /// It may not.
    Ineligible,
}

/// A node, in the shape of the API. `noded` fills in what it knows about itself; the control plane
/// adds status, eligibility, class and indexes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Node {
    /// Its id.
    #[serde(rename = "ID")]
    pub id: NodeId,
    /// Its datacenter.
    pub datacenter: String,
    /// Its host name, unless configured.
    pub name: String,
    /// Where its HTTP address would be: kept for clients that show it.
    #[serde(rename = "HTTPAddr", default)]
    pub http_addr: String,
    /// Its node pool.
    #[serde(default)]
    pub node_pool: String,
    /// Facts found out by fingerprinting: `kernel.name`, `cpu.numcores`, `driver.exec`...
    #[serde(default, with = "nullable")]
    pub attributes: BTreeMap<String, String>,
    /// What it has.
    #[serde(default)]
    pub node_resources: NodeResources,
    /// What of that is not for allocations.
    #[serde(default)]
    pub reserved_resources: NodeReservedResources,
    /// Its operator's own key-value pairs.
    #[serde(default, with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Its operator's class.
    #[serde(default)]
    pub node_class: String,
    /// The hash of everything that feasibility looks at, except unique properties.
    #[serde(default)]
    pub computed_class: String,
    /// Its drivers.
    #[serde(default, with = "nullable")]
    pub drivers: BTreeMap<String, DriverInfo>,
    /// Host volumes by name.
    #[serde(default, with = "nullable")]
    pub host_volumes: BTreeMap<String, HostVolume>,
    /// Host networks by name. Their addresses are in its resources.
    #[serde(default, with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub host_networks: BTreeMap<String, HostNetwork>,
    /// Whether it is being drained: whether it has a drain strategy ([`Node::set_drain`]).
    #[serde(default)]
    pub drain: bool,
    /// How it is being drained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_strategy: Option<DrainStrategy>,
    /// Its newest drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_drain: Option<LastDrain>,
    /// Whether the scheduler may place on it.
    #[serde(default)]
    pub scheduling_eligibility: Eligibility,
    /// Its status.
    #[serde(default)]
    pub status: NodeStatus,
    /// Why, for people.
    #[serde(default)]
    pub status_description: String,
    /// When its status last changed, Unix seconds.
    #[serde(default)]
    pub status_updated_at: i64,
    /// Newest events, bounded, oldest first.
    #[serde(default, with = "nullable")]
    pub events: Vec<NodeEvent>,
    /// The log index at which it last fell silent; 0 while it is ready.
    #[serde(default)]
    pub last_missed_heartbeat_index: u64,
    /// The log index of its last allocation update.
    #[serde(default)]
    pub last_alloc_update_index: u64,
    /// The log index that made it.
    #[serde(default)]
    pub create_index: u64,
    /// The log index that last changed it.
    #[serde(default)]
    pub modify_index: u64,
}

impl Node {
    /// A node that has said nothing yet.
    pub fn new(id: NodeId, name: impl Into<String>, datacenter: impl Into<String>) -> Self {
        Self {
            id,
            datacenter: datacenter.into(),
            name: name.into(),
            http_addr: String::new(),
            node_pool: "default".to_owned(),
            attributes: BTreeMap::new(),
            node_resources: NodeResources::default(),
            reserved_resources: NodeReservedResources::default(),
            meta: BTreeMap::new(),
            node_class: String::new(),
            computed_class: String::new(),
            drivers: BTreeMap::new(),
            host_volumes: BTreeMap::new(),
            host_networks: BTreeMap::new(),
            drain: false,
            drain_strategy: None,
            last_drain: None,
            scheduling_eligibility: Eligibility::Eligible,
            status: NodeStatus::Initializing,
            status_description: String::new(),
            status_updated_at: 0,
            events: Vec::new(),
            last_missed_heartbeat_index: 0,
            last_alloc_update_index: 0,
            create_index: 0,
            modify_index: 0,
        }
    }

    /// Begins, changes or ends its drain.
    pub fn set_drain(&mut self, strategy: Option<DrainStrategy>) {
        self.drain = strategy.is_some();
        self.drain_strategy = strategy;
    }

    /// Whether the scheduler may place on it now.
    pub fn ready(&self) -> bool {
        self.status == NodeStatus::Ready
            && self.scheduling_eligibility == Eligibility::Eligible
            && !self.drain
    }
}

/// One driver of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DriverInfo {
    /// Its own facts.
    #[serde(with = "nullable")]
    pub attributes: BTreeMap<String, String>,
    /// Whether it is there.
    pub detected: bool,
    /// Whether it works.
    pub healthy: bool,
    /// Why not, for people.
    pub health_description: String,
    /// When any of this last changed, by the node's clock. Nodes of older releases do not send it.
    #[serde(with = "rfc3339", skip_serializing_if = "Option::is_none")]
    pub update_time: Option<UnixNanos>,
}

impl DriverInfo {
    /// Whether both describe the driver alike, whenever that last changed.
    pub fn same_but_time(&self, other: &Self) -> bool {
        let Self {
            attributes,
            detected,
            healthy,
            health_description,
            update_time: _,
        } = self;
        (attributes, detected, healthy, health_description)
            == (
                &other.attributes,
                &other.detected,
                &other.healthy,
                &other.health_description,
            )
    }
}

/// A directory of the host that jobs may mount by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostVolume {
    /// Its name.
    pub name: String,
    /// Its path on the host.
    pub path: String,
    /// Whether nobody may write to it.
    pub read_only: bool,
}

/// One line of a node's history.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeEvent {
    /// What happened.
    pub message: String,
    /// Which part says so: `Cluster`, `Drain`, `Driver: exec`...
    pub subsystem: String,
    /// More about it, for programs.
    #[serde(with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
    /// When.
    #[serde(with = "crate::instant::rfc3339_always")]
    pub timestamp: UnixNanos,
    /// The log index that recorded it.
    pub create_index: u64,
}
