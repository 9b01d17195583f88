//! A node pool: `node_pool`, which no job file holds.

use super::{Kind, Schema, block, field, flag, labelled, schema, text, text_map};
use crate::decode::{DecodedBlock, Problems};

pub(crate) static NODE_POOL: Schema = labelled(
    "node_pool",
    "Name",
    &[
        text("description", "Description"),
        text_map("meta", "Meta"),
        text("node_identity_ttl", "~node_identity_ttl"),
        block("SchedulerConfiguration", &SCHEDULER_CONFIG),
    ],
)
.finish(finish_pool);

static SCHEDULER_CONFIG: Schema = schema(
    "scheduler_config",
    &[
        field(
            "scheduler_algorithm",
            "SchedulerAlgorithm",
            Kind::Choice(&["binpack", "spread"]),
        ),
        flag(
            "memory_oversubscription_enabled",
            "MemoryOversubscriptionEnabled",
        ),
    ],
);

fn finish_pool(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    if block.take("~node_identity_ttl").is_some() {
        problems.report(
            &block.span_of("node_identity_ttl"),
            "`node_identity_ttl` has no effect: nodes have no identity tokens in this release",
            Some("leave it out".to_owned()),
        );
    }
}
