//! The `task` block and the small blocks inside.

use super::placement::{AFFINITY, CONSTRAINT};
use super::policies::{RESTART, TASK_SCALING, refuse_second_scaling};
use super::resources::RESOURCES;
use super::service::SERVICE;
use super::template::TEMPLATE;
use super::volume::{CSI_PLUGIN, VOLUME_MOUNT};
use super::{
    Schema, block, blocks, count, duration, flag, free, labelled, schema, text, text_map, texts,
};
use crate::decode::{DecodedBlock, Problems};
use serde_json::{Value as Json, json};

pub(super) static TASK: Schema = labelled(
    "task",
    "Name",
    &[
        text("driver", "Driver"),
        text("user", "User"),
        text("kind", "Kind"),
        flag("leader", "Leader"),
        text("kill_signal", "KillSignal"),
        duration("kill_timeout", "KillTimeout"),
        duration("shutdown_delay", "ShutdownDelay"),
        free("config", "Config"),
        text_map("env", "Env"),
        text_map("meta", "Meta"),
        blocks("Constraints", &CONSTRAINT),
        blocks("Affinities", &AFFINITY),
        blocks("Services", &SERVICE),
        blocks("Artifacts", &ARTIFACT),
        blocks("Templates", &TEMPLATE),
        blocks("VolumeMounts", &VOLUME_MOUNT),
        blocks("ScalingPolicies", &TASK_SCALING),
        blocks("Identities", &IDENTITY),
        blocks("Actions", &ACTION),
        blocks("Secrets", &SECRET),
        block("Lifecycle", &LIFECYCLE),
        block("Resources", &RESOURCES),
        block("RestartPolicy", &RESTART),
        block("LogConfig", &LOGS),
        block("Vault", &VAULT),
        block("Consul", &CONSUL),
        block("DispatchPayload", &DISPATCH_PAYLOAD),
        block("CSIPluginConfig", &CSI_PLUGIN),
        block("Schedule", &SCHEDULE),
    ],
)
.finish(finish_task);

static LIFECYCLE: Schema = schema(
    "lifecycle",
    &[text("hook", "Hook"), flag("sidecar", "Sidecar")],
);

pub(super) static LOGS: Schema = schema(
    "logs",
    &[
        count("max_files", "MaxFiles"),
        count("max_file_size", "MaxFileSizeMB"),
        flag("disabled", "Disabled"),
        flag("enabled", "Enabled"),
    ],
);

static ARTIFACT: Schema = schema(
    "artifact",
    &[
        text("source", "GetterSource"),
        text("destination", "RelativeDest"),
        text("mode", "GetterMode"),
        flag("insecure", "GetterInsecure"),
        flag("chown", "Chown"),
        text_map("options", "GetterOptions"),
        text_map("headers", "GetterHeaders"),
    ],
);

pub(super) static VAULT: Schema = schema(
    "vault",
    &[
        texts("policies", "Policies"),
        text("role", "Role"),
        text("namespace", "Namespace"),
        text("cluster", "Cluster"),
        flag("env", "Env"),
        flag("disable_file", "DisableFile"),
        text("change_mode", "ChangeMode"),
        text("change_signal", "ChangeSignal"),
        flag("allow_token_expiration", "AllowTokenExpiration"),
    ],
)
.finish(|block, _| {
    block.default("Env", json!(true));
    block.default("ChangeMode", json!("restart"));
});

pub(super) static CONSUL: Schema = schema(
    "consul",
    &[
        text("namespace", "Namespace"),
        text("cluster", "Cluster"),
        text("partition", "Partition"),
    ],
);

pub(super) static IDENTITY: Schema = schema(
    "identity",
    &[
        text("name", "Name"),
        texts("aud", "Audience"),
        text("change_mode", "ChangeMode"),
        text("change_signal", "ChangeSignal"),
        flag("env", "Env"),
        flag("file", "File"),
        text("filepath", "Filepath"),
        text("service_name", "ServiceName"),
        duration("ttl", "TTL"),
    ],
);

static ACTION: Schema = labelled(
    "action",
    "Name",
    &[text("command", "Command"), texts("args", "Args")],
);

static SECRET: Schema = labelled(
    "secret",
    "Name",
    &[
        text("provider", "Provider"),
        text("path", "Path"),
        free("config", "Config"),
        text_map("env", "Env"),
    ],
);

static DISPATCH_PAYLOAD: Schema = schema("dispatch_payload", &[text("file", "File")]);

static SCHEDULE: Schema = schema("schedule", &[block("Cron", &SCHEDULE_CRON)]);

static SCHEDULE_CRON: Schema = schema(
    "cron",
    &[
        text("start", "Start"),
        text("end", "End"),
        text("timezone", "Timezone"),
    ],
);

/// The identity without a name (or named `default`) is the task's own, the API keeps it apart.
fn finish_task(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    refuse_second_scaling(block, problems);
    let Some(Json::Array(identities)) = block.object.remove("Identities") else {
        return;
    };
    let is_default = |identity: &Json| {
        matches!(
            identity.get("Name").and_then(Json::as_str),
            None | Some("" | "default")
        )
    };
    let (own, others): (Vec<Json>, Vec<Json>) = identities.into_iter().partition(is_default);
    if own.len() > 1 {
        let message = "a task has one default identity";
        let hint = "give the others a `name`".to_owned();
        problems.report(&block.span_of("identity"), message, Some(hint));
    }
    if let Some(own) = own.into_iter().next() {
        block.default("Identity", own);
    }
    if !others.is_empty() {
        block.default("Identities", Json::Array(others));
    }
}
