//! Gateways of the service mesh.

use super::{
    Schema, block, blocks, count, duration, flag, free, keyed, labelled, port_number, schema, text,
    text_map, texts,
};

pub(super) static GATEWAY: Schema = schema(
    "gateway",
    &[
        block("Proxy", &PROXY),
        block("Ingress", &INGRESS),
        block("Terminating", &TERMINATING),
        block("Mesh", &MESH),
    ],
);

static PROXY: Schema = schema(
    "proxy",
    &[
        duration("connect_timeout", "ConnectTimeout"),
        flag(
            "envoy_gateway_bind_tagged_addresses",
            "EnvoyGatewayBindTaggedAddresses",
        ),
        keyed("EnvoyGatewayBindAddresses", &BIND_ADDRESS),
        flag("envoy_gateway_no_default_bind", "EnvoyGatewayNoDefaultBind"),
        text("envoy_dns_discovery_type", "EnvoyDNSDiscoveryType"),
        free("config", "Config"),
    ],
);

static BIND_ADDRESS: Schema = labelled(
    "envoy_gateway_bind_addresses",
    "Name",
    &[text("address", "Address"), port_number("port", "Port")],
);

static INGRESS: Schema = schema(
    "ingress",
    &[block("TLS", &TLS), blocks("Listeners", &LISTENER)],
);

static TLS: Schema = schema(
    "tls",
    &[
        flag("enabled", "Enabled"),
        text("tls_min_version", "TLSMinVersion"),
        text("tls_max_version", "TLSMaxVersion"),
        texts("cipher_suites", "CipherSuites"),
        block("SDS", &SDS),
    ],
);

static SDS: Schema = schema(
    "sds",
    &[
        text("cluster_name", "ClusterName"),
        text("cert_resource", "CertResource"),
    ],
);

static LISTENER: Schema = schema(
    "listener",
    &[
        port_number("port", "Port"),
        text("protocol", "Protocol"),
        blocks("Services", &INGRESS_SERVICE),
    ],
);

static INGRESS_SERVICE: Schema = schema(
    "service",
    &[
        text("name", "Name"),
        texts("hosts", "Hosts"),
        block("TLS", &TLS),
        block("RequestHeaders", &REQUEST_HEADERS),
        block("ResponseHeaders", &RESPONSE_HEADERS),
        count("max_connections", "MaxConnections"),
        count("max_pending_requests", "MaxPendingRequests"),
        count("max_concurrent_requests", "MaxConcurrentRequests"),
    ],
);

static REQUEST_HEADERS: Schema = schema(
    "request_headers",
    &[
        text_map("add", "Add"),
        text_map("set", "Set"),
        texts("remove", "Remove"),
    ],
);

static RESPONSE_HEADERS: Schema = schema(
    "response_headers",
    &[
        text_map("add", "Add"),
        text_map("set", "Set"),
        texts("remove", "Remove"),
    ],
);

static TERMINATING: Schema = schema("terminating", &[blocks("Services", &LINKED_SERVICE)]);

static LINKED_SERVICE: Schema = schema(
    "service",
    &[
        text("name", "Name"),
        text("ca_file", "CAFile"),
        text("cert_file", "CertFile"),
        text("key_file", "KeyFile"),
        text("sni", "SNI"),
    ],
);

static MESH: Schema = schema("mesh", &[]);
