//! The networks of a node: its interfaces with their addresses, and the names that its operator
//! gives to them.

use serde::{Deserialize, Serialize};

use crate::nullable;

/// An interface of a node with its addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeNetworkResource {
    /// `host`: the host's own network.
    pub mode: String,
    /// The interface's name.
    pub device: String,
    /// Its hardware address, or `""`.
    pub mac_address: String,
    /// Mbit/s; 0 where the driver does not know.
    pub speed: u32,
    /// Its addresses, once for each host network that they belong to.
    #[serde(with = "nullable")]
    pub addresses: Vec<NodeNetworkAddress>,
}

/// An address of a node, as a member of one host network.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeNetworkAddress {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// The host network.
    pub alias: String,
    /// The address.
    pub address: String,
    /// Ports of it that are not for allocations: `22,80,8500-8600`.
    pub reserved_ports: String,
    /// Its gateway, or `""`.
    pub gateway: String,
}

/// A host network as the node's configuration has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HostNetwork {
    /// Its name.
    pub name: String,
    /// The block that its addresses are in; `""` for all.
    #[serde(rename = "CIDR")]
    pub cidr: String,
    /// The interface that they are on; `""` for all.
    pub interface: String,
    /// Ports of its addresses that are not for allocations: `22,80,8500-8600`.
    pub reserved_ports: String,
}
