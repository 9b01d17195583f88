//! Volumes that a group claims, and where its tasks see them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::nullable;
use crate::nullable::or_default;

/// A volume that a group claims.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VolumeRequest {
    /// The name by which the group's tasks mount it.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `host` or `csi`; `""` is `host`.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub volume_type: String,
    /// The volume's name on the node or in the cluster.
    #[serde(deserialize_with = "or_default")]
    pub source: String,
    /// Whether tasks may only read it.
    #[serde(deserialize_with = "or_default")]
    pub read_only: bool,
    /// Whether a successor gets the same volume.
    #[serde(deserialize_with = "or_default")]
    pub sticky: bool,
    /// Who may read and write it at the same time.
    #[serde(deserialize_with = "or_default")]
    pub access_mode: String,
    /// `file-system` or `block-device`.
    #[serde(deserialize_with = "or_default")]
    pub attachment_mode: String,
    /// How a file system is mounted.
    pub mount_options: Option<MountOptions>,
    /// Whether each allocation claims its own volume `SOURCE[INDEX]`.
    #[serde(deserialize_with = "or_default")]
    pub per_alloc: bool,
}

impl VolumeRequest {
    /// The volume that the allocation with number `index` claims: `data[2]` where each claims its
    /// own.
    pub fn source_of(&self, index: Option<u32>) -> String {
        match index {
            Some(index) if self.per_alloc => format!("{}[{index}]", self.source),
            Some(_) | None => self.source.clone(),
        }
    }
}

/// How a volume's file system is mounted.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MountOptions {
    /// The kind of file system.
    #[serde(rename = "FSType", deserialize_with = "or_default")]
    pub fs_type: String,
    /// Mount flags.
    #[serde(with = "nullable")]
    pub mount_flags: Vec<String>,
}

/// Where a task sees a volume of its group.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct VolumeMount {
    /// The volume's name within the group.
    pub volume: Option<String>,
    /// The path inside the task.
    pub destination: Option<String>,
    /// Whether the task may only read it.
    pub read_only: Option<bool>,
    /// `private`, `host-to-task` or `bidirectional`; absent becomes `private`.
    pub propagation_mode: Option<String>,
    /// The SELinux label.
    #[serde(rename = "SELinuxLabel")]
    pub selinux_label: Option<String>,
}

/// Marks a task as a storage plugin.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CsiPluginConfig {
    /// The plugin's name.
    #[serde(rename = "ID", deserialize_with = "or_default")]
    pub id: String,
    /// `controller`, `node` or `monolith`.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub plugin_type: String,
    /// Where the plugin's socket is, inside the task.
    #[serde(deserialize_with = "or_default")]
    pub mount_dir: String,
    /// Where it stages and publishes volumes, inside the task.
    #[serde(deserialize_with = "or_default")]
    pub stage_publish_base_dir: String,
    /// How long it may take to become healthy.
    #[serde(with = "duration::ns_option")]
    pub health_timeout: Option<Duration>,
}
