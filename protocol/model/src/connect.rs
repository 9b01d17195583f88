//! Service mesh settings of a service: sidecar, upstreams.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::gateway::ConnectGateway;
use crate::logs::LogConfig;
use crate::nullable;
use crate::nullable::or_default;
use crate::resources::Resources;
use crate::volume::VolumeMount;

/// Service mesh settings of a service.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Connect {
    /// Whether the task speaks the mesh's protocol itself.
    #[serde(deserialize_with = "or_default")]
    pub native: bool,
    /// Set where the service is a gateway.
    pub gateway: Option<ConnectGateway>,
    /// The proxy beside the task.
    pub sidecar_service: Option<SidecarService>,
    /// Changes to the proxy's task.
    pub sidecar_task: Option<SidecarTask>,
}

/// The proxy beside a task.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SidecarService {
    /// Tags of the proxy's own service.
    #[serde(with = "nullable")]
    pub tags: Vec<String>,
    /// The port it listens on.
    #[serde(deserialize_with = "or_default")]
    pub port: String,
    /// Its settings.
    pub proxy: Option<ConnectProxy>,
    /// Whether its default TCP check is left out.
    #[serde(rename = "DisableDefaultTCPCheck", deserialize_with = "or_default")]
    pub disable_default_tcp_check: bool,
    /// Metadata of the proxy's own service.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
}

/// Changes to the task that runs a proxy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct SidecarTask {
    /// The task's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The driver.
    #[serde(deserialize_with = "or_default")]
    pub driver: String,
    /// The operating-system user.
    #[serde(deserialize_with = "or_default")]
    pub user: String,
    /// The driver's settings.
    #[serde(with = "nullable")]
    pub config: BTreeMap<String, serde_json::Value>,
    /// Environment variables.
    #[serde(with = "nullable")]
    pub env: BTreeMap<String, String>,
    /// What it needs of a node.
    pub resources: Option<Resources>,
    /// Metadata.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Time between asking it to stop and killing it.
    #[serde(with = "duration::ns_option")]
    pub kill_timeout: Option<Duration>,
    /// Rotation of its output.
    pub log_config: Option<LogConfig>,
    /// Wait before it is stopped.
    #[serde(with = "duration::ns_option")]
    pub shutdown_delay: Option<Duration>,
    /// The signal that asks it to stop.
    #[serde(deserialize_with = "or_default")]
    pub kill_signal: String,
    /// Volumes it sees.
    #[serde(with = "nullable")]
    pub volume_mounts: Vec<VolumeMount>,
}

/// Settings of a proxy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, from = "ConnectProxySent")]
pub struct ConnectProxy {
    /// The address of the local service.
    pub local_service_address: String,
    /// The port of the local service.
    pub local_service_port: u32,
    /// Paths exposed without the mesh.
    pub expose: Option<ExposeConfig>,
    /// Services that the task reaches through the proxy.
    #[serde(with = "nullable")]
    pub upstreams: Vec<Upstream>,
    /// Whether all traffic goes through the proxy.
    pub transparent_proxy: Option<TransparentProxy>,
    /// The proxy's own settings.
    #[serde(with = "nullable")]
    pub config: BTreeMap<String, serde_json::Value>,
}

/// [`ConnectProxy`] as clients send it: Nomad's own client names what is exposed twice in one
/// document, by its present and by an older name, and leaves one of them null.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ConnectProxySent {
    #[serde(deserialize_with = "or_default")]
    local_service_address: String,
    #[serde(deserialize_with = "or_default")]
    local_service_port: u32,
    expose: Option<ExposeConfig>,
    expose_config: Option<ExposeConfig>,
    #[serde(with = "nullable")]
    upstreams: Vec<Upstream>,
    transparent_proxy: Option<TransparentProxy>,
    #[serde(with = "nullable")]
    config: BTreeMap<String, serde_json::Value>,
}

