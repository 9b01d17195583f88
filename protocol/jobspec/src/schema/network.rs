//! The `network` block. Its ports are one kind of block in a file and two lists in the API:
//! those with a static number, and those that get one.

use super::{
    Field, Kind, Schema, block, blocks, field, flag, labelled, port_number, schema, size, text,
    text_map, texts,
};
use crate::decode::{DecodedBlock, Problems};
use serde_json::{Value as Json, json};

pub(super) static NETWORK: Schema = schema(
    "network",
    &[
        text("mode", "Mode"),
        text("device", "Device"),
        text("cidr", "CIDR"),
        text("ip", "IP"),
        text("hostname", "Hostname"),
        size("mbits", "MBits"),
        blocks("~ports", &PORT),
        block("DNS", &DNS),
        block("CNI", &CNI),
    ],
)
.finish(finish_network);

static PORT_FIELDS: &[Field] = &[
    port_number("static", "Value"),
    // -1 maps the port to the same number inside.
    field(
        "to",
        "To",
        Kind::Whole {
            min: -1,
            max: 65535,
        },
    ),
    text("host_network", "HostNetwork"),
    flag("ignore_collision", "IgnoreCollision"),
];

static PORT: Schema = labelled("port", "Label", PORT_FIELDS).finish(finish_port);

static DNS: Schema = schema(
    "dns",
    &[
        texts("servers", "Servers"),
        texts("searches", "Searches"),
        texts("options", "Options"),
    ],
);

static CNI: Schema = schema("cni", &[text_map("args", "Args")]);

/// A label becomes part of environment variable names.
fn finish_port(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    let label = block
        .object
        .get("Label")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if label.is_empty() || !label.chars().all(fits) {
        let message = format!("`{label}` cannot name a port");
        let hint = "use letters, digits, `_` and `-`".to_owned();
        problems.report(&block.span, message, Some(hint));
    }
}

fn finish_network(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    let Some(Json::Array(ports)) = block.take("~ports") else {
        return;
    };
    let mut labels: Vec<&str> = ports
        .iter()
        .filter_map(|port| port["Label"].as_str())
        .collect();
    labels.sort_unstable();
    for pair in labels.windows(2) {
        if pair[0] == pair[1] {
            let message = format!("two ports are named `{}`", pair[0]);
            problems.report(&block.span, message, None);
        }
    }
    let (reserved, dynamic): (Vec<Json>, Vec<Json>) = ports
        .into_iter()
        .partition(|port| port["Value"].as_u64().unwrap_or(0) > 0);
    for (key, list) in [("ReservedPorts", reserved), ("DynamicPorts", dynamic)] {
        if !list.is_empty() {
            block.default(key, json!(list));
        }
    }
}
