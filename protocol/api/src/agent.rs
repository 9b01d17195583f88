//! The servers.

use std::collections::BTreeMap;

use protocol_model::nullable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::endpoint::Parameter;
use crate::needs::{AGENT_READ, NODE_READ, NOTHING, PUBLIC};
use crate::operation::operations;

operations! {
    /// say who leads
    Leader {} -> String = get("/v1/status/leader", PUBLIC).of_server();
    /// list the addresses of the servers
    Peers {} -> Vec<String> = get("/v1/status/peers", PUBLIC).of_server();
    /// list the regions; there is one
    Regions {} -> Vec<String> = get("/v1/regions", PUBLIC).of_server();
    /// describe this server
    AgentSelf {} -> AgentDescription = get("/v1/agent/self", AGENT_READ).of_server();
    /// list the servers, as this one sees them
    AgentMembers {} -> MemberList = get("/v1/agent/members", NODE_READ).of_server();
    /// list the addresses of the servers
    AgentServers {} -> Vec<String> = get("/v1/agent/servers", AGENT_READ).of_server();
    /// 200 for a voter that has applied what a majority had when it was asked; else 500, and why
    AgentHealth {} -> Health = get("/v1/agent/health", PUBLIC).of_server().parameters(&[
        Parameter::text("type", "`server` or `client`"),
    ]);
    /// read the server's metrics
    Metrics {} -> Value = get("/v1/metrics", NOTHING).of_server().parameters(&[
        Parameter::text("format", "`prometheus`: not JSON, but its text format"),
    ]);
    /// describe this API (OpenAPI 3.1)
    OpenApi {} -> Value = get("/v1/openapi.json", PUBLIC).of_server();
}

/// The answer of [`AgentMembers`].
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct MemberList {
    #[serde(deserialize_with = "nullable::deserialize")]
    pub members: Vec<Member>,
    /// The datacenter of the server that answers.
    #[serde(rename = "ServerDC")]
    pub server_dc: String,
    pub server_name: String,
    pub server_region: String,
}

/// A server.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Member {
    /// The host of its address.
    pub addr: String,
    pub delegate_cur: u8,
    pub delegate_max: u8,
    pub delegate_min: u8,
    pub name: String,
    /// The port of its address.
    pub port: u16,
    pub protocol_cur: u8,
    pub protocol_max: u8,
    pub protocol_min: u8,
    /// `alive` or `failed`.
    pub status: String,
    /// `id`, `leader`, `voter`, `http_addr`, `build`, `dc` and others.
    #[serde(deserialize_with = "nullable::deserialize")]
    pub tags: BTreeMap<String, String>,
}

/// The answer of [`AgentSelf`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentDescription {
    /// The configuration, in Nomad's names.
    pub config: Map<String, Value>,
    pub member: Member,
    /// Figures as text, by part of the server.
    pub stats: BTreeMap<String, BTreeMap<String, String>>,
}

/// The answer of [`AgentHealth`]: the parts that were asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The node that is a child of this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<HealthOfPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<HealthOfPart>,
}

/// Whether a part does its work.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthOfPart {
    /// `ok`, or the trouble.
    pub message: String,
    pub ok: bool,
}
