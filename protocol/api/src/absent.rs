//! Operations of Nomad that this release lacks: answered 501 with the text that is declared here.

use crate::endpoint::Endpoint;

const EVENTS: &str = "not part of this release: the event stream";
const SERVICES: &str = "not part of this release: service discovery";
const VOLUMES: &str = "not part of this release: volumes";
const THIS: &str = "this is not part of this release";
const OPERATOR: &str = "this operator route is not part of this release";
const AGENT: &str = "this release does not steer agents over HTTP";

/// All of them.
pub(crate) const ALL: &[Endpoint] = &[
    Endpoint::absent("JobServices", "/v1/job/{id...}/services", THIS),
    Endpoint::absent(
        "AllocationChecks",
        "/v1/client/allocation/{id}/checks",
        THIS,
    ),
    Endpoint::absent(
        "AllocationSnapshot",
        "/v1/client/allocation/{id}/snapshot",
        THIS,
    ),
    Endpoint::absent("PauseAllocation", "/v1/client/allocation/{id}/pause", THIS),
    Endpoint::absent("EventStream", "/v1/event/stream", EVENTS),
    Endpoint::absent("ListServices", "/v1/services", SERVICES),
    Endpoint::absent("Service", "/v1/service/{rest...}", SERVICES),
    Endpoint::absent("ListVolumes", "/v1/volumes", VOLUMES),
    Endpoint::absent("Volume", "/v1/volume/{rest...}", VOLUMES),
    Endpoint::absent("ListPlugins", "/v1/plugins", VOLUMES),
    Endpoint::absent("Plugin", "/v1/plugin/{rest...}", VOLUMES),
    Endpoint::absent("SteerAgent", "/v1/agent/{rest...}", AGENT),
    Endpoint::absent("Autopilot", "/v1/operator/autopilot/{rest*}", OPERATOR),
    Endpoint::absent("License", "/v1/operator/license", OPERATOR),
];
