//! The `job` block and what only it has.

use super::group::{GROUP, VAULT_FOR_TASKS, inherit_vault};
use super::placement::{AFFINITY, CONSTRAINT, SPREAD};
use super::policies::{MIGRATE, RESCHEDULE, UPDATE};
use super::task::TASK;
use super::{
    Field, Kind, Schema, block, blocks, count, field, flag, labelled, schema, text, text_map, texts,
};
use crate::decode::{DecodedBlock, Problems};
use serde_json::{Value as Json, json};

/// A whole job.
pub(crate) static JOB: Schema = labelled("job", "~label", JOB_FIELDS).finish(finish_job);

static JOB_FIELDS: &[Field] = &[
    text("region", "Region"),
    text("namespace", "Namespace"),
    text("id", "ID"),
    text("name", "Name"),
    field(
        "type",
        "Type",
        Kind::Choice(&["service", "batch", "system", "sysbatch"]),
    ),
    field(
        "priority",
        "Priority",
        Kind::Whole {
            min: -1,
            max: 32767,
        },
    ),
    flag("all_at_once", "AllAtOnce"),
    texts("datacenters", "Datacenters"),
    text("node_pool", "NodePool"),
    text("consul_token", "ConsulToken"),
    text("consul_namespace", "ConsulNamespace"),
    text("vault_token", "VaultToken"),
    text("vault_namespace", "VaultNamespace"),
    text_map("meta", "Meta"),
    blocks("Constraints", &CONSTRAINT),
    blocks("Affinities", &AFFINITY),
    blocks("Spreads", &SPREAD),
    blocks("TaskGroups", &GROUP),
    blocks("~tasks", &TASK),
    block("Update", &UPDATE),
    block("Reschedule", &RESCHEDULE),
    block("Migrate", &MIGRATE),
    block("Periodic", &PERIODIC),
    block("ParameterizedJob", &PARAMETERIZED),
    block("Multiregion", &MULTIREGION),
    block("UI", &UI),
    block("~vault", &VAULT_FOR_TASKS),
];

static PERIODIC: Schema = schema(
    "periodic",
    &[
        flag("enabled", "Enabled"),
        text("cron", "Spec"),
        texts("crons", "Specs"),
        flag("prohibit_overlap", "ProhibitOverlap"),
        text("time_zone", "TimeZone"),
    ],
)
.finish(|block, _| block.default("SpecType", json!("cron")));

static PARAMETERIZED: Schema = schema(
    "parameterized",
    &[
        text("payload", "Payload"),
        texts("meta_required", "MetaRequired"),
        texts("meta_optional", "MetaOptional"),
    ],
);

static MULTIREGION: Schema = schema(
    "multiregion",
    &[block("Strategy", &STRATEGY), blocks("Regions", &REGION)],
);

static STRATEGY: Schema = schema(
    "strategy",
    &[
        count("max_parallel", "MaxParallel"),
        text("on_failure", "OnFailure"),
    ],
);

static REGION: Schema = labelled(
    "region",
    "Name",
    &[
        count("count", "Count"),
        texts("datacenters", "Datacenters"),
        text("node_pool", "NodePool"),
        text_map("meta", "Meta"),
    ],
);

static UI: Schema = schema(
    "ui",
    &[text("description", "Description"), blocks("Links", &LINK)],
);

static LINK: Schema = schema("link", &[text("label", "Label"), text("url", "URL")]);

/// The label is id and name where they are not given; a task outside of a group gets one of its
/// own name, in front of the others; `vault` reaches every task without one.
fn finish_job(block: &mut DecodedBlock, _: &mut Problems<'_>) {
    if let Some(label) = block.take("~label") {
        block.default("ID", label.clone());
        let id = block.object.get("ID").cloned().unwrap_or(label);
        block.default("Name", id);
    }
    if let Some(Json::Array(tasks)) = block.take("~tasks") {
        let alone = tasks
            .into_iter()
            .map(|task| json!({ "Name": task["Name"], "Tasks": [task] }));
        let mut groups: Vec<Json> = alone.collect();
        if let Some(Json::Array(others)) = block.object.remove("TaskGroups") {
            groups.extend(others);
        }
        block
            .object
            .insert("TaskGroups".to_owned(), Json::Array(groups));
    }
    if let Some(vault) = block.take("~vault")
        && let Some(Json::Array(groups)) = block.object.get_mut("TaskGroups")
    {
        groups
            .iter_mut()
            .for_each(|group| inherit_vault(group, &vault));
    }
}
