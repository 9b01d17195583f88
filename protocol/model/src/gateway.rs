//! Service mesh gateways: ingress, terminating, mesh.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::nullable;
use crate::nullable::or_default;

/// A service that is a gateway of the mesh.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ConnectGateway {
    /// Settings of its proxy.
    pub proxy: Option<GatewayProxy>,
    /// Set for gateways into the mesh.
    pub ingress: Option<IngressGateway>,
    /// Set for gateways out of the mesh.
    pub terminating: Option<TerminatingGateway>,
    /// Set for gateways between meshes.
    pub mesh: Option<MeshGatewayEntry>,
}

/// Settings of a gateway's proxy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GatewayProxy {
    /// How long a connection may take to open.
    #[serde(with = "duration::ns_option")]
    pub connect_timeout: Option<Duration>,
    /// Whether it listens on the service's tagged addresses.
    #[serde(deserialize_with = "or_default")]
    pub envoy_gateway_bind_tagged_addresses: bool,
    /// Addresses it listens on.
    #[serde(with = "nullable")]
    pub envoy_gateway_bind_addresses: BTreeMap<String, GatewayBindAddress>,
    /// Whether it does not listen on the default address.
    #[serde(deserialize_with = "or_default")]
    pub envoy_gateway_no_default_bind: bool,
    /// How it resolves names.
    #[serde(rename = "EnvoyDNSDiscoveryType", deserialize_with = "or_default")]
    pub envoy_dns_discovery_type: String,
    /// The proxy's own settings.
    #[serde(with = "nullable")]
    pub config: BTreeMap<String, serde_json::Value>,
}

/// An address that a gateway listens on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GatewayBindAddress {
    /// The listener.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The address.
    #[serde(deserialize_with = "or_default")]
    pub address: String,
    /// The port.
    #[serde(deserialize_with = "or_default")]
    pub port: u32,
}

/// A gateway into the mesh.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IngressGateway {
    /// TLS settings.
    #[serde(rename = "TLS")]
    pub tls: Option<GatewayTls>,
    /// The listeners.
    #[serde(with = "nullable")]
    pub listeners: Vec<IngressListener>,
}

/// TLS settings of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GatewayTls {
    /// Whether TLS is on.
    #[serde(deserialize_with = "or_default")]
    pub enabled: bool,
    /// The least version.
    #[serde(rename = "TLSMinVersion", deserialize_with = "or_default")]
    pub tls_min_version: String,
    /// The largest version.
    #[serde(rename = "TLSMaxVersion", deserialize_with = "or_default")]
    pub tls_max_version: String,
    /// Allowed cipher suites.
    #[serde(with = "nullable")]
    pub cipher_suites: Vec<String>,
    /// Where certificates come from.
    #[serde(rename = "SDS")]
    pub sds: Option<GatewaySds>,
}

/// Where a gateway's certificates come from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GatewaySds {
    /// The cluster that serves them.
    #[serde(deserialize_with = "or_default")]
    pub cluster_name: String,
    /// The certificate.
    #[serde(deserialize_with = "or_default")]
    pub cert_resource: String,
}

/// A listener of an ingress gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IngressListener {
    /// The port.
    #[serde(deserialize_with = "or_default")]
    pub port: u32,
    /// `tcp`, `http`, `http2` or `grpc`.
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
    /// The services behind it.
    #[serde(with = "nullable")]
    pub services: Vec<IngressService>,
}

/// A service behind an ingress listener.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IngressService {
    /// The service, or `*`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The hosts it answers for.
    #[serde(with = "nullable")]
    pub hosts: Vec<String>,
    /// TLS settings.
    #[serde(rename = "TLS")]
    pub tls: Option<GatewayTls>,
    /// Changes to requests' headers.
    pub request_headers: Option<HeaderModifiers>,
    /// Changes to responses' headers.
    pub response_headers: Option<HeaderModifiers>,
    /// The most connections.
    pub max_connections: Option<u32>,
    /// The most waiting requests.
    pub max_pending_requests: Option<u32>,
    /// The most running requests.
    pub max_concurrent_requests: Option<u32>,
}

/// Changes to HTTP headers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct HeaderModifiers {
    /// Added.
    #[serde(with = "nullable")]
    pub add: BTreeMap<String, String>,
    /// Replaced.
    #[serde(with = "nullable")]
    pub set: BTreeMap<String, String>,
    /// Removed.
    #[serde(with = "nullable")]
    pub remove: Vec<String>,
}

/// A gateway out of the mesh.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct TerminatingGateway {
    /// The services it leads to.
    #[serde(with = "nullable")]
    pub services: Vec<LinkedService>,
}

/// A service behind a terminating gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LinkedService {
    /// The service.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its certificate authority.
    #[serde(rename = "CAFile", deserialize_with = "or_default")]
    pub ca_file: String,
    /// The client certificate.
    #[serde(deserialize_with = "or_default")]
    pub cert_file: String,
    /// The client key.
    #[serde(deserialize_with = "or_default")]
    pub key_file: String,
    /// The server name.
    #[serde(rename = "SNI", deserialize_with = "or_default")]
    pub sni: String,
}

/// A gateway between meshes: it has no settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MeshGatewayEntry {}
