//! Services of a group or task, and their checks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::connect::Connect;
use crate::duration;
use crate::identity::WorkloadIdentity;
use crate::nullable;
use crate::nullable::or_default;

/// Something others can reach.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Service {
    /// The name; `""` becomes `JOB-GROUP-TASK`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The task that a group's service belongs to.
    #[serde(deserialize_with = "or_default")]
    pub task_name: String,
    /// The port's label, or its number.
    #[serde(deserialize_with = "or_default")]
    pub port_label: String,
    /// Which address is registered: `auto`, `alloc`, `alloc_ipv6`, `host`, `driver`; `""` becomes
    /// `auto`.
    #[serde(deserialize_with = "or_default")]
    pub address_mode: String,
    /// A fixed address.
    #[serde(deserialize_with = "or_default")]
    pub address: String,
    /// Tags.
    #[serde(with = "nullable")]
    pub tags: Vec<String>,
    /// Tags of canaries.
    #[serde(with = "nullable")]
    pub canary_tags: Vec<String>,
    /// Whether tags changed from outside stay.
    #[serde(deserialize_with = "or_default")]
    pub enable_tag_override: bool,
    /// Health checks.
    #[serde(with = "nullable")]
    pub checks: Vec<ServiceCheck>,
    /// Restart on failing checks, for all checks of the service.
    pub check_restart: Option<CheckRestart>,
    /// Service mesh settings.
    pub connect: Option<Connect>,
    /// Metadata.
    #[serde(with = "nullable")]
    pub meta: BTreeMap<String, String>,
    /// Metadata of canaries.
    #[serde(with = "nullable")]
    pub canary_meta: BTreeMap<String, String>,
    /// Further addresses by name.
    #[serde(with = "nullable")]
    pub tagged_addresses: BTreeMap<String, String>,
    /// Which check results matter for a rollout; `""` becomes `require_healthy`.
    #[serde(deserialize_with = "or_default")]
    pub on_update: String,
    /// The identity that registers it.
    pub identity: Option<WorkloadIdentity>,
    /// `consul` or `nomad`; `""` becomes `consul`.
    #[serde(deserialize_with = "or_default")]
    pub provider: String,
    /// The configured Consul cluster; `""` becomes `default` for provider `consul`.
    #[serde(deserialize_with = "or_default")]
    pub cluster: String,
    /// The Consul kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// Weights in DNS answers.
    pub weights: Option<ServiceWeights>,
}

/// Weights of a service in DNS answers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ServiceWeights {
    /// While its checks pass.
    #[serde(deserialize_with = "or_default")]
    pub passing: u32,
    /// While one warns.
    #[serde(deserialize_with = "or_default")]
    pub warning: u32,
}

/// A health check of a service.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ServiceCheck {
    /// The name; `""` becomes `service: NAME check`.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `http`, `tcp`, `grpc` or `script`.
    #[serde(rename = "Type", deserialize_with = "or_default")]
    pub check_type: String,
    /// The program of a script check.
    #[serde(deserialize_with = "or_default")]
    pub command: String,
    /// Its arguments.
    #[serde(with = "nullable")]
    pub args: Vec<String>,
    /// The path of an HTTP check.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// `http` or `https`.
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
    /// The port's label; `""` is the service's.
    #[serde(deserialize_with = "or_default")]
    pub port_label: String,
    /// Whether the path is exposed through the service mesh.
    #[serde(deserialize_with = "or_default")]
    pub expose: bool,
    /// Which address is checked.
    #[serde(deserialize_with = "or_default")]
    pub address_mode: String,
    /// An address other than the service's to check.
    #[serde(
        skip_serializing_if = "String::is_empty",
        deserialize_with = "or_default"
    )]
    pub advertise: String,
    /// Time between checks.
    #[serde(with = "duration::ns")]
    pub interval: Duration,
    /// How long one may take.
    #[serde(with = "duration::ns")]
    pub timeout: Duration,
    /// The state before the first result.
    #[serde(deserialize_with = "or_default")]
    pub initial_status: String,
    /// Free text.
    #[serde(deserialize_with = "or_default")]
    pub notes: String,
    /// The server name of TLS checks.
    #[serde(rename = "TLSServerName", deserialize_with = "or_default")]
    pub tls_server_name: String,
    /// Whether certificates are not checked.
    #[serde(rename = "TLSSkipVerify", deserialize_with = "or_default")]
    pub tls_skip_verify: bool,
    /// HTTP headers.
    #[serde(with = "nullable")]
    pub header: BTreeMap<String, Vec<String>>,
    /// The HTTP method.
    #[serde(deserialize_with = "or_default")]
    pub method: String,
    /// The HTTP body.
    #[serde(deserialize_with = "or_default")]
    pub body: String,
    /// Restart on failure.
    pub check_restart: Option<CheckRestart>,
    /// The gRPC service.
    #[serde(rename = "GRPCService", deserialize_with = "or_default")]
    pub grpc_service: String,
    /// Whether gRPC uses TLS.
    #[serde(rename = "GRPCUseTLS", deserialize_with = "or_default")]
    pub grpc_use_tls: bool,
    /// The task in which a script check runs.
    #[serde(deserialize_with = "or_default")]
    pub task_name: String,
    /// Passing results before it counts as passing.
    #[serde(deserialize_with = "or_default")]
    pub success_before_passing: u32,
    /// Failing results before it counts as critical.
    #[serde(deserialize_with = "or_default")]
    pub failures_before_critical: u32,
    /// Failing results before it counts as a warning.
    #[serde(deserialize_with = "or_default")]
    pub failures_before_warning: u32,
    /// Which results matter for a rollout.
    #[serde(deserialize_with = "or_default")]
    pub on_update: String,
}

/// Restart of a task whose check fails.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CheckRestart {
    /// Failures in a row before the restart; 0 never restarts.
    #[serde(deserialize_with = "or_default")]
    pub limit: u32,
    /// Wait after a start before failures count; absent becomes 1 s.
    #[serde(with = "duration::ns_option")]
    pub grace: Option<Duration>,
    /// Whether warnings count as passing.
    #[serde(deserialize_with = "or_default")]
    pub ignore_warnings: bool,
}
