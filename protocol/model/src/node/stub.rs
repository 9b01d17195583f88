//! The short form of a node in lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{DriverInfo, Eligibility, Node, NodeReservedResources, NodeResources, NodeStatus};
use crate::ids::NodeId;
use crate::nullable;

/// The short form of a node in lists.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeListStub {
    pub address: String,
    #[serde(rename = "ID")]
    pub id: NodeId,
    pub attributes: Option<BTreeMap<String, String>>,
    pub datacenter: String,
    pub name: String,
    pub node_class: String,
    pub node_pool: String,
    pub version: String,
    pub drain: bool,
    pub scheduling_eligibility: Eligibility,
    pub status: NodeStatus,
    pub status_description: String,
    #[serde(with = "nullable")]
    pub drivers: BTreeMap<String, DriverInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_resources: Option<NodeResources>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_resources: Option<NodeReservedResources>,
    pub create_index: u64,
    pub modify_index: u64,
}

impl Node {
    /// The short form, for lists.
    pub fn stub(&self) -> NodeListStub {
        NodeListStub {
            address: self
                .attributes
                .get("unique.network.ip-address")
                .cloned()
                .unwrap_or_default(),
            id: self.id,
            attributes: None,
            datacenter: self.datacenter.clone(),
            name: self.name.clone(),
            node_class: self.node_class.clone(),
            node_pool: self.node_pool.clone(),
            version: self
                .attributes
                .get("nomad.version")
                .cloned()
                .unwrap_or_default(),
            drain: self.drain,
            scheduling_eligibility: self.scheduling_eligibility,
            status: self.status,
            status_description: self.status_description.clone(),
            drivers: self.drivers.clone(),
            node_resources: None,
            reserved_resources: None,
            create_index: self.create_index,
            modify_index: self.modify_index,
        }
    }
}