impl From<ConnectProxySent> for ConnectProxy {
    fn from(sent: ConnectProxySent) -> Self {
        let ConnectProxySent {
            local_service_address,
            local_service_port,
            expose,
            expose_config,
            upstreams,
            transparent_proxy,
            config,
        } = sent;
        Self {
            local_service_address,
            local_service_port,
            expose: expose.or(expose_config),
            upstreams,
            transparent_proxy,
            config,
        }
    }
}

/// A service that a task reaches through its proxy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Upstream {
    /// The service.
    #[serde(deserialize_with = "or_default")]
    pub destination_name: String,
    /// Its namespace.
    #[serde(deserialize_with = "or_default")]
    pub destination_namespace: String,
    /// Its cluster peer.
    #[serde(deserialize_with = "or_default")]
    pub destination_peer: String,
    /// Its partition.
    #[serde(deserialize_with = "or_default")]
    pub destination_partition: String,
    /// `service` or `prepared_query`.
    #[serde(deserialize_with = "or_default")]
    pub destination_type: String,
    /// The local port.
    #[serde(deserialize_with = "or_default")]
    pub local_bind_port: u32,
    /// The local address.
    #[serde(deserialize_with = "or_default")]
    pub local_bind_address: String,
    /// The local Unix socket.
    #[serde(deserialize_with = "or_default")]
    pub local_bind_socket_path: String,
    /// Permissions of that socket.
    #[serde(deserialize_with = "or_default")]
    pub local_bind_socket_mode: String,
    /// Its datacenter.
    #[serde(deserialize_with = "or_default")]
    pub datacenter: String,
    /// How it is reached over gateways.
    pub mesh_gateway: Option<MeshGateway>,
    /// The proxy's own settings.
    #[serde(with = "nullable")]
    pub config: BTreeMap<String, serde_json::Value>,
}

/// How other datacenters are reached.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MeshGateway {
    /// `local`, `remote` or `none`.
    #[serde(deserialize_with = "or_default")]
    pub mode: String,
}

/// Paths exposed without the mesh.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default, from = "ExposeConfigSent")]
pub struct ExposeConfig {
    /// The paths.
    #[serde(with = "nullable")]
    pub paths: Vec<ExposePath>,
}

/// [`ExposeConfig`] as clients send it: by two names, as in [`ConnectProxySent`].
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ExposeConfigSent {
    #[serde(with = "nullable")]
    paths: Vec<ExposePath>,
    #[serde(with = "nullable")]
    path: Vec<ExposePath>,
}

impl From<ExposeConfigSent> for ExposeConfig {
    fn from(ExposeConfigSent { paths, path }: ExposeConfigSent) -> Self {
        Self {
            paths: if paths.is_empty() { path } else { paths },
        }
    }
}

/// One path exposed without the mesh.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ExposePath {
    /// The path.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// `http` or `http2`.
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
    /// The local service's port.
    #[serde(deserialize_with = "or_default")]
    pub local_path_port: u32,
    /// The label of the port that listens.
    #[serde(deserialize_with = "or_default")]
    pub listener_port: String,
}

/// Redirection of all of a group's traffic through its proxy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TransparentProxy {
    /// The proxy's user.
    #[serde(rename = "UID", deserialize_with = "or_default")]
    pub uid: String,
    /// The port that takes outbound traffic.
    #[serde(deserialize_with = "or_default")]
    pub outbound_port: u32,
    /// Inbound ports left alone.
    #[serde(with = "nullable")]
    pub exclude_inbound_ports: Vec<String>,
    /// Outbound ports left alone.
    #[serde(with = "nullable")]
    pub exclude_outbound_ports: Vec<u32>,
    /// Outbound networks left alone.
    #[serde(rename = "ExcludeOutboundCIDRs", with = "nullable")]
    pub exclude_outbound_cidrs: Vec<String>,
    /// Users left alone.
    #[serde(rename = "ExcludeUIDs", with = "nullable")]
    pub exclude_uids: Vec<String>,
    /// Whether name resolution is left alone.
    #[serde(rename = "NoDNS", deserialize_with = "or_default")]
    pub no_dns: bool,
}
