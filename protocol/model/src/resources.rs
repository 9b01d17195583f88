//! What a task needs of a node: CPU, memory, devices.

use serde::{Deserialize, Serialize};

use crate::canonical::defaults;
use crate::device::{NumaRequest, RequestedDevice};
use crate::network::NetworkResource;
use crate::nullable;

/// What a task needs of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Resources {
    /// CPU share in MHz; absent becomes 100, or 0 where `cores` is given.
    #[serde(rename = "CPU")]
    pub cpu: Option<u64>,
    /// Whole cores reserved for the task; excludes `cpu`.
    pub cores: Option<u64>,
    /// Memory in MB: what placement counts, and the limit unless `memory_max_mb` has an effect.
    #[serde(rename = "MemoryMB")]
    pub memory_mb: Option<u64>,
    /// Memory limit in MB where the scheduler's settings allow more than `memory_mb`; 0 is
    /// `memory_mb`, -1 is no limit.
    #[serde(rename = "MemoryMaxMB")]
    pub memory_max_mb: Option<i64>,
    /// Disk of the task in MB. Obsolete: see the group's ephemeral disk.
    #[serde(rename = "DiskMB")]
    pub disk_mb: Option<u64>,
    /// Obsolete; kept because clients send it.
    #[serde(rename = "IOPS")]
    pub iops: Option<u64>,
    /// The task's own networks. Obsolete: see the group's.
    #[serde(with = "nullable")]
    pub networks: Vec<NetworkResource>,
    /// Devices of the node.
    #[serde(with = "nullable")]
    pub devices: Vec<RequestedDevice>,
    /// Placement of the cores on the node's memory domains.
    #[serde(rename = "NUMA")]
    pub numa: Option<NumaRequest>,
    /// Size of the secrets directory in MB; 0 is the node's default.
    #[serde(rename = "SecretsMB")]
    pub secrets_mb: Option<u64>,
}

impl Resources {
    /// CPU share in MHz.
    pub fn cpu(&self) -> u64 {
        let absent = if self.cores() > 0 {
            0
        } else {
            defaults::CPU_MHZ
        };
        self.cpu.unwrap_or(absent)
    }

    /// Whole cores.
    pub fn cores(&self) -> u64 {
        self.cores.unwrap_or(0)
    }

    /// Memory in MB.
    pub fn memory_mb(&self) -> u64 {
        self.memory_mb.unwrap_or(defaults::MEMORY_MB)
    }
}
