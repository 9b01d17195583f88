//! Networks and ports that a group asks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::canonical::defaults::HOST_NETWORK;
use crate::nullable;
use crate::nullable::or_default;

/// A network that a group (or, in old files, a task) asks for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkResource {
    /// `host`, `bridge`, `none` or `cni/NAME`; `""` means `host`. See [`NetworkResource::mode`].
    #[serde(deserialize_with = "or_default")]
    pub mode: String,
    /// The interface; filled in for a node's networks.
    #[serde(deserialize_with = "or_default")]
    pub device: String,
    /// The network; filled in for a node's networks.
    #[serde(rename = "CIDR", deserialize_with = "or_default")]
    pub cidr: String,
    /// The address; filled in when placed.
    #[serde(rename = "IP", deserialize_with = "or_default")]
    pub ip: String,
    /// The host name inside the group's network namespace.
    #[serde(deserialize_with = "or_default")]
    pub hostname: String,
    /// Obsolete bandwidth; kept because clients send it.
    #[serde(rename = "MBits")]
    pub mbits: Option<u64>,
    /// Name resolution inside the tasks.
    #[serde(rename = "DNS")]
    pub dns: Option<DnsConfig>,
    /// Ports with a fixed number on the host.
    #[serde(with = "nullable")]
    pub reserved_ports: Vec<Port>,
    /// Ports whose number the scheduler picks.
    #[serde(with = "nullable")]
    pub dynamic_ports: Vec<Port>,
    /// Arguments for the CNI plugins.
    #[serde(rename = "CNI")]
    pub cni: Option<CniConfig>,
}

impl NetworkResource {
    /// The kind of network.
    pub fn mode(&self) -> NetworkMode<'_> {
        match self.mode.as_str() {
            "" | "host" => NetworkMode::Host,
            "bridge" => NetworkMode::Bridge,
            "none" => NetworkMode::None,
            other => match other.strip_prefix("cni/") {
                Some(name) if !name.is_empty() => NetworkMode::Cni(name),
                _ => NetworkMode::Unknown(other),
            },
        }
    }

    /// All ports, fixed ones first.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        self.reserved_ports.iter().chain(&self.dynamic_ports)
    }
}

/// The kinds of network a group may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NetworkMode<'a> {
    /// The host's own network.
    Host,
    /// A network namespace joined to the node's bridge.
    Bridge,
    /// A network namespace with nothing but the loopback interface.
    None,
    /// A network namespace that a CNI configuration of this name sets up.
    Cni(&'a str),
    /// None of these: refused by [`crate::Job::validate`].
    Unknown(&'a str),
}

/// A labelled port.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Port {
    /// The name by which services, checks and `NOMAD_PORT_*` refer to it.
    #[serde(deserialize_with = "or_default")]
    pub label: String,
    /// The number on the host; 0 for a dynamic port that is not placed yet.
    #[serde(deserialize_with = "or_default")]
    pub value: u32,
    /// The number inside the group's network namespace; 0 is the same mapping as given by the
    /// driver, -1 the number on the host.
    #[serde(deserialize_with = "or_default")]
    pub to: i32,
    /// The host network it is taken from; `""` becomes `default`.
    #[serde(deserialize_with = "or_default")]
    pub host_network: String,
    /// Whether other allocations may use the same fixed number.
    #[serde(
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "or_default"
    )]
    pub ignore_collision: bool,
}

impl Port {
    /// The name of its host network.
    pub fn host_network(&self) -> &str {
        match self.host_network.as_str() {
            "" => HOST_NETWORK,
            name => name,
        }
    }

    /// Whether it is on the default host network.
    pub fn is_on_default(&self) -> bool {
        self.host_network() == HOST_NETWORK
    }
}

/// Name resolution inside the tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DnsConfig {
    /// Addresses of name servers.
    #[serde(with = "nullable")]
    pub servers: Vec<String>,
    /// Search domains.
    #[serde(with = "nullable")]
    pub searches: Vec<String>,
    /// Resolver options.
    #[serde(with = "nullable")]
    pub options: Vec<String>,
}

/// The report of a node about an allocation's own network.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkStatus {
    /// The interface inside the network namespace: `eth0`.
    #[serde(deserialize_with = "or_default")]
    pub interface_name: String,
    /// Its IPv4 address; `""` = none.
    #[serde(deserialize_with = "or_default")]
    pub address: String,
    /// Its IPv6 address; `""` = none.
    #[serde(rename = "AddressIPv6", deserialize_with = "or_default")]
    pub address_ipv6: String,
    /// Name resolution inside, where the network itself says something about it.
    #[serde(rename = "DNS")]
    pub dns: Option<DnsConfig>,
}

/// Arguments for CNI plugins.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CniConfig {
    /// Key and value, passed as they are.
    #[serde(with = "nullable")]
    pub args: BTreeMap<String, String>,
}
