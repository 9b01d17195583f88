//! What an allocation was given on its node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::network::NetworkResource;
use crate::nullable;

/// What an allocation was given on its node.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedResources {
    /// Per task.
    #[serde(with = "nullable")]
    pub tasks: BTreeMap<String, AllocatedTaskResources>,
    /// For the group as a whole.
    pub shared: AllocatedSharedResources,
}

/// What one task was given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedTaskResources {
    /// Processor time.
    pub cpu: AllocatedCpuResources,
    /// Memory.
    pub memory: AllocatedMemoryResources,
    /// Networks of the task itself (the older form of asking for ports).
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Devices.
    #[serde(with = "nullable")]
    pub devices: Vec<AllocatedDeviceResource>,
}

/// Processor time given to a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedCpuResources {
    /// Shares, in MHz as job files count them.
    pub cpu_shares: i64,
    /// Whole cores given to it alone.
    #[serde(with = "nullable")]
    pub reserved_cores: Vec<u16>,
}

/// Memory given to a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatedMemoryResources {
    /// What is reserved, MiB.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: i64,
    /// What it may use when the node has it to spare, MiB; 0 = no more than is reserved.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: i64,
}

/// A device given to a task.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedDeviceResource {
    /// Its vendor.
    pub vendor: String,
    /// Its type.
    #[serde(rename = "Type")]
    pub device_type: String,
    /// Its model.
    pub name: String,
    /// Which ones.
    #[serde(rename = "DeviceIDs", with = "nullable")]
    pub device_ids: Vec<String>,
}

/// What the group as a whole was given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedSharedResources {
    /// Disk, MiB.
    #[serde(rename = "DiskMB")]
    pub disk_mb: i64,
    /// The group's networks, ports filled in.
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Every port of the group.
    #[serde(with = "nullable")]
    pub ports: Vec<AllocatedPort>,
}

/// One port given to an allocation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AllocatedPort {
    /// Its label in the job file.
    pub label: String,
    /// The port on the host.
    pub value: u16,
    /// The port inside the network namespace; 0 = the same.
    pub to: u16,
    /// The address on the host.
    #[serde(rename = "HostIP")]
    pub host_ip: String,
}
