//! The short form of a node in lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    DriverInfo, Eligibility, HostVolume, LastDrain, Node, NodeReservedResources, NodeResources,
    NodeStatus, shown_drivers,
};
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
    #[serde(
        serialize_with = "shown_drivers::serialize",
        deserialize_with = "nullable::deserialize"
    )]
    pub drivers: BTreeMap<String, DriverInfo>,
    #[serde(default, with = "nullable")]
    pub host_volumes: BTreeMap<String, HostVolume>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_resources: Option<NodeResources>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_resources: Option<NodeReservedResources>,
    #[serde(default)]
    pub last_drain: Option<LastDrain>,
    pub create_index: u64,
    pub modify_index: u64,
}

impl Node {
    /// Which release of noded runs there; empty where it does not say. (`nomad.version`, on which
    /// job files constrain, is that of the API that it follows.)
    fn release(&self) -> &str {
        self.attributes
            .get("drover.version")
            .map_or("", String::as_str)
    }

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
            version: self.release().to_owned(),
            drain: self.drain,
            scheduling_eligibility: self.scheduling_eligibility,
            status: self.status,
            status_description: self.status_description.clone(),
            drivers: self.drivers.clone(),
            host_volumes: self.host_volumes.clone(),
            node_resources: None,
            reserved_resources: None,
            last_drain: self.last_drain.clone(),
            create_index: self.create_index,
            modify_index: self.modify_index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_keys_of_nomad_although_they_are_empty() {
        let mut node = Node::new(NodeId(uuid::Uuid::nil()), "node-1", "dc1");
        node.drivers
            .insert("exec".to_owned(), DriverInfo::default());
        let shown = serde_json::to_value(node.stub()).expect("JSON");
        let null = Some(&serde_json::Value::Null);
        assert_eq!(shown.get("LastDrain"), null);
        assert_eq!(shown.get("HostVolumes"), null);
        assert_eq!(shown["Drivers"]["exec"].get("UpdateTime"), null);
        let read: NodeListStub = serde_json::from_value(shown).expect("is read again");
        assert_eq!(read, node.stub());
    }

    #[test]
    fn a_list_shows_the_release_of_the_node_and_not_of_the_api() {
        let mut node = Node::new(NodeId(uuid::Uuid::nil()), "node-1", "dc1");
        let set = |node: &mut Node, name: &str, value: &str| {
            node.attributes.insert(name.to_owned(), value.to_owned());
        };
        set(&mut node, "nomad.version", "1.10.0");
        assert_eq!(node.stub().version, "");
        set(&mut node, "drover.version", "0.1.0");
        assert_eq!(node.stub().version, "0.1.0");
    }
}
