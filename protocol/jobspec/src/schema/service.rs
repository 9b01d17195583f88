//! The `service` block and its checks.

use super::connect::CONNECT;
use super::task::IDENTITY;
use super::{
    Field, Kind, Schema, block, blocks, count, duration, field, flag, schema, text, text_map, texts,
};

pub(super) static SERVICE: Schema = schema("service", SERVICE_FIELDS);

static SERVICE_FIELDS: &[Field] = &[
    text("name", "Name"),
    texts("tags", "Tags"),
    texts("canary_tags", "CanaryTags"),
    flag("enable_tag_override", "EnableTagOverride"),
    text("port", "PortLabel"),
    text("address_mode", "AddressMode"),
    text("address", "Address"),
    text_map("meta", "Meta"),
    text_map("canary_meta", "CanaryMeta"),
    text_map("tagged_addresses", "TaggedAddresses"),
    text("task", "TaskName"),
    text("on_update", "OnUpdate"),
    text("provider", "Provider"),
    text("cluster", "Cluster"),
    text("kind", "Kind"),
    blocks("Checks", &CHECK),
    block("CheckRestart", &CHECK_RESTART),
    block("Connect", &CONNECT),
    block("Identity", &IDENTITY),
    block("Weights", &WEIGHTS),
];

static WEIGHTS: Schema = schema(
    "weights",
    &[count("passing", "Passing"), count("warning", "Warning")],
);

static CHECK: Schema = schema(
    "check",
    &[
        text("name", "Name"),
        text("type", "Type"),
        text("command", "Command"),
        texts("args", "Args"),
        text("path", "Path"),
        text("protocol", "Protocol"),
        text("port", "PortLabel"),
        flag("expose", "Expose"),
        text("address_mode", "AddressMode"),
        text("advertise", "Advertise"),
        duration("interval", "Interval"),
        duration("timeout", "Timeout"),
        text("initial_status", "InitialStatus"),
        text("notes", "Notes"),
        text("tls_server_name", "TLSServerName"),
        flag("tls_skip_verify", "TLSSkipVerify"),
        field("header", "Header", Kind::TextsMap),
        text("method", "Method"),
        text("body", "Body"),
        text("grpc_service", "GRPCService"),
        flag("grpc_use_tls", "GRPCUseTLS"),
        text("task", "TaskName"),
        count("success_before_passing", "SuccessBeforePassing"),
        count("failures_before_critical", "FailuresBeforeCritical"),
        count("failures_before_warning", "FailuresBeforeWarning"),
        text("on_update", "OnUpdate"),
        block("CheckRestart", &CHECK_RESTART),
    ],
);

static CHECK_RESTART: Schema = schema(
    "check_restart",
    &[
        count("limit", "Limit"),
        duration("grace", "Grace"),
        flag("ignore_warnings", "IgnoreWarnings"),
    ],
);
