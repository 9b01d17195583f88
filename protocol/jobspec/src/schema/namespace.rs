//! A namespace: the whole file, which no job file holds.

use super::{Kind, Schema, block, field, schema, text, text_map};
use crate::decode::{DecodedBlock, Problems};

pub(crate) static NAMESPACE: Schema = schema(
    "namespace",
    &[
        text("name", "Name"),
        text("description", "Description"),
        text("quota", "Quota"),
        text_map("meta", "Meta"),
        field(
            "variables_bytes_max",
            "VariablesBytesMax",
            Kind::Whole {
                min: 0,
                max: i64::MAX,
            },
        ),
        block("Capabilities", &CAPABILITIES),
        block("NodePoolConfiguration", &NODE_POOL_CONFIG),
    ],
)
.finish(finish_namespace);

static CAPABILITIES: Schema = schema(
    "capabilities",
    &[
        field("enabled_task_drivers", "EnabledTaskDrivers", Kind::Texts),
        field("disabled_task_drivers", "DisabledTaskDrivers", Kind::Texts),
        field("enabled_network_modes", "EnabledNetworkModes", Kind::Texts),
        field(
            "disabled_network_modes",
            "DisabledNetworkModes",
            Kind::Texts,
        ),
    ],
);

static NODE_POOL_CONFIG: Schema = schema(
    "node_pool_config",
    &[
        text("default", "Default"),
        field("allowed", "Allowed", Kind::Texts),
        field("denied", "Denied", Kind::Texts),
    ],
)
.finish(finish_pools);

fn finish_namespace(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    if !block.has("name") {
        let hint = "write `name = \"NAME\"`".to_owned();
        problems.report(&(0..0), "the namespace has no `name`", Some(hint));
    }
}

fn finish_pools(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    if block.has("allowed") && block.has("denied") {
        problems.report(
            &block.span_of("denied"),
            "`allowed` and `denied` exclude each other",
            Some("leave one of them out".to_owned()),
        );
    }
}
