//! The servers.

use serde_json::Value;

use crate::endpoint::Parameter;
use crate::operation::operations;

operations! {
    /// say who leads
    Leader {} -> String = get("/v1/status/leader").of_server().open();
    /// list the addresses of the servers
    Peers {} -> Vec<String> = get("/v1/status/peers").of_server();
    /// list the regions; there is one
    Regions {} -> Vec<String> = get("/v1/regions").of_server();
    /// describe this server
    AgentSelf {} -> Value = get("/v1/agent/self").of_server();
    /// list the servers, as this one sees them
    AgentMembers {} -> Value = get("/v1/agent/members").of_server();
    /// list the addresses of the servers
    AgentServers {} -> Vec<String> = get("/v1/agent/servers").of_server();
    /// 200 for a voter that has applied what a majority had when it was asked; else 500, and why
    AgentHealth {} -> Value = get("/v1/agent/health").of_server().open().parameters(&[
        Parameter::text("type", "`server` or `client`"),
    ]);
    /// read the server's metrics
    Metrics {} -> Value = get("/v1/metrics").of_server().parameters(&[
        Parameter::text("format", "`prometheus`: not JSON, but its text format"),
    ]);
    /// describe this API (OpenAPI 3.1)
    OpenApi {} -> Value = get("/v1/openapi.json").of_server();
}
