//! The service mesh: `connect`, its sidecar and its upstreams.

use super::gateway::GATEWAY;
use super::resources::RESOURCES;
use super::task::LOGS;
use super::volume::VOLUME_MOUNT;
use super::{
    Kind, Schema, block, blocks, duration, field, flag, free, port_number, schema, text, text_map,
    texts,
};

pub(super) static CONNECT: Schema = schema(
    "connect",
    &[
        flag("native", "Native"),
        block("Gateway", &GATEWAY),
        block("SidecarService", &SIDECAR_SERVICE),
        block("SidecarTask", &SIDECAR_TASK),
    ],
);

static SIDECAR_SERVICE: Schema = schema(
    "sidecar_service",
    &[
        texts("tags", "Tags"),
        text("port", "Port"),
        flag("disable_default_tcp_check", "DisableDefaultTCPCheck"),
        text_map("meta", "Meta"),
        block("Proxy", &PROXY),
    ],
);

static SIDECAR_TASK: Schema = schema(
    "sidecar_task",
    &[
        text("name", "Name"),
        text("driver", "Driver"),
        text("user", "User"),
        free("config", "Config"),
        text_map("env", "Env"),
        text_map("meta", "Meta"),
        text("kill_signal", "KillSignal"),
        duration("kill_timeout", "KillTimeout"),
        duration("shutdown_delay", "ShutdownDelay"),
        block("Resources", &RESOURCES),
        block("LogConfig", &LOGS),
        blocks("VolumeMounts", &VOLUME_MOUNT),
    ],
);

static PROXY: Schema = schema(
    "proxy",
    &[
        text("local_service_address", "LocalServiceAddress"),
        port_number("local_service_port", "LocalServicePort"),
        free("config", "Config"),
        block("Expose", &EXPOSE),
        blocks("Upstreams", &UPSTREAMS),
        block("TransparentProxy", &TRANSPARENT_PROXY),
    ],
);

static EXPOSE: Schema = schema("expose", &[blocks("Paths", &EXPOSE_PATH)]);

static EXPOSE_PATH: Schema = schema(
    "path",
    &[
        text("path", "Path"),
        text("protocol", "Protocol"),
        port_number("local_path_port", "LocalPathPort"),
        text("listener_port", "ListenerPort"),
    ],
);

static UPSTREAMS: Schema = schema(
    "upstreams",
    &[
        text("destination_name", "DestinationName"),
        text("destination_namespace", "DestinationNamespace"),
        text("destination_peer", "DestinationPeer"),
        text("destination_partition", "DestinationPartition"),
        text("destination_type", "DestinationType"),
        port_number("local_bind_port", "LocalBindPort"),
        text("local_bind_address", "LocalBindAddress"),
        text("local_bind_socket_path", "LocalBindSocketPath"),
        text("local_bind_socket_mode", "LocalBindSocketMode"),
        text("datacenter", "Datacenter"),
        free("config", "Config"),
        block("MeshGateway", &MESH_GATEWAY),
    ],
);

static MESH_GATEWAY: Schema = schema("mesh_gateway", &[text("mode", "Mode")]);

static TRANSPARENT_PROXY: Schema = schema(
    "transparent_proxy",
    &[
        text("uid", "UID"),
        port_number("outbound_port", "OutboundPort"),
        texts("exclude_inbound_ports", "ExcludeInboundPorts"),
        field(
            "exclude_outbound_ports",
            "ExcludeOutboundPorts",
            Kind::Wholes,
        ),
        texts("exclude_outbound_cidrs", "ExcludeOutboundCIDRs"),
        texts("exclude_uids", "ExcludeUIDs"),
        flag("no_dns", "NoDNS"),
    ],
);
