//! Devices and memory domains that a task asks for.

use serde::{Deserialize, Serialize};

use crate::nullable;
use crate::nullable::or_default;
use crate::placement::{Affinity, Constraint};

/// Devices of one kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RequestedDevice {
    /// `type`, `vendor/type` or `vendor/type/model`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// How many; absent becomes 1.
    pub count: Option<u64>,
    /// Conditions that each device must meet.
    #[serde(with = "nullable")]
    pub constraints: Vec<Constraint>,
    /// Preferences among the devices that meet them.
    #[serde(with = "nullable")]
    pub affinities: Vec<Affinity>,
}

/// How a task's cores lie on the node's memory domains.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NumaRequest {
    /// `none`, `prefer` or `require`.
    #[serde(deserialize_with = "or_default")]
    pub affinity: String,
    /// Names of requested devices that must be on the same domain.
    #[serde(with = "nullable")]
    pub devices: Vec<String>,
}
