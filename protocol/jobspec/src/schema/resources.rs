//! What a task needs: `resources`, `device`, `numa`.

use super::network::NETWORK;
use super::placement::{AFFINITY, CONSTRAINT};
use super::{Kind, Schema, block, blocks, field, labelled, schema, size, text, texts};
use crate::decode::{DecodedBlock, Problems};
use serde_json::Value as Json;

pub(super) static RESOURCES: Schema = schema(
    "resources",
    &[
        size("cpu", "CPU"),
        size("cores", "Cores"),
        size("memory", "MemoryMB"),
        field(
            "memory_max",
            "MemoryMaxMB",
            Kind::Whole {
                min: -1,
                max: i64::MAX,
            },
        ),
        size("disk", "DiskMB"),
        size("iops", "IOPS"),
        size("secrets", "SecretsMB"),
        blocks("Networks", &NETWORK),
        blocks("Devices", &DEVICE),
        block("NUMA", &NUMA),
    ],
)
.finish(finish_resources);

static DEVICE: Schema = labelled(
    "device",
    "Name",
    &[
        size("count", "Count"),
        blocks("Constraints", &CONSTRAINT),
        blocks("Affinities", &AFFINITY),
    ],
);

static NUMA: Schema = schema(
    "numa",
    &[text("affinity", "Affinity"), texts("devices", "Devices")],
);

/// A task has one network at most (the form from before groups had networks).
fn finish_resources(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    let networks = block
        .object
        .get("Networks")
        .and_then(Json::as_array)
        .map_or(0, Vec::len);
    if networks > 1 {
        problems.report(
            &block.span_of("network"),
            "a task can have one `network` only",
            Some("give the group the network, and the port blocks to it".to_owned()),
        );
    }
}
