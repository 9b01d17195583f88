//! How work is restarted, replaced, updated and scaled.

use super::{Schema, count, duration, flag, free, labelled, schema, size, text};
use crate::decode::{DecodedBlock, Problems};
use serde_json::json;

pub(super) static RESTART: Schema = schema(
    "restart",
    &[
        count("attempts", "Attempts"),
        duration("interval", "Interval"),
        duration("delay", "Delay"),
        text("mode", "Mode"),
        flag("render_templates", "RenderTemplates"),
    ],
);

pub(super) static RESCHEDULE: Schema = schema(
    "reschedule",
    &[
        count("attempts", "Attempts"),
        duration("interval", "Interval"),
        duration("delay", "Delay"),
        text("delay_function", "DelayFunction"),
        duration("max_delay", "MaxDelay"),
        flag("unlimited", "Unlimited"),
    ],
);

pub(super) static DISCONNECT: Schema = schema(
    "disconnect",
    &[
        duration("lost_after", "LostAfter"),
        duration("stop_on_client_after", "StopOnClientAfter"),
        flag("replace", "Replace"),
        text("reconcile", "Reconcile"),
    ],
);

pub(super) static UPDATE: Schema = schema(
    "update",
    &[
        duration("stagger", "Stagger"),
        count("max_parallel", "MaxParallel"),
        text("health_check", "HealthCheck"),
        duration("min_healthy_time", "MinHealthyTime"),
        duration("healthy_deadline", "HealthyDeadline"),
        duration("progress_deadline", "ProgressDeadline"),
        count("canary", "Canary"),
        flag("auto_revert", "AutoRevert"),
        flag("auto_promote", "AutoPromote"),
    ],
);

pub(super) static MIGRATE: Schema = schema(
    "migrate",
    &[
        count("max_parallel", "MaxParallel"),
        text("health_check", "HealthCheck"),
        duration("min_healthy_time", "MinHealthyTime"),
        duration("healthy_deadline", "HealthyDeadline"),
    ],
);

pub(super) static EPHEMERAL_DISK: Schema = schema(
    "ephemeral_disk",
    &[
        flag("sticky", "Sticky"),
        flag("migrate", "Migrate"),
        size("size", "SizeMB"),
    ],
);

/// Horizontal scaling, in groups.
pub(super) static SCALING: Schema = schema(
    "scaling",
    &[
        count("min", "Min"),
        count("max", "Max"),
        flag("enabled", "Enabled"),
        text("type", "Type"),
        free("policy", "Policy"),
    ],
);

/// Vertical scaling, in tasks: the label says of what.
pub(super) static TASK_SCALING: Schema = labelled(
    "scaling",
    "~resource",
    &[
        count("min", "Min"),
        count("max", "Max"),
        flag("enabled", "Enabled"),
        free("policy", "Policy"),
    ],
)
.finish(finish_task_scaling);

fn finish_task_scaling(block: &mut DecodedBlock, problems: &mut Problems<'_>) {
    let Some(resource) = block.take("~resource") else {
        return;
    };
    match resource.as_str() {
        Some("cpu") => block.default("Type", json!("vertical_cpu")),
        Some("mem") => block.default("Type", json!("vertical_mem")),
        _ => problems.report(
            &block.span,
            "a task scales by `cpu` or `mem`",
            Some("write `scaling \"cpu\" { ... }`".to_owned()),
        ),
    }
}
