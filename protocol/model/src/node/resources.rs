//! What a node has, and what of it is not for allocations.

use serde::{Deserialize, Serialize};

use crate::canonical::defaults::HOST_NETWORK;
use crate::network::NetworkResource;
use crate::node::{NodeNetworkAddress, NodeNetworkResource};
use crate::nullable;

/// What a node has.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeResources {
    /// Processors.
    pub cpu: NodeCpuResources,
    /// Memory.
    pub memory: NodeMemoryResources,
    /// Disk under the allocation directory.
    pub disk: NodeDiskResources,
    /// Network interfaces with addresses.
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Its interfaces with their addresses, by host network. Nodes of older releases send none.
    #[serde(with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub node_networks: Vec<NodeNetworkResource>,
    /// The lowest port that is handed out on request.
    pub min_dynamic_port: u16,
    /// The highest port that is handed out on request.
    pub max_dynamic_port: u16,
}

impl NodeResources {
    /// The addresses of a host network.
    pub fn addresses<'a>(&'a self, alias: &'a str) -> impl Iterator<Item = &'a NodeNetworkAddress> {
        let all = self.node_networks.iter().flat_map(|it| &it.addresses);
        all.filter(move |address| address.alias == alias)
    }

    /// The names of its host networks besides the default one, repeats included.
    pub fn host_networks(&self) -> impl Iterator<Item = &str> {
        let all = self.node_networks.iter().flat_map(|it| &it.addresses);
        all.map(|address| address.alias.as_str())
            .filter(|alias| *alias != HOST_NETWORK)
    }
}

/// A node's processors.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeCpuResources {
    /// All cores together, in MHz as job files count them.
    pub cpu_shares: i64,
    /// How many cores.
    pub total_cpu_cores: u16,
    /// Cores that may be reserved whole.
    #[serde(with = "nullable")]
    pub reservable_cpu_cores: Vec<u16>,
}

/// A node's memory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeMemoryResources {
    /// MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
}

/// A node's disk.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeDiskResources {
    /// MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
}

/// What of a node is not for allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NodeReservedResources {
    /// Processor time.
    pub cpu: ReservedCpuResources,
    /// Memory.
    pub memory: NodeMemoryResources,
    /// Disk.
    pub disk: NodeDiskResources,
    /// Ports.
    pub networks: ReservedNetworkResources,
}

/// Processor time that is not for allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReservedCpuResources {
    /// MHz.
    pub cpu_shares: i64,
}

/// Ports that are not for allocations.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ReservedNetworkResources {
    /// Comma-separated ports and ranges: `22,80,8500-8600`.
    pub reserved_host_ports: String,
}
